#include "inspect/table.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "inspect/text.h"

namespace opbridge::inspect {
namespace {

using Lines = std::vector<std::string>;

TEST(Columns, OfCharacters) {
  EXPECT_EQ(columns_of("aäπ→"), 4u);
  EXPECT_EQ(columns_of("模型のモデル한글"), 16u);
  EXPECT_EQ(columns_of("ａ！"), 4u);
  EXPECT_EQ(columns_of("😀"), 2u);
  EXPECT_EQ(columns_of("e\u0301\u200b"), 1u);
  EXPECT_EQ(columns_of(printable("\xff")), 4u);
}

TEST(Columns, FittedText) {
  EXPECT_EQ(fitted("模型", 4), "模型");
  EXPECT_EQ(fitted("模型", 3), "模…");
  EXPECT_EQ(fitted("模型", 2), "模…");
  EXPECT_EQ(fitted("model", 1), "…");
}

TEST(Wrapped, AtSpacesAndInLongWords) {
  EXPECT_EQ(wrapped("", 5), Lines{""});
  EXPECT_EQ(wrapped("one two three", 7), (Lines{"one two", "three"}));
  EXPECT_EQ(wrapped("aten::convolution there", 8), (Lines{"aten::co", "nvolutio", "n there"}));
  EXPECT_EQ(wrapped("a 模型的名字", 5), (Lines{"a", "模型", "的名", "字"}));
  EXPECT_EQ(wrapped("模型", 1), (Lines{"模", "型"}));
  EXPECT_EQ(wrapped("two words", 1, false), (Lines{"two", "words"}));
}

Table sample() {
  Table table({{"output"}, {.title = "largest difference", .is_number = true}});
  table.add({"名前", "0.5"}, true);
  table.add({"y\x1b[1m\xff", "1e-10"});
  return table;
}

TEST(Table, InAFile) {
  EXPECT_EQ(sample().text({}),
            "  output        largest difference\n"
            "  名前            0.5\n"
            "  y\\x1b[1m\\xff  1e-10\n");
}

TEST(Table, OnATerminal) {
  EXPECT_EQ(sample().text({.width = 80, .bold = true, .colours = true}),
            "\x1b[1moutput         largest difference\x1b[0m\n"
            "─────────────────────────────────\n"
            "\x1b[31m名前                          0.5\x1b[0m\n"
            "y\\x1b[1m\\xff                1e-10\n");
}

TEST(Table, InANarrowTerminal) {
  EXPECT_EQ(sample().text({.width = 21}),
            "              largest\n"
            "output     difference\n"
            "─────────────────────\n"
            "名前              0.5\n"
            "y\\x1b[1m        1e-10\n"
            "\\xff\n");
}

TEST(Table, NumbersAreNeverWrapped) {
  Table table({{"a"}, {.title = "b", .is_number = true}, {.title = "c", .is_number = true}});
  table.add({"aten::convolution", "1234567890", "1 of 12345"});
  EXPECT_EQ(table.text({.width = 10}),
            "a                   b       c\n"
            "─────────────────────────────\n"
            "aten::co   1234567890    1 of\n"
            "nvolutio                12345\n"
            "n\n");
}

TEST(Table, UnderAHeading) {
  Table table({text_column, number_column}, "operators: 12 nodes, 2 kinds");
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(table.text({}), "operators: 12 nodes, 2 kinds\n");
  table.add({"Add", "10"});
  table.add({"Relu", "2"});
  EXPECT_EQ(table.text({}), "operators: 12 nodes, 2 kinds\n  Add   10\n  Relu  2\n");
  EXPECT_EQ(table.text({.width = 20, .bold = true}),
            "\x1b[1moperators: 12 nodes,\x1b[0m\n"
            "\x1b[1m2 kinds\x1b[0m\n"
            "────────────────────\n"
            "Add    10\n"
            "Relu    2\n");
}

}  // namespace
}  // namespace opbridge::inspect

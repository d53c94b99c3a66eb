#include <gtest/gtest.h>

#include "ir/parse.h"

namespace opbridge::ir {
namespace {

std::string printed_again(std::string_view text) {
  const Graph graph = parse(text);
  verify(graph);
  return print(graph);
}

std::string refusal(std::string_view text) {
  try {
    parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

// A graph of one node with the given arguments.
std::string call(const std::string& arguments) {
  return "graph main(%x: float32[2], %y: int64[]) {\n  %z: float32[2] = ns::op(" + arguments +
         ")\n  return %z\n}\n";
}

TEST(IrParse, ReadsWhatPrintWrites) {
  for (const char* text : {
           "graph main() {\n  return\n}\n",
           "graph of weights(%x: float32[s0, 3], %n: int64 2*s0 + 1, %f: float64, %l: (float32[2], "
           "int64[...])) {\n"
           "  weight %w: float32[2, 3] = [1.0, -2.5, inf, nan, 1e-05, 0.1]\n"
           "  weight %layer1.0.conv1.weight: float32[64, 3, 7, 7]\n"
           "  weight %flags: bool[2] = [True, False]\n"
           "  weight %words: string[2] = [\"a\", \"b \\\"c\\\"\\n\"]\n"
           "  weight %none: int64[0] = []\n"
           "  weight %half: float16[2]\n"
           "  weight %\"a name, of (a) file\": uint8[] = [255]\n"
           "  %y: float32[s0, 2] = aten::linear(input=%x, weight=%w, bias=None)  # layer1.fc\n"
           "  %v:0: float32[], %v/1: undefined[...] = Split(%y, None, %\"a name, of (a) file\", axis=0)\n"
           "  aten::_assert_async(self=%v:0)\n"
           "  return %y, %v:0\n"
           "}\n",
           "graph main(%c: bool[]) {\n"
           "  weight %w: float32[] = [1.0]\n"
           "  %y: float32[] = If(%c, then_branch=graph then, else_branch=graph else)  # block\n"
           "    graph then() {\n"
           "      %r: float32[] = Relu(%w)\n"
           "      return %r\n"
           "    }\n"
           "    graph else() {\n"
           "      %r: float32[] = Neg(%w)\n"
           "      return %r\n"
           "    }\n"
           "  return %y\n"
           "}\n",
       }) {
    EXPECT_EQ(printed_again(text), text);
  }
}

TEST(IrParse, KeepsTheKindOfAnAttribute) {
  const std::pair<const char*, size_t> kinds[] = {
      {"None", AttributeValue(std::monostate()).index()},
      {"True", AttributeValue(true).index()},
      {"-3", AttributeValue(int64_t{3}).index()},
      {"3.0", AttributeValue(3.0).index()},
      {"-inf", AttributeValue(3.0).index()},
      {"complex(1.0, -2.0)", AttributeValue(std::complex<double>()).index()},
      {"\"mean\"", AttributeValue(std::string()).index()},
      {"2*s0 + 1", AttributeValue(Dim()).index()},
      {"Max(1, s0)", AttributeValue(Dim()).index()},
      {"float16", AttributeValue(ElementType::float16).index()},
      {"'cuda:0'", AttributeValue(Opaque()).index()},
      {"%x", AttributeValue(static_cast<Value*>(nullptr)).index()},
      {"[True, False]", AttributeValue(std::vector<bool>()).index()},
      {"[1, 2]", AttributeValue(std::vector<int64_t>()).index()},
      {"[]", AttributeValue(std::vector<int64_t>()).index()},
      {"[1.0, 2.5]", AttributeValue(std::vector<double>()).index()},
      {"[\"a\", \"b\"]", AttributeValue(std::vector<std::string>()).index()},
      {"[1, 2*s0]", AttributeValue(std::vector<Dim>()).index()},
      {"[None, %x]", AttributeValue(std::vector<Value*>()).index()},
      {"tensor int32[2] = [1, 2]", AttributeValue(std::shared_ptr<const Weight>()).index()},
      {"[tensor int32[] = [0], tensor bool[1] = [True]]",
       AttributeValue(std::vector<std::shared_ptr<const Weight>>()).index()},
      {"type float32[2, s0]", AttributeValue(Type()).index()},
      {"[type (float32[2], int64[]), type int64 s0]", AttributeValue(std::vector<Type>()).index()},
  };
  for (const auto& [text, index] : kinds) {
    const Graph graph = parse(call(std::string("%x, a=") + text));
    EXPECT_EQ(graph.nodes.front()->find("a")->index(), index) << text;
    EXPECT_EQ(printed_again(call(std::string("%x, a=") + text)), call(std::string("%x, a=") + text));
  }
}

TEST(IrParse, ValuesOfABodyAreOutOfSightBehindIt) {
  EXPECT_EQ(refusal("graph main(%c: bool[]) {\n"
                    "  If(%c, then_branch=graph then)\n"
                    "    graph then() {\n"
                    "      %r: float32[] = Relu(%c)\n"
                    "      return %r\n"
                    "    }\n"
                    "  return %r\n"
                    "}\n"),
            "the text of a graph has \"%r\" where a value that is made before it is used is expected\n"
            "  at line 7");
}

TEST(IrParse, RefusesOtherText) {
  EXPECT_NE(refusal("").find("\"graph\" is expected"), std::string::npos);
  EXPECT_NE(refusal("graph main() {\n  return\n}\nmore").find("\"more\""), std::string::npos);
  EXPECT_NE(refusal(call("%x, a=[1, \"a\"]")).find("of one kind"), std::string::npos);
  EXPECT_NE(refusal(call("%x, a=\"open")).find("the end of a string"), std::string::npos);
  EXPECT_NE(refusal(call("%x, a=sparse float32[2]")).find("sparse"), std::string::npos);
  EXPECT_NE(refusal(call("%x, a=tensor int8[2] = [1, 300]")).find("an element"), std::string::npos);
  EXPECT_NE(refusal(call("%x, a=tensor float16[1] = [1.0]")).find("no values"), std::string::npos);
  EXPECT_NE(refusal(call("%x, a=tensor float32[s0]")).find("the type of a constant"), std::string::npos);
  EXPECT_NE(refusal(call("%x, a=" + std::string(200, '['))).find("less nesting"), std::string::npos);
  EXPECT_NE(refusal("graph main(%x: float31[2]) {").find("an element type"), std::string::npos);
}

}  // namespace
}  // namespace opbridge::ir

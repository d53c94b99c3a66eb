#include "support/zip_archive.h"

#include <gtest/gtest.h>

#include <string>

#include "opbridge/error.h"
#include "zip_builder.h"

namespace opbridge {
namespace {

using ::testing::IsSubstring;
using Bytes = std::vector<std::byte>;

Bytes archive_of(std::vector<ZipEntry> entries, bool zip64_end = false, std::string_view comment = {}) {
  return ZipBuilder().build(entries, zip64_end, comment);
}

std::string text(const support::ZipArchive::Content& content) {
  return {reinterpret_cast<const char*>(content.bytes.data()), content.bytes.size()};
}

std::string refusal(const Bytes& bytes) {
  try {
    const support::ZipArchive archive(bytes, nullptr);
    for (const support::ZipArchive::Entry& entry : archive.entries()) archive.read_checked(entry);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_file);
    return error.what();
  }
  return "nothing was refused";
}

TEST(ZipArchive, HandsOutStoredEntriesWhereTheyLie) {
  const Bytes bytes = archive_of({{"m/a", "first"}, {"m/b", ""}, {"m/c", "third"}});
  const support::ZipArchive archive(bytes, nullptr);
  ASSERT_EQ(archive.entries().size(), 3u);
  const support::ZipArchive::Content content = archive.read(*archive.find("m/c"));
  EXPECT_EQ(text(content), "third");
  EXPECT_GE(content.bytes.data(), bytes.data());
  EXPECT_LT(content.bytes.data(), bytes.data() + bytes.size());
  EXPECT_EQ(text(archive.read_checked(*archive.find("m/b"))), "");
  EXPECT_EQ(archive.find("m/d"), nullptr);
  EXPECT_EQ(archive.find("c"), nullptr);
}

TEST(ZipArchive, KeepsTheOwnerWithTheContent) {
  auto owner = std::make_shared<Bytes>(archive_of({{"a", "text"}}));
  support::ZipArchive::Content content;
  {
    const support::ZipArchive archive(*owner, owner);
    content = archive.read(archive.entries()[0]);
  }
  const std::weak_ptr<Bytes> watch = owner;
  owner.reset();
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(text(content), "text");
}

TEST(ZipArchive, InflatesDeflatedEntries) {
  const Bytes bytes = archive_of({{"a", "stored"}, deflated_entry("b", "packed"), deflated_entry("c", "")});
  const support::ZipArchive archive(bytes, nullptr);
  EXPECT_EQ(text(archive.read(*archive.find("b"))), "packed");
  EXPECT_EQ(text(archive.read(*archive.find("c"))), "");
  EXPECT_EQ(text(archive.read(*archive.find("a"))), "stored");
}

TEST(ZipArchive, ReadsZip64) {
  ZipEntry large{"large", "content"};
  large.zip64 = true;
  const Bytes bytes = archive_of({{"small", "x"}, large}, true);
  const support::ZipArchive archive(bytes, nullptr);
  EXPECT_EQ(text(archive.read_checked(*archive.find("large"))), "content");
  EXPECT_EQ(text(archive.read_checked(*archive.find("small"))), "x");
}

TEST(ZipArchive, ReadsAnEmptyArchiveAndAComment) {
  EXPECT_TRUE(support::ZipArchive(archive_of({}), nullptr).entries().empty());
  const Bytes bytes = archive_of({{"a", "x"}}, false, "a comment with PK\5\6 in it");
  EXPECT_EQ(support::ZipArchive(bytes, nullptr).entries().size(), 1u);
}

TEST(ZipArchive, ComparesChecksumsWhereAsked) {
  ZipEntry wrong{"w", "weights"};
  wrong.crc ^= 1;
  const Bytes bytes = archive_of({wrong});
  const support::ZipArchive archive(bytes, nullptr);
  EXPECT_EQ(text(archive.read(archive.entries()[0])), "weights");
  EXPECT_PRED_FORMAT2(IsSubstring, "checksum of 'w'", refusal(bytes));
  ZipEntry packed = deflated_entry("p", "weights");
  packed.crc ^= 1;
  EXPECT_NE(refusal(archive_of({packed})), "nothing was refused");
}

TEST(ZipArchive, RefusesWhatIsNoZip) {
  EXPECT_PRED_FORMAT2(IsSubstring, "not a zip archive", refusal({}));
  EXPECT_PRED_FORMAT2(IsSubstring, "not a zip archive", refusal(Bytes(100, std::byte{'x'})));
}

TEST(ZipArchive, RefusesEveryTruncation) {
  ZipEntry large{"large", "content"};
  large.zip64 = true;
  for (bool zip64_end : {false, true}) {
    const Bytes whole = archive_of({{"a", "first"}, deflated_entry("b", "second"), large}, zip64_end);
    EXPECT_EQ(refusal(whole), "nothing was refused");
    for (size_t size = 0; size < whole.size(); ++size) {
      EXPECT_NE(refusal(Bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size))),
                "nothing was refused")
          << size;
    }
  }
}

// No changed byte may lead to reads outside of the archive (checked by the sanitizers), and every entry that
// is still read has the checksum of the directory.
TEST(ZipArchive, SurvivesEveryChangedByte) {
  ZipEntry large{"large", "content"};
  large.zip64 = true;
  for (bool zip64_end : {false, true}) {
    const Bytes whole = archive_of({{"a", "first"}, deflated_entry("b", "second"), large}, zip64_end);
    for (size_t at = 0; at < whole.size(); ++at) {
      for (int value : {0x00, 0x01, 0x7F, 0x80, 0xFF}) {
        Bytes changed = whole;
        changed[at] = static_cast<std::byte>(value);
        refusal(changed);
      }
    }
  }
}

TEST(ZipArchive, RefusesEntriesThatOverlap) {
  ZipEntry inner{"b", "second"};
  inner.offset = 0;
  inner.local_name = "b";
  EXPECT_PRED_FORMAT2(IsSubstring, "named 'b'", refusal(archive_of({{"b", "first!"}, inner})));
  // A whole entry, with its header, inside the data of another one.
  const Bytes nested = archive_of({{"in", "x"}});
  const std::string as_text(reinterpret_cast<const char*>(nested.data()), 30 + 2 + 1);
  ZipEntry outer{"out", as_text};
  ZipEntry in{"in", "x"};
  in.offset = 30 + 3;
  EXPECT_PRED_FORMAT2(IsSubstring, "overlap", refusal(archive_of({outer, in})));
}

TEST(ZipArchive, RefusesWhatContradictsItself) {
  EXPECT_PRED_FORMAT2(IsSubstring, "two entries are named 'a'",
                      refusal(archive_of({{"a", "1"}, {"a", "2"}})));
  ZipEntry entry{"a", "text"};
  entry.local_name = "b";
  EXPECT_PRED_FORMAT2(IsSubstring, "another name", refusal(archive_of({entry})));
  entry = {"a", "text"};
  entry.flags = 1;
  EXPECT_PRED_FORMAT2(IsSubstring, "encrypted", refusal(archive_of({entry})));
  entry = {"a", "text"};
  entry.size = 5;
  EXPECT_PRED_FORMAT2(IsSubstring, "its sizes differ", refusal(archive_of({entry})));
  entry = {"a", "text"};
  entry.size = entry.stored_size = 4000;
  EXPECT_PRED_FORMAT2(IsSubstring, "outside the file", refusal(archive_of({entry})));
  entry.size = entry.stored_size = UINT64_MAX - 10;
  entry.zip64 = true;
  EXPECT_PRED_FORMAT2(IsSubstring, "outside the file", refusal(archive_of({entry})));
  entry = {"a", "text"};
  entry.offset = INT64_MAX;
  entry.zip64 = true;
  EXPECT_PRED_FORMAT2(IsSubstring, "outside the file", refusal(archive_of({entry})));
  entry = {"a", "text"};
  entry.method = 14;
  EXPECT_PRED_FORMAT2(IsSubstring, "compression method 14", refusal(archive_of({entry})));
}

TEST(ZipArchive, RefusesMoreEntriesThanFit) {
  Bytes bytes = archive_of({{"a", "text"}});
  const size_t end = bytes.size() - 22;
  for (size_t at : {end + 8, end + 10}) bytes[at] = bytes[at + 1] = std::byte{0xFF};
  EXPECT_PRED_FORMAT2(IsSubstring, "fewer entries", refusal(bytes));
  Bytes zip64 = archive_of({{"a", "text"}}, true);
  const size_t end64 = zip64.size() - 22 - 20 - 56;
  for (size_t i = 24; i < 40; ++i) zip64[end64 + i] = std::byte{0xFF};
  EXPECT_PRED_FORMAT2(IsSubstring, "fewer entries", refusal(zip64));
}

TEST(ZipArchive, RefusesToReserveWhatCannotCome) {
  ZipEntry bomb = deflated_entry("b", "small");
  bomb.size = uint64_t{1} << 40;
  bomb.zip64 = true;
  EXPECT_PRED_FORMAT2(IsSubstring, "its size is impossible", refusal(archive_of({bomb})));
}

}  // namespace
}  // namespace opbridge

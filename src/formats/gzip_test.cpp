#include "formats/gzip.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <string>

#include "base/test_folder.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

void put_gzip(const fs::path& path, const std::vector<uint8_t>& bytes, const char* mode = "wb") {
  gzFile file = gzopen(path.c_str(), mode);
  if (!bytes.empty()) gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

std::vector<uint8_t> pattern(size_t size) {
  std::vector<uint8_t> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * i >> 7);
  return bytes;
}

bool has(const Error& error, const std::string& part) {
  return error.message.find(part) != std::string::npos;
}

RC_GTEST_PROP(Gzip, ReadsPlainAndCompressed, (const std::vector<uint8_t>& bytes)) {
  const TestFolder folder;
  put_gzip(folder / "a.gz", bytes);
  const auto size = static_cast<int64_t>(bytes.size());
  const auto unpacked = read_maybe_gzip(folder / "a.gz", size);
  RC_ASSERT(unpacked.ok());
  RC_ASSERT(*unpacked == bytes);
  const bool is_plain = bytes.size() < 2 || bytes[0] != 0x1f || bytes[1] != 0x8b;
  RC_PRE(is_plain);
  put_file(folder / "a", bytes);
  const auto plain = read_maybe_gzip(folder / "a", size);
  RC_ASSERT(plain.ok());
  RC_ASSERT(*plain == bytes);
}

TEST(Gzip, ReadsLargeFilesAndSeveralMembers) {
  const TestFolder folder;
  const std::vector<uint8_t> bytes = pattern(3'000'000);
  put_gzip(folder / "a.gz", bytes);
  put_gzip(folder / "a.gz", {}, "ab");
  put_gzip(folder / "a.gz", bytes, "ab");
  std::vector<uint8_t> twice = bytes;
  twice.insert(twice.end(), bytes.begin(), bytes.end());
  EXPECT_TRUE(read_maybe_gzip(folder / "a.gz", 6'000'000).value() == twice);
  EXPECT_TRUE(has(read_maybe_gzip(folder / "a.gz", 5'999'999).error(), "too large"));
}

TEST(Gzip, ReadsInParts) {
  const TestFolder folder;
  const std::vector<uint8_t> bytes = pattern(200'000);
  put_gzip(folder / "a.gz", bytes);
  auto reader = ByteReader::open(folder / "a.gz");
  ASSERT_TRUE(reader.ok());
  EXPECT_TRUE(reader->compressed());
  std::vector<uint8_t> part(70'000);
  EXPECT_EQ(reader->read(part).value(), 70'000);
  EXPECT_EQ(reader->read(part).value(), 70'000);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), bytes.begin() + 70'000));
  EXPECT_FALSE(reader->expect_end().ok());
  EXPECT_EQ(reader->read(part).value(), 59'999);
  EXPECT_TRUE(reader->expect_end().ok());
  EXPECT_TRUE(has(reader->read_exactly(part).error(), "cut short"));
}

TEST(Gzip, FindsTruncationAtEveryLength) {
  const TestFolder folder;
  put_gzip(folder / "a.gz", pattern(500));
  const std::string whole = get_file(folder / "a.gz");
  for (size_t length = 2; length < whole.size(); ++length) {  // shorter is a plain file
    put_file(folder / "b.gz", whole.substr(0, length));
    const auto read = read_maybe_gzip(folder / "b.gz", 1 << 20);
    ASSERT_FALSE(read.ok()) << length;
    EXPECT_TRUE(has(read.error(), "b.gz"));
  }
}

TEST(Gzip, FindsDamage) {
  const TestFolder folder;
  put_gzip(folder / "a.gz", pattern(500));
  const std::string whole = get_file(folder / "a.gz");
  put_file(folder / "b.gz", whole + "x");
  EXPECT_TRUE(has(read_maybe_gzip(folder / "b.gz", 1 << 20).error(), "something follows"));
  std::string wrong_sum = whole;
  wrong_sum[whole.size() - 8] ^= 1;
  put_file(folder / "b.gz", wrong_sum);
  EXPECT_TRUE(has(read_maybe_gzip(folder / "b.gz", 1 << 20).error(), "incorrect data check"));
  EXPECT_FALSE(read_maybe_gzip(folder / "missing", 1).ok());
}

TEST(Gzip, BoundsWhatCanCome) {
  const TestFolder folder;
  put_gzip(folder / "zeros.gz", std::vector<uint8_t>(10'000'000));
  auto zeros = ByteReader::open(folder / "zeros.gz");
  ASSERT_TRUE(zeros.ok());
  EXPECT_GE(zeros->most_bytes_left(), 10'000'000);
  EXPECT_LE(zeros->most_bytes_left(), 12'000'000);
  std::vector<uint8_t> out;
  EXPECT_TRUE(has(read_growing(*zeros, 1'000'000'000, out).error(), "more than it can hold"));
  EXPECT_EQ(out.capacity(), 0u);
  EXPECT_TRUE(has(read_growing(*zeros, 10'000'001, out).error(), "cut short"));

  put_file(folder / "plain", pattern(100'000));
  auto plain = ByteReader::open(folder / "plain");
  ASSERT_TRUE(plain.ok());
  EXPECT_FALSE(plain->compressed());
  EXPECT_EQ(plain->most_bytes_left(), 100'000);
  std::vector<uint8_t> part(10);
  EXPECT_TRUE(plain->read_exactly(part).ok());
  EXPECT_EQ(plain->most_bytes_left(), 99'990);
}

}  // namespace
}  // namespace mantissa

#include "formats/arrays/idx.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <zlib.h>

#include <string>

#include "base/test_folder.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

std::string idx_header(const std::vector<uint32_t>& dims, char type = 8) {
  std::string bytes = {0, 0, type, static_cast<char>(dims.size())};
  for (const uint32_t dim : dims) {
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(dim >> shift);
  }
  return bytes;
}

void put(const fs::path& path, const std::string& bytes, bool compressed) {
  if (!compressed) return put_file(path, bytes);
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

class Idx : public testing::TestWithParam<bool> {
 protected:
  Result<IdxArray> read(const std::string& bytes) {
    put(folder_ / "file", bytes, GetParam());
    return read_idx(folder_ / "file");
  }
  // The error of reading `bytes`.
  std::string refusal(const std::string& bytes) {
    const auto array = read(bytes);
    if (array.ok()) return "accepted";
    EXPECT_EQ(array.error().code, ErrorCode::kInvalidInput);
    EXPECT_NE(array.error().message.find("file"), std::string::npos);
    return array.error().message;
  }
  TestFolder folder_;
};

TEST_P(Idx, ReadsOneToFourDimensions) {
  for (const std::vector<uint32_t>& dims :
       std::vector<std::vector<uint32_t>>{{6}, {2, 3}, {3, 1, 2}, {1, 2, 3, 1}}) {
    const auto array = read(idx_header(dims) + "abcdef");
    ASSERT_TRUE(array.ok()) << array.error().message;
    EXPECT_EQ(array->header.dims, std::vector<int64_t>(dims.begin(), dims.end()));
    EXPECT_EQ(array->header.elements(), 6);
    EXPECT_EQ(std::string(array->data.begin(), array->data.end()), "abcdef");
    EXPECT_EQ(read_idx_header(folder_ / "file").value(), array->header);
  }
  EXPECT_TRUE(read(idx_header({0})).value().data.empty());
}

TEST_P(Idx, ReadsMoreThanOneStep) {
  const std::string data(2'500'000, 'z');
  const auto array = read(idx_header({2500, 1000}) + data);
  ASSERT_TRUE(array.ok()) << array.error().message;
  EXPECT_EQ(std::string(array->data.begin(), array->data.end()), data);
}

TEST_P(Idx, SaysWhatIsWrong) {
  EXPECT_NE(refusal("PK\3\4" + std::string(20, 'x')).find("not an IDX file"), std::string::npos);
  EXPECT_NE(refusal(idx_header({1}, 13) + "abcd").find("type 13"), std::string::npos);
  EXPECT_NE(refusal(idx_header({})).find("0 dimensions"), std::string::npos);
  EXPECT_NE(refusal(idx_header({1, 1, 1, 1, 1}) + "a").find("5 dimensions"), std::string::npos);
  EXPECT_NE(refusal(idx_header({3}) + "abcd").find("more bytes"), std::string::npos);
  for (size_t length = 0; length < 14; ++length) {
    const std::string whole = idx_header({2, 2}) + "abcd";
    EXPECT_NE(refusal(whole.substr(0, length)).find("cut short"), std::string::npos) << length;
  }
}

TEST_P(Idx, RefusesAbsurdSizesBeforeAllocating) {
  const uint32_t most = 0xffffffff;
  for (const auto& dims : std::vector<std::vector<uint32_t>>{{most},
                                                             {most, most},
                                                             {most, most, most, most},
                                                             {1u << 31, 1u << 31, 2, 1},
                                                             {60000, 28, 28}}) {
    EXPECT_NE(refusal(idx_header(dims) + "abcd").find("more than it can hold"), std::string::npos);
    EXPECT_FALSE(read_idx_header(folder_ / "file").ok());
  }
}

INSTANTIATE_TEST_SUITE_P(PlainAndGzip, Idx, testing::Bool());

// The header claims a size that a compressed file could hold, but the data are shorter.
TEST(IdxGzip, RefusesAClaimThatIsNotMet) {
  const TestFolder folder;
  put(folder / "file", idx_header({9'000'000}) + std::string(8'999'999, '\0'), true);
  EXPECT_TRUE(read_idx_header(folder / "file").ok());
  const auto array = read_idx(folder / "file");
  ASSERT_FALSE(array.ok());
  EXPECT_NE(array.error().message.find("cut short"), std::string::npos);
}

RC_GTEST_PROP(IdxRandom, NeverCrashesOnRandomBytes, (const std::vector<uint8_t>& bytes)) {
  const TestFolder folder;
  std::vector<uint8_t> file = {0, 0, 8, *rc::gen::inRange<uint8_t>(0, 6)};
  file.insert(file.end(), bytes.begin(), bytes.end());
  put_file(folder / "a", file);
  const auto array = read_idx(folder / "a");
  if (array.ok()) {
    RC_ASSERT(array->data.size() + 4 + 4 * array->header.dims.size() == file.size());
  }
}

}  // namespace
}  // namespace mantissa

#include "formats/arrays/safetensors.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/test_folder.h"

namespace mantissa {
namespace {

using Metadata = std::map<std::string, std::string>;

std::span<const std::byte> bytes_of(const auto& values) { return std::as_bytes(std::span(values)); }

// A safetensors file around any header text.
std::string safetensors_of(const std::string& header, const std::string& data) {
  std::string length;
  for (size_t i = 0; i < 8; ++i) length += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return length + header + data;
}

class Safetensors : public testing::Test {
 protected:
  std::filesystem::path path() const { return folder_ / "state.safetensors"; }

  Result<SafetensorsFile> read(const std::string& bytes) {
    put_file(path(), bytes);
    return read_safetensors(path());
  }

  // The error of reading `bytes`, which must name the file.
  std::string refusal(const std::string& bytes) {
    const auto file = read(bytes);
    if (file.ok()) return "accepted";
    EXPECT_NE(file.error().message.find("state.safetensors"), std::string::npos);
    EXPECT_EQ(file.error().message.find('\n'), std::string::npos);
    return file.error().message;
  }

  // A small file with all kinds of content.
  std::string valid() {
    const std::vector<int16_t> weights = {1, -2, 3, -4, 5, -6};
    const std::vector<int8_t> bytes = {7};
    const std::vector<SafetensorsView> tensors = {
        {"layer.weights", "I16", {2, 3}, bytes_of(weights)},
        {"scalar", "I8", {}, bytes_of(bytes)},
        {"empty", "F64", {0, 4}, {}}};
    EXPECT_TRUE(write_safetensors(path(), {{"epoch", "3"}, {"note", "\"ü\"\n"}}, tensors).ok());
    return get_file(path());
  }

  TestFolder folder_;
};

TEST_F(Safetensors, BytesInMemoryAreThoseOfTheFile) {
  const std::string bytes = valid();
  const auto file = parse_safetensors(bytes, "memory");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(safetensors_bytes(file->metadata, file->tensors).value(), bytes);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto cut = parse_safetensors(std::string_view(bytes).substr(0, size), "memory");
    ASSERT_FALSE(cut.ok());
    EXPECT_NE(cut.error().message.find("memory"), std::string::npos);
  }
}

TEST_F(Safetensors, OpenedFilesStayOnTheDisk) {
  const std::string bytes = valid();
  const auto whole = read_safetensors(path());
  const auto opened = open_safetensors(path());
  ASSERT_TRUE(whole.ok() && opened.ok());
  EXPECT_EQ(opened->metadata, whole->metadata);
  EXPECT_EQ(opened->sha256, whole->sha256);
  EXPECT_EQ(opened->buffer, nullptr);
  std::vector<std::byte> room;
  for (size_t i = 0; i < whole->tensors.size(); ++i) {
    EXPECT_TRUE(opened->tensors[i].data.empty());
    const auto read = opened->bytes(opened->tensors[i], room);
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_TRUE(std::ranges::equal(*read, whole->tensors[i].data));
  }
  // A copy has the same bytes.
  const auto copied = write_safetensors(
      folder_ / "copy", opened->metadata, opened->tensors,
      [&](size_t i) { return opened->bytes(opened->tensors[i], room); });
  ASSERT_TRUE(copied.ok()) << copied.error().message;
  EXPECT_EQ(get_file(folder_ / "copy"), bytes);
  // Bits that flip are found, before and after the file was opened.
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    put_file(path(), damaged);
    EXPECT_FALSE(open_safetensors(path()).ok()) << at;
  }
  put_file(path(), bytes.substr(0, bytes.size() - 1));
  EXPECT_FALSE(opened->bytes(*opened->find("scalar"), room).ok());
}

TEST_F(Safetensors, GivesBackWhatWasWritten) {
  valid();
  const auto file = read_safetensors(path());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->metadata, (Metadata{{"epoch", "3"}, {"note", "\"ü\"\n"}}));
  EXPECT_EQ(file->sha256.size(), 64u);
  ASSERT_EQ(file->tensors.size(), 3u);
  EXPECT_EQ(file->tensors[0].name, "layer.weights");
  EXPECT_EQ(file->tensors[0].dtype, "I16");
  EXPECT_EQ(file->tensors[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(file->tensors[0].data.size(), 12u);
  EXPECT_EQ(file->tensors[0].data[2], std::byte{0xfe});
  ASSERT_NE(file->find("scalar"), nullptr);
  EXPECT_EQ(file->find("scalar")->data[0], std::byte{7});
  EXPECT_EQ(file->find("nothing"), nullptr);
}

TEST_F(Safetensors, WritesTheFormat) {
  const std::string whole = valid();
  EXPECT_EQ(whole, valid()) << "the same input gives the same bytes";
  EXPECT_EQ(whole.find(R"({"__metadata__":{"epoch":"3","note":)"), 8u);
  EXPECT_NE(whole.find(R"("layer.weights":{"dtype":"I16","shape":[2,3],"data_offsets":[0,12]})"),
            std::string::npos);
  EXPECT_NE(whole.find(R"("scalar":{"dtype":"I8","shape":[],"data_offsets":[12,13]})"),
            std::string::npos);
  EXPECT_EQ((whole.size() - 13) % 8, 0u) << "the data begin at a multiple of 8";
}

TEST_F(Safetensors, MovesWithItsData) {
  valid();
  SafetensorsFile file = std::move(*read_safetensors(path()));
  const SafetensorsFile moved = std::move(file);
  EXPECT_EQ(moved.find("scalar")->data[0], std::byte{7});
}

TEST_F(Safetensors, FindsEveryFlippedBit) {
  const std::string whole = valid();
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    ASSERT_NE(refusal(damaged), "accepted") << "byte " << bit / 8 << " bit " << bit % 8;
  }
}

TEST_F(Safetensors, FindsTruncationAtEveryLength) {
  const std::string whole = valid();
  for (size_t length = 0; length < whole.size(); ++length) {
    ASSERT_NE(refusal(whole.substr(0, length)), "accepted") << length;
  }
  EXPECT_NE(refusal(whole + '\0'), "accepted");
}

TEST_F(Safetensors, SaysThatDamagedDataAreDamaged) {
  std::string whole = valid();
  whole.back() ^= 1;
  EXPECT_NE(refusal(whole).find("the file is damaged"), std::string::npos);
}

TEST_F(Safetensors, ReadsFilesOfOthers) {
  const auto file = read(safetensors_of(
      R"( { "b" : {"shape":[2],"data_offsets":[4,6],"dtype":"BF16"}, )"
      R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}, "__metadata__":{"format":"pt"}} )",
      "123456"));
  ASSERT_FALSE(file.ok()) << "BF16 has two bytes";
  const auto good = read(safetensors_of(
      R"( { "b" : {"shape":[1],"data_offsets":[4,6],"dtype":"BF16"}, )"
      R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}, "__metadata__":{"format":"pt"}} )",
      "123456"));
  ASSERT_TRUE(good.ok()) << good.error().message;
  EXPECT_EQ(good->sha256, "");
  EXPECT_EQ(good->tensors[0].name, "a");
  EXPECT_EQ(good->tensors[1].data[0], std::byte{'5'});
  EXPECT_EQ(good->metadata, (Metadata{{"format", "pt"}}));
  EXPECT_TRUE(read(safetensors_of("{}", "")).ok());
}

TEST_F(Safetensors, RefusesBadHeaders) {
  const std::vector<std::string> headers = {
      "",
      " ",
      "1",
      "null",
      "\"a\"",
      "[]",
      "[[[[[[",
      "{",
      "{}x",
      "{} {}",
      R"({"a":1})",
      R"({"a":{}})",
      R"({"a":{"dtype":"I8","shape":[4]}})",
      R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0]}})",
      R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4,4]}})",
      R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4],"more":1}})",
      R"({"a":{"dtype":"I8","dtype":"I8","shape":[4],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"I9","shape":[4],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"I8","shape":[-4],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"I8","shape":[4.0],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"I8","shape":4,"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"I8","shape":[[4]],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"I8","shape":[1,1,1,1,1,1,1,1,4],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"I16","shape":[4],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"I8","shape":[4294967296,4294967296],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"I8","shape":[18446744073709551615],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"I8","shape":[3],"data_offsets":[0,3]}})",
      R"({"a":{"dtype":"I8","shape":[3],"data_offsets":[1,4]}})",
      R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[4,0]}})",
      R"({"a":{"dtype":"I8","shape":[8],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,9223372036854775807]}})",
      R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"I8","shape":[0],"data_offsets":[4,4]}})",
      R"({"a":{"dtype":"I8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"I8","shape":[2],"data_offsets":[2,4]}})",
      R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"I8","shape":[2],"data_offsets":[2,4]}})",
      R"({"__metadata__":{"a":1},"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})",
      R"({"__metadata__":{"a":"1","a":"1"},"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})",
      R"({"__metadata__":{},"__metadata__":{},"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})",
      R"({"__metadata__":{"sha256":"0"},"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})",
      "{\"\xff\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
  };
  for (const std::string& header : headers) {
    EXPECT_NE(refusal(safetensors_of(header, "1234")), "accepted") << header;
  }
  EXPECT_EQ(
      refusal(safetensors_of(R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})", "1234")),
      "accepted");
  EXPECT_NE(refusal(std::string("PK\x03\x04 of torch.save")).find("is a ZIP archive"),
            std::string::npos);
  EXPECT_NE(refusal(std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10)).find("does not fit"),
            std::string::npos);
}

TEST_F(Safetensors, FindsEachOfManyTensors) {
  std::vector<SafetensorsView> tensors;
  for (int i = 0; i < 2000; ++i) {  // in no order of their names
    tensors.push_back({std::to_string(i * 7919 % 2000), "I8", {0, i}, {}});
  }
  ASSERT_TRUE(write_safetensors(path(), {}, tensors).ok());
  const auto file = read_safetensors(path());
  ASSERT_TRUE(file.ok()) << file.error().message;
  for (int i = 0; i < 2000; ++i) {
    const SafetensorsTensor* found = file->find(std::to_string(i * 7919 % 2000));
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->shape[1], i);
  }
  for (const char* name : {"", "-1", "2000", "0 "}) EXPECT_EQ(file->find(name), nullptr);
}

TEST_F(Safetensors, RefusesLongNamesAndMuchMetadata) {
  const auto named = [](size_t bytes) {
    return safetensors_of(
        "{\"" + std::string(bytes, 'x') + R"(":{"dtype":"I8","shape":[],"data_offsets":[0,1]}})",
        "a");
  };
  EXPECT_EQ(refusal(named(4096)), "accepted");
  EXPECT_NE(refusal(named(4097)).find("name of 4097 bytes"), std::string::npos);
  const auto described = [](int entries) {
    std::string text;
    for (int i = 0; i < entries; ++i) {
      text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":\"\"";
    }
    return safetensors_of("{\"__metadata__\":{" + text + "}}", "");
  };
  EXPECT_EQ(refusal(described(1000)), "accepted");
  EXPECT_NE(refusal(described(1001)).find("too many"), std::string::npos);
}

TEST_F(Safetensors, WritesOnlyWhatItCanReadBack) {
  const std::string four = "1234";
  const auto refused = [&](const Metadata& metadata, const std::vector<SafetensorsView>& tensors) {
    return !write_safetensors(path(), metadata, tensors).ok();
  };
  EXPECT_TRUE(refused({{"sha256", "x"}}, {}));
  EXPECT_TRUE(refused({{"sha256_covers", "x"}}, {}));
  EXPECT_TRUE(refused({{"bad", "\xff"}}, {}));
  EXPECT_TRUE(refused({}, {{"\xff", "I8", {4}, bytes_of(four)}}));
  EXPECT_TRUE(refused({}, {{"__metadata__", "I8", {4}, bytes_of(four)}}));
  EXPECT_TRUE(refused({}, {{"a", "I8", {5}, bytes_of(four)}}));
  EXPECT_TRUE(refused({}, {{"a", "I8", {-2, -2}, bytes_of(four)}}));
  EXPECT_TRUE(refused({}, {{"a", "int8", {4}, bytes_of(four)}}));
  EXPECT_TRUE(refused({}, {{"a", "I8", {4}, bytes_of(four)}, {"a", "I8", {4}, bytes_of(four)}}));
  EXPECT_EQ(folder_.count(), 0);
}

// ASCII, control characters and quotes included.
rc::Gen<std::string> arbitrary_text() {
  return rc::gen::container<std::string>(rc::gen::inRange<char>(0, 127));
}

RC_GTEST_FIXTURE_PROP(Safetensors, RoundTripsAnyNamesAndBytes, ()) {
  const auto contents = *rc::gen::container<std::map<std::string, std::vector<uint8_t>>>(
      arbitrary_text(), rc::gen::arbitrary<std::vector<uint8_t>>());
  const auto metadata = *rc::gen::container<Metadata>(arbitrary_text(), arbitrary_text());
  std::vector<SafetensorsView> tensors;
  for (const auto& [name, bytes] : contents) {
    tensors.push_back({name, "U8", {static_cast<int64_t>(bytes.size())}, bytes_of(bytes)});
  }
  RC_ASSERT(write_safetensors(path(), metadata, tensors).ok());
  const auto file = read_safetensors(path());
  RC_ASSERT(file.ok());
  RC_ASSERT(file->metadata == metadata);
  RC_ASSERT(file->tensors.size() == tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    RC_ASSERT(file->tensors[i].name == tensors[i].name);
    RC_ASSERT(std::equal(file->tensors[i].data.begin(), file->tensors[i].data.end(),
                         tensors[i].data.begin(), tensors[i].data.end()));
  }
}

RC_GTEST_FIXTURE_PROP(Safetensors, NeverCrashesOnRandomBytes, (const std::string& bytes)) {
  RC_ASSERT(refusal(bytes) != "");
  RC_ASSERT(refusal(safetensors_of(bytes, bytes)) != "");
  // Nearly a header: random edits of a good one.
  std::string header = R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})";
  const auto place = *rc::gen::inRange<size_t>(0, header.size());
  RC_ASSERT(refusal(safetensors_of(header.insert(place, bytes), "1234")) != "");
  header.erase(place, bytes.size() + 1);
  RC_ASSERT(refusal(safetensors_of(header, "1234")) != "");
}

}  // namespace
}  // namespace mantissa

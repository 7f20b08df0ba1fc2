#include "formats/gguf/gguf.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "base/test_folder.h"
#include "formats/gguf/test_gguf.h"

namespace mantissa {
namespace {

constexpr uint64_t kHuge = uint64_t{1} << 62;

class Gguf : public testing::Test {
 protected:
  std::filesystem::path path() const { return folder_ / "model.gguf"; }

  Result<GgufFile> read(const std::string& bytes) {
    put_file(path(), bytes);
    return GgufFile::open(path());
  }

  // The error of reading `bytes`: one line that names the file.
  std::string refusal(const std::string& bytes) {
    const auto file = read(bytes);
    if (file.ok()) return "accepted";
    EXPECT_NE(file.error().message.find("model.gguf"), std::string::npos);
    EXPECT_EQ(file.error().message.find('\n'), std::string::npos);
    EXPECT_EQ(file.error().code, ErrorCode::kInvalidInput);
    return file.error().message;
  }

  TestFolder folder_;
};

// A file with a key of every type and two tensors.
GgufBytes good() {
  GgufBytes file;
  file.add_text("general.architecture", "llama")
      .add("u8", GgufType::kUint8, "\xff")
      .add("i8", GgufType::kInt8, "\xff")
      .add("u16", GgufType::kUint16, GgufBytes::number<uint16_t>(65535))
      .add("i16", GgufType::kInt16, GgufBytes::number<int16_t>(-2))
      .add_whole("u32", 4294967295u)
      .add("i32", GgufType::kInt32, GgufBytes::number<int32_t>(-3))
      .add_real("f32", 1e-5f)
      .add_truth("yes", true)
      .add("u64", GgufType::kUint64, GgufBytes::number(kHuge))
      .add("i64", GgufType::kInt64, GgufBytes::number<int64_t>(-4))
      .add("f64", GgufType::kFloat64, GgufBytes::number(__builtin_bit_cast(uint64_t, 0.1)))
      .add_texts("texts", {"", "two\n", "\xff"})
      .add_wholes("wholes", {1, -2, 3})
      .add_texts("none", {});
  file.add_floats("rows", {2, 3}, {0, 1, 2, 3, 4, 5});
  std::string block = GgufBytes::number<uint16_t>(0x3c00);  // 1.0
  for (int i = 0; i < 32; ++i) block += static_cast<char>(i - 16);
  file.add_tensor("blocks", {32}, 8, block);
  return file;
}

TEST_F(Gguf, ReadsKeysOfAllTypes) {
  const auto file = read(good().bytes());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->keys().size(), 15u);
  const std::pair<const char*, int64_t> wholes[] = {
      {"u8", 255},         {"i8", -1},  {"u16", 65535}, {"i16", -2},
      {"u32", 4294967295}, {"i32", -3}, {"u64", kHuge}, {"i64", -4}};
  for (const auto& [key, number] : wholes) {
    const auto found = file->whole(key);
    ASSERT_TRUE(found.ok() && *found) << key;
    EXPECT_EQ(**found, number) << key;
  }
  EXPECT_EQ(**file->text("general.architecture"), "llama");
  EXPECT_EQ(**file->real("f32"), 1e-5f);
  EXPECT_EQ(**file->real("f64"), 0.1);
  EXPECT_TRUE(**file->truth("yes"));
  EXPECT_EQ(**file->texts("texts"), (std::vector<std::string>{"", "two\n", "\xff"}));
  EXPECT_EQ(**file->wholes("wholes"), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_TRUE((*file->texts("none"))->empty());
  EXPECT_FALSE(file->whole("absent")->has_value());
  EXPECT_TRUE(file->has("u8"));
  EXPECT_FALSE(file->has("u9"));
  std::string shown;
  for (const GgufKey& key : file->keys()) shown += file->described(key) + " ";
  EXPECT_EQ(
      shown,
      "\"llama\" 255 -1 65535 -2 4294967295 -3 9.99999975e-06 true 4611686018427387904 -4 0.1 "
      "[3 texts] [3 values] [0 texts] ");
}

TEST_F(Gguf, ValuesOfOtherTypesAreNamed) {
  const auto file = read(good().bytes());
  ASSERT_TRUE(file.ok());
  EXPECT_NE(file->whole("f32").error().message.find("\"f32\" is 9.99999975e-06, and no whole"),
            std::string::npos);
  EXPECT_FALSE(file->text("texts").ok());
  EXPECT_FALSE(file->texts("general.architecture").ok());
  EXPECT_FALSE(file->texts("wholes").ok());
  EXPECT_FALSE(file->wholes("texts").ok());
  EXPECT_FALSE(file->real("u8").ok());
  EXPECT_FALSE(file->truth("u8").ok());
  GgufBytes large;
  large.add("u64", GgufType::kUint64, GgufBytes::number(~uint64_t{0}));
  EXPECT_NE(read(large.bytes())->whole("u64").error().message.find("18446744073709551615"),
            std::string::npos);
}

TEST_F(Gguf, ReadsTensors) {
  const auto file = read(good().bytes());
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(file->tensors().size(), 2u);
  const GgufTensor* rows = file->find_tensor("rows");
  ASSERT_NE(rows, nullptr);
  EXPECT_EQ(rows->shape, (std::vector<int64_t>{3, 2}));  // two numbers to a row
  EXPECT_EQ(*file->floats(*rows), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  const auto blocks = file->floats(*file->find_tensor("blocks"));
  ASSERT_TRUE(blocks.ok());
  EXPECT_EQ((*blocks)[0], -16.0f);
  EXPECT_EQ((*blocks)[31], 15.0f);
  EXPECT_EQ(file->find_tensor("rowss"), nullptr);
}

TEST_F(Gguf, FilesThatShrinkAreCutShort) {
  const std::string bytes = good().bytes();
  const auto file = read(bytes);
  ASSERT_TRUE(file.ok());
  std::filesystem::resize_file(path(), bytes.size() - 10);
  const auto gone = file->floats(*file->find_tensor("blocks"));
  ASSERT_FALSE(gone.ok());
  EXPECT_NE(gone.error().message.find("cut short"), std::string::npos);
}

TEST_F(Gguf, EveryShorterFileIsRefused) {
  const std::string bytes = good().bytes();
  ASSERT_EQ(refusal(bytes), "accepted");
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_NE(refusal(bytes.substr(0, length)), "accepted") << length;
  }
}

TEST_F(Gguf, HostileFilesAreRefusedByName) {
  struct Case {
    const char* part;  // of the message
    std::function<void(GgufBytes&)> change;
  };
  const std::string one(4, '\1');
  const Case cases[] = {
      {"version 2", [](GgufBytes& f) { f.version = 2; }},
      {"big-endian", [](GgufBytes& f) { f.version = 0x03000000; }},
      {"4611686018427387904 keys", [](GgufBytes& f) { f.keys = kHuge; }},
      {"4611686018427387904 tensors", [](GgufBytes& f) { f.tensors = kHuge; }},
      {"the name of a key", [](GgufBytes& f) { f.keys += 1000; }},
      {"\"general.architecture\" is there twice",
       [](GgufBytes& f) { f.add_text("general.architecture", "b"); }},
      {"has the type 13", [](GgufBytes& f) { f.add("x", GgufType{13}, "1"); }},
      {"has the type 4294967295",
       [](GgufBytes& f) { f.add_array("x", GgufType{0xffffffff}, 1, "1"); }},
      {"array of arrays",
       [](GgufBytes& f) { f.add_array("x", GgufType::kArray, 1, std::string(12, '\0')); }},
      {"4611686018427387904 elements",
       [](GgufBytes& f) { f.add_array("x", GgufType::kUint64, kHuge, ""); }},
      {"cut short", [](GgufBytes& f) { f.add_array("x", GgufType::kText, 1 << 20, ""); }},
      {"cut short",
       [](GgufBytes& f) { f.add("x", GgufType::kText, GgufBytes::number(~uint64_t{0})); }},
      {"cut short", [](GgufBytes& f) { f.add("x", GgufType::kText, GgufBytes::number(kHuge)); }},
      {"truth value other than", [](GgufBytes& f) { f.add("x", GgufType::kTruth, "\2"); }},
      {"has 0 bytes", [](GgufBytes& f) { f.add_text("", "x"); }},
      {"has 1025 bytes", [](GgufBytes& f) { f.add_text(std::string(1025, 'k'), "x"); }},
      {"\"rows\" is there twice", [](GgufBytes& f) { f.add_floats("rows", {1}, {0}); }},
      {"has 0 dimensions", [](GgufBytes& f) { f.add_tensor("x", {}, 0, "1234"); }},
      {"has 5 dimensions",
       [](GgufBytes& f) {
         f.add_tensor("x", {1, 1, 1, 1, 1}, 0, "1234");
       }},
      {"a dimension of 0", [](GgufBytes& f) { f.add_tensor("x", {0}, 0, ""); }},
      {"a dimension of 18446744073709551615",
       [](GgufBytes& f) { f.add_tensor("x", {~uint64_t{0}}, 0, ""); }},
      {"more bytes than", [](GgufBytes& f) { f.add_tensor("x", {kHuge}, 0, ""); }},
      {"more bytes than",
       [](GgufBytes& f) {
         f.add_tensor("x", {kHuge, kHuge}, 1, "");
       }},
      {"more bytes than",
       [](GgufBytes& f) {
         f.add_tensor("x", {32, kHuge, 4, 4}, 2, "");
       }},
      {"has the type 10", [](GgufBytes& f) { f.add_tensor("x", {256}, 10, ""); }},
      {"no blocks of 32", [](GgufBytes& f) { f.add_tensor("x", {33}, 2, ""); }},
      {"no blocks of 256", [](GgufBytes& f) { f.add_tensor("x", {576}, 12, ""); }},
      {"no multiple of the alignment 32", [&](GgufBytes& f) { f.add_tensor("x", {1}, 0, one, 4); }},
      {"overlap", [&](GgufBytes& f) { f.add_tensor("x", {1}, 0, one, 0); }},
      {"outside of the file", [&](GgufBytes& f) { f.add_tensor("x", {1}, 0, one, 1 << 20); }},
      {"outside of the file",
       [&](GgufBytes& f) { f.add_tensor("x", {1}, 0, one, int64_t{1} << 62); }},
      {"alignment is 24", [](GgufBytes& f) { f.add_whole("general.alignment", 24); }},
      {"alignment is 0", [](GgufBytes& f) { f.add_whole("general.alignment", 0); }},
      {"\"general.alignment\" is", [](GgufBytes& f) { f.add_text("general.alignment", "32"); }},
  };
  for (const Case& each : cases) {
    GgufBytes file = good();
    each.change(file);
    const std::string message = refusal(file.bytes());
    EXPECT_NE(message.find(each.part), std::string::npos) << each.part << ": " << message;
  }
}

TEST_F(Gguf, AlignmentIsWhatTheFileSays) {
  GgufBytes file;
  file.add_whole("general.alignment", 128).add_floats("a", {1}, {7});
  std::string bytes = file.bytes();
  const size_t header = bytes.size() - 4;  // padded to 32
  bytes.insert(header, std::string((128 - header % 128) % 128, '\0'));
  const auto read_file = read(bytes);
  ASSERT_TRUE(read_file.ok()) << read_file.error().message;
  EXPECT_EQ(*read_file->floats(read_file->tensors()[0]), std::vector<float>{7});
}

RC_GTEST_FIXTURE_PROP(Gguf, NeverCrashesOnChangedFiles, ()) {
  std::string bytes = good().bytes();
  const auto changes = *rc::gen::container<std::vector<std::pair<uint16_t, uint8_t>>>(
      rc::gen::arbitrary<std::pair<uint16_t, uint8_t>>());
  for (const auto& [at, value] : changes) bytes[at % bytes.size()] = static_cast<char>(value);
  const auto file = read(bytes);
  if (!file.ok()) {
    RC_ASSERT(file.error().message.find('\n') == std::string::npos);
    return;
  }
  for (const GgufKey& key : file->keys()) RC_ASSERT(!file->described(key).empty());
  for (const GgufTensor& tensor : file->tensors()) RC_ASSERT(file->floats(tensor).ok());
}

}  // namespace
}  // namespace mantissa

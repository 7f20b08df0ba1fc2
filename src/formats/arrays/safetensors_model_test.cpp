#include "formats/arrays/safetensors_model.h"

#include <gtest/gtest.h>

#include <string>

#include "base/test_folder.h"
#include "formats/arrays/safetensors.h"

namespace mantissa {
namespace {

class SafetensorsModels : public testing::Test {
 protected:
  // A file of one tensor, "a" or another name, of float32.
  void put_tensor(const std::string& file, const std::string& name,
                  const std::vector<float>& numbers) {
    const SafetensorsView view = {
        name, "F32", {std::ssize(numbers)}, std::as_bytes(std::span(numbers))};
    ASSERT_TRUE(write_safetensors(folder_ / file, {}, std::span(&view, 1)).ok());
  }

  std::string refusal(const std::string& index) {
    put_file(folder_ / "model.safetensors.index.json", index);
    const auto model = SafetensorsModel::open(folder_ / "model.safetensors.index.json");
    if (model.ok()) return "accepted";
    EXPECT_EQ(model.error().message.find('\n'), std::string::npos);
    EXPECT_EQ(model.error().code, ErrorCode::kInvalidInput);
    return model.error().message;
  }

  TestFolder folder_;
};

TEST_F(SafetensorsModels, HaveNumbersOfThreeTypes) {
  const std::vector<float> floats = {1.5f, -2.0f};
  const std::vector<uint16_t> halves = {0x3e00, 0xc000, 0x0001}, brains = {0x3fc0, 0xc000};
  const std::vector<int8_t> bytes = {1};
  const SafetensorsView views[] = {{"f", "F32", {2}, std::as_bytes(std::span(floats))},
                                   {"h", "F16", {3}, std::as_bytes(std::span(halves))},
                                   {"b", "BF16", {2, 1}, std::as_bytes(std::span(brains))},
                                   {"i", "I8", {1}, std::as_bytes(std::span(bytes))}};
  ASSERT_TRUE(write_safetensors(folder_ / "x.safetensors", {}, views).ok());
  const auto model = SafetensorsModel::open(folder_ / "x.safetensors");
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(*model->floats("f"), (std::vector<float>{1.5f, -2.0f}));
  EXPECT_EQ(*model->floats("h"), (std::vector<float>{1.5f, -2.0f, 0x1p-24f}));
  EXPECT_EQ(*model->floats("b"), (std::vector<float>{1.5f, -2.0f}));
  EXPECT_EQ(model->tensors().at("b").shape, (std::vector<int64_t>{2, 1}));
  EXPECT_NE(model->floats("i").error().message.find("has the type I8"), std::string::npos);
  EXPECT_NE(model->floats("none").error().message.find("no tensor \"none\""), std::string::npos);
}

TEST_F(SafetensorsModels, LieInSeveralFiles) {
  put_tensor("one.safetensors", "a", {1});
  put_tensor("two.safetensors", "b", {2, 3});
  ASSERT_EQ(refusal(R"({"metadata": {"total_size": 12},
                        "weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})"),
            "accepted");
  const auto model = SafetensorsModel::open(folder_ / "model.safetensors.index.json");
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->files().size(), 2u);
  EXPECT_EQ(*model->floats("a"), std::vector<float>{1});
  EXPECT_EQ(*model->floats("b"), (std::vector<float>{2, 3}));
  std::filesystem::resize_file(folder_ / "two.safetensors", 20);
  EXPECT_NE(model->floats("b").error().message.find("cut short"), std::string::npos);
}

TEST_F(SafetensorsModels, DamagedIndexesAreRefusedByName) {
  put_tensor("one.safetensors", "a", {1});
  const std::pair<const char*, const char*> cases[] = {
      {"", "no weight_map"},
      {"[1]", "no weight_map"},
      {"{}", "no weight_map"},
      {R"({"weight_map": []})", "no weight_map"},
      {R"({"weight_map": {"a": 1}})", "is no text"},
      {R"({"weight_map": {"a": "../one.safetensors"}})", "beside the index"},
      {R"({"weight_map": {"a": "/etc/passwd"}})", "beside the index"},
      {R"({"weight_map": {"a": ".."}})", "beside the index"},
      {R"({"weight_map": {"a": "one.safetensors\u0000.safetensors"}})", "beside the index"},
      {R"({"weight_map": {"a": "two.safetensors"}})", "two.safetensors"},
      {R"({"weight_map": {"b": "one.safetensors"}})", "\"b\" is not in one.safetensors"}};
  for (const auto& [index, part] : cases) {
    const std::string message = refusal(index);
    EXPECT_NE(message.find(part), std::string::npos) << index << ": " << message;
  }
  std::string many = "{\"weight_map\": {";
  for (int i = 0; i < 600; ++i) {
    const std::string name = std::to_string(i);
    put_tensor(name + ".safetensors", name, {1});
    many += (i == 0 ? "\"" : ", \"") + name + "\": \"" + name + ".safetensors\"";
  }
  EXPECT_NE(refusal(many + "}}").find("more than 512 files"), std::string::npos);
}

}  // namespace
}  // namespace mantissa

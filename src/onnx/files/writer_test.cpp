#include "onnx/files/writer.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/test_folder.h"

namespace mantissa::onnx {
namespace {

const std::vector<float> kNumbers = {1.5f, -2};

TensorData numbers(std::vector<int64_t> dims) {
  return {"w", ElementType::kFloat, std::move(dims), std::as_bytes(std::span(kNumbers)), nullptr};
}

ModelData small_model() {
  ModelData model;
  model.ir_version = 8;
  model.opsets = {{"", 17}};
  model.metadata = {{"b", "2"}, {"a", "1"}};
  model.graph.name = "g";
  model.graph.nodes = {{"n", "Add", "", {"x", "w"}, {"y"}, {{"axis", int64_t{-1}}}}};
  model.graph.initialisers = {numbers({2})};
  model.graph.inputs = {{"x", ElementType::kFloat, true, {{-1, "N"}, {2, ""}}}};
  return model;
}

std::string refusal(const ModelData& model) {
  const auto bytes = model_bytes(model);
  return bytes.ok() ? "accepted" : bytes.error().message;
}

TEST(OnnxWriter, WritesTheFormat) {
  const auto bytes = model_bytes(small_model());
  ASSERT_TRUE(bytes.ok()) << bytes.error().message;
  const std::string tensor = std::string("\x0a\x01\x02\x10\x01\x42\x01w\x4a\x08", 10) +
                             std::string("\0\0\xc0\x3f\0\0\0\xc0", 8);
  const std::string attribute(
      "\x0a\x04"
      "axis\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\xa0\x01\x02",
      20);
  const std::string node = std::string(
                               "\x0a\x01x\x0a\x01w\x12\x01y\x1a\x01n\x22\x03"
                               "Add\x2a\x14") +
                           attribute;
  const std::string shape("\x0a\x03\x12\x01N\x0a\x02\x08\x02", 9);
  const std::string type = std::string("\x08\x01\x12\x09") + shape;
  const std::string value = std::string("\x0a\x01x\x12\x0f\x0a\x0d") + type;
  const auto length = [](const std::string& text) {
    return std::string(1, static_cast<char>(text.size()));
  };
  const std::string graph = "\x0a" + length(node) + node + "\x12\x01g\x2a" + length(tensor) +
                            tensor + "\x5a" + length(value) + value;
  const std::string expected = std::string("\x08\x08\x3a") + length(graph) + graph +
                               std::string(
                                   "\x42\x02\x10\x11\x72\x06\x0a\x01"
                                   "a\x12\x01"
                                   "1\x72\x06"
                                   "\x0a\x01"
                                   "b\x12\x01"
                                   "2");
  EXPECT_EQ(*bytes, expected);
}

TEST(OnnxWriter, TheSameModelGivesTheSameFile) {
  const TestFolder folder;
  ASSERT_TRUE(write_model(folder / "a.onnx", small_model()).ok());
  EXPECT_EQ(get_file(folder / "a.onnx"), *model_bytes(small_model()));
}

TEST(OnnxWriter, RefusesWhatCannotBeRead) {
  ModelData model = small_model();
  for (const auto& dims : {std::vector<int64_t>{3}, {-2}, {int64_t{1} << 62, 4}, {}}) {
    model.graph.initialisers = {numbers(dims)};
    EXPECT_EQ(refusal(model), "tensor 'w' has not the bytes of its type and dims");
  }
  model.graph.initialisers = {{"s", ElementType::kString, {}, {}, nullptr}};
  EXPECT_EQ(refusal(model), "tensor 's' has elements that cannot be written");
  model = small_model();
  model.graph.nodes[0].attributes[0].value = std::monostate();
  EXPECT_EQ(refusal(model), "node 'n', attribute 'axis': an attribute has no value");
}

}  // namespace
}  // namespace mantissa::onnx

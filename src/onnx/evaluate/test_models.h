// Small models for tests, as the bytes of their files.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "onnx/evaluate/evaluate.h"
#include "onnx/files/reader.h"
#include "onnx/files/test_messages.h"

namespace mantissa::onnx {

constexpr int kFloat = 1;
constexpr int kInt64 = 7;
constexpr int kBool = 9;

// The bytes must outlive the model.
inline ModelData parse(const std::string& bytes) {
  Result<ModelData> model = parse_model(std::as_bytes(std::span(bytes)), nullptr, "nowhere");
  EXPECT_TRUE(model.ok()) << model.error().message;
  return model.ok() ? std::move(*model) : ModelData();
}

inline std::string node(std::string_view type, std::initializer_list<std::string_view> in,
                        std::initializer_list<std::string_view> out,
                        std::string_view attributes = "") {
  return bytes_field(1, node_message(type, in, out, attributes));
}

inline std::string input(std::string_view name, std::initializer_list<int64_t> dims,
                         int type = kFloat) {
  return bytes_field(11, value_message(name, type, dims));
}

inline std::string output(std::string_view name, int type = kFloat) {
  return bytes_field(12,
                     bytes_field(1, name) + bytes_field(2, bytes_field(1, number_field(1, type))));
}

inline std::string whole_numbers_tensor(std::string_view name,
                                        std::initializer_list<int64_t> numbers) {
  return bytes_field(5, tensor_message(name, kInt64, {static_cast<int64_t>(numbers.size())},
                                       numbers_field(7, numbers)));
}

inline std::string integer_attribute(std::string_view name, int64_t value) {
  return bytes_field(5, bytes_field(1, name) + number_field(3, value) + number_field(20, 2));
}

inline std::string graph_attribute(std::string_view name, const std::string& graph) {
  return bytes_field(5, bytes_field(1, name) + bytes_field(6, graph) + number_field(20, 5));
}

inline TensorData tensor(const Dims& dims, float first = 1) {
  TensorData result = *allocate(ElementType::kFloat, dims);
  for (float& number : writable<float>(result)) number = first++;
  return result;
}

inline std::vector<float> floats(const TensorData& tensor) {
  const auto found = numbers<float>(tensor);
  return {found.begin(), found.end()};
}

inline std::string fault(const ModelData& model, const Tensors& inputs) {
  ThreadPool pool(1);
  const auto outputs = evaluate(model, inputs, pool);
  return outputs.ok() ? "" : outputs.error().message;
}

}  // namespace mantissa::onnx

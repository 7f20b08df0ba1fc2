// Messages of protobuf by hand, for tests: each function gives the bytes of one field.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>

namespace mantissa::onnx {

inline std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

inline std::string number_field(uint32_t number, int64_t value) {
  return varint(number << 3) + varint(static_cast<uint64_t>(value));
}

inline std::string bytes_field(uint32_t number, std::string_view bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}

inline std::string float_field(uint32_t number, float value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return varint(number << 3 | 5) + bytes;
}

// A packed run of varints.
inline std::string numbers_field(uint32_t number, std::initializer_list<int64_t> values) {
  std::string bytes;
  for (const int64_t value : values) bytes += varint(static_cast<uint64_t>(value));
  return bytes_field(number, bytes);
}

inline std::string tensor_message(std::string_view name, int type,
                                  std::initializer_list<int64_t> dims, std::string_view data) {
  return numbers_field(1, dims) + number_field(2, type) + bytes_field(8, name) + std::string(data);
}

inline std::string value_message(std::string_view name, int type,
                                 std::initializer_list<int64_t> dims) {
  std::string shape;
  for (const int64_t dim : dims) shape += bytes_field(1, number_field(1, dim));
  const std::string tensor = number_field(1, type) + bytes_field(2, shape);
  return bytes_field(1, name) + bytes_field(2, bytes_field(1, tensor));
}

inline std::string node_message(std::string_view type, std::initializer_list<std::string_view> in,
                                std::initializer_list<std::string_view> out,
                                std::string_view attributes = "") {
  std::string bytes;
  for (const std::string_view name : in) bytes += bytes_field(1, name);
  for (const std::string_view name : out) bytes += bytes_field(2, name);
  return bytes + bytes_field(4, type) + std::string(attributes);
}

// A node of a graph that calls a function of the domain "my".
inline std::string call_node(std::string_view name, std::initializer_list<std::string_view> in,
                             std::initializer_list<std::string_view> out) {
  return bytes_field(1, node_message(name, in, out) + bytes_field(7, "my"));
}

// A model's function in the domain "my". `rest`: fields of its nodes, attributes, operator sets.
inline std::string function_message(std::string_view name,
                                    std::initializer_list<std::string_view> inputs,
                                    std::initializer_list<std::string_view> outputs,
                                    const std::string& rest) {
  std::string bytes = bytes_field(1, name) + bytes_field(10, "my");
  for (const std::string_view input : inputs) bytes += bytes_field(4, input);
  for (const std::string_view output : outputs) bytes += bytes_field(5, output);
  return bytes_field(25, bytes + rest);
}

inline std::string model_message(std::string_view graph, int64_t opset = 17) {
  return number_field(1, 8) + bytes_field(7, graph) + bytes_field(8, number_field(2, opset));
}

}  // namespace mantissa::onnx

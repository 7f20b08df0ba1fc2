// Builds the graph of an exported model: nodes, and constants by name, each once.
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "onnx/model.h"

namespace mantissa::onnx {

class ExportBuilder {
 public:
  // Adds a node whose first output has the node's name, which is returned.
  std::string add(const std::string& op, const std::string& name, std::vector<std::string> inputs,
                  std::vector<NodeAttribute> attributes = {},
                  const std::vector<std::string>& further_outputs = {}) {
    std::vector<std::string> outputs = {name};
    outputs.insert(outputs.end(), further_outputs.begin(), further_outputs.end());
    graph.nodes.push_back(
        {name, op, "", std::move(inputs), std::move(outputs), std::move(attributes)});
    made_.insert(name);
    return name;
  }
  // Whether a node of that name is there.
  bool makes(const std::string& name) const { return made_.contains(name); }

  // The tensor as numbers of another type.
  std::string cast(const std::string& name, const std::string& tensor, ElementType type) {
    return add("Cast", name, {tensor}, {{"to", static_cast<int64_t>(type)}});
  }
  // The tensor within -most to most, which are constants of the name `bounds`.
  std::string clip(const std::string& name, const std::string& tensor, float most,
                   const std::string& bounds) {
    const std::string low = scalar(-most, bounds + "/low");
    return add("Clip", name, {tensor, low, scalar(most, bounds + "/high")});
  }

  // A constant. If one of that name exists, it is the same.
  std::string constant(const std::string& name, ElementType type, const std::vector<int64_t>& dims,
                       std::span<const std::byte> bytes) {
    if (!constants_.insert(name).second) return name;
    auto kept = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
    graph.initialisers.push_back({name, type, dims, *kept, kept});
    return name;
  }
  template <typename T>
  std::string numbers(const std::string& name, ElementType type, const std::vector<int64_t>& dims,
                      const std::vector<T>& values) {
    return constant(name, type, dims, std::as_bytes(std::span(values)));
  }
  std::string scalar(float value, const std::string& name) {
    return numbers<float>(name, ElementType::kFloat, {}, {value});
  }
  std::string double_scalar(double value, const std::string& name) {
    return numbers<double>(name, ElementType::kDouble, {}, {value});
  }
  std::string byte(int value) {
    return numbers<uint8_t>("byte_" + std::to_string(value), ElementType::kUint8, {},
                            {static_cast<uint8_t>(value)});
  }
  // A list of int64, such as a shape.
  std::string list(const std::string& name, const std::vector<int64_t>& values) {
    return numbers(name, ElementType::kInt64, {std::ssize(values)}, values);
  }
  // 2^exponent.
  std::string power(int exponent) {
    return scalar(std::ldexp(1.0f, exponent), "two_to_" + std::to_string(exponent));
  }

  GraphData graph;

 private:
  std::set<std::string> constants_, made_;
};

}  // namespace mantissa::onnx

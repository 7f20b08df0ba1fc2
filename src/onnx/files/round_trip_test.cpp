// Models drawn at random: what the writer writes, the reader reads. The writer writes every field
// that is not empty (OnnxWriter.WritesTheFormat), so that equal bytes mean equal models.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "onnx/files/reader.h"
#include "onnx/files/writer.h"

namespace mantissa::onnx {
namespace {

constexpr int kDeepest = 3;

class Drawing {
 public:
  explicit Drawing(uint64_t seed) : random_(seed) {}

  ModelData model() {
    ModelData model;
    model.ir_version = below(12);
    model.producer_name = bytes();
    model.producer_version = bytes();
    model.opsets[""] = below(22);
    for (int64_t i = below(3); i > 0; --i) model.opsets[name()] = below(1 << 20);
    for (int64_t i = below(4); i > 0; --i) model.metadata[bytes()] = bytes();
    model.graph = graph({}, 0);
    return model;
  }

 private:
  int64_t below(int64_t limit) {
    return std::uniform_int_distribution<int64_t>(0, limit - 1)(random_);
  }
  bool chance() { return below(2) == 1; }
  float real() { return std::uniform_real_distribution<float>(-1e20f, 1e20f)(random_); }
  int64_t whole() {
    const auto bits = static_cast<int64_t>(random_());
    return bits >> below(64);
  }

  // Any bytes, also those that are no UTF-8.
  std::string bytes() {
    std::string text(static_cast<size_t>(below(12)), '\0');
    for (char& c : text) c = static_cast<char>(below(256));
    return text;
  }
  // A name that nothing else has.
  std::string name() { return bytes() + std::to_string(++names_); }

  TensorData tensor(std::string own_name) {
    constexpr ElementType kTypes[] = {ElementType::kFloat,  ElementType::kUint8, ElementType::kInt8,
                                      ElementType::kInt64,  ElementType::kBool,  ElementType::kInt4,
                                      ElementType::kFloat16};
    TensorData tensor;
    tensor.name = std::move(own_name);
    tensor.type = kTypes[below(std::ssize(kTypes))];
    int64_t count = 1;
    for (int64_t rank = below(5); rank > 0; --rank) {
      tensor.dims.push_back(below(4));
      count *= tensor.dims.back();
    }
    const int64_t size = (count * element_bits(tensor.type) + 7) / 8;
    auto numbers = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(size));
    for (std::byte& byte : *numbers) byte = static_cast<std::byte>(below(256));
    tensor.bytes = *numbers;
    tensor.owner = numbers;
    return tensor;
  }

  ValueData value(std::string own_name) {
    ValueData value;
    value.name = std::move(own_name);
    value.type = ElementType::kFloat;
    value.has_shape = chance();
    for (int64_t rank = value.has_shape ? below(5) : 0; rank > 0; --rank) {
      Dimension dimension;
      if (chance()) dimension.size = below(1 << 30);
      if (dimension.size < 0 && chance()) dimension.name = name();
      value.dims.push_back(std::move(dimension));
    }
    return value;
  }

  template <typename Draw>
  auto list(const Draw& draw) {
    std::vector<decltype(draw())> values;
    for (int64_t i = below(5); i > 0; --i) values.push_back(draw());
    return values;
  }

  AttributeData attribute(const std::vector<std::string>& known, int depth) {
    switch (below(depth < kDeepest ? 8 : 7)) {
      case 0:
        return real();
      case 1:
        return whole();
      case 2:
        return bytes();
      case 3:
        return tensor(bytes());
      case 4:
        return list([&] { return real(); });
      case 5:
        return list([&] { return whole(); });
      case 6:
        return list([&] { return bytes(); });
      default:
        return std::make_shared<const GraphData>(graph(known, depth + 1));
    }
  }

  // `known`: values of the graphs around it.
  GraphData graph(std::vector<std::string> known, int depth) {
    GraphData graph;
    graph.name = bytes();
    for (int64_t i = below(3); i > 0; --i) {
      known.push_back(name());
      graph.inputs.push_back(value(known.back()));
    }
    for (int64_t i = below(3); i > 0; --i) {
      known.push_back(name());
      graph.initialisers.push_back(tensor(known.back()));
    }
    for (int64_t i = below(16 >> depth); i > 0; --i) {
      NodeData node;
      node.name = bytes();
      node.op_type = bytes();
      node.domain = bytes();
      for (int64_t k = known.empty() ? 0 : below(4); k > 0; --k) {
        node.inputs.push_back(chance() ? known[static_cast<size_t>(below(std::ssize(known)))] : "");
      }
      for (int64_t k = below(4); k > 0; --k) {
        node.attributes.push_back({name(), attribute(known, depth)});
      }
      for (int64_t k = 1 + below(2); k > 0; --k) node.outputs.push_back(name());
      known.insert(known.end(), node.outputs.begin(), node.outputs.end());
      graph.outputs.push_back(value(node.outputs[0]));
      graph.values.push_back(value(node.outputs.back()));
      graph.nodes.push_back(std::move(node));
    }
    return graph;
  }

  std::mt19937_64 random_;
  int64_t names_ = 0;
};

TEST(OnnxRoundTrip, WhatIsWrittenIsRead) {
  const bool holds = rc::check([](uint64_t seed) {
    const Result<std::string> bytes = model_bytes(Drawing(seed).model());
    RC_ASSERT(bytes.ok());
    const Result<ModelData> read =
        parse_model(std::as_bytes(std::span(*bytes)), nullptr, "nowhere");
    if (!read.ok()) RC_FAIL(read.error().message);
    RC_ASSERT(*model_bytes(*read) == *bytes);
    RC_CLASSIFY(bytes->size() > 1000, "larger than 1000 bytes");
  });
  EXPECT_TRUE(holds);
}

// A model that is cut off, or has another byte somewhere, is read or refused, and what was read
// can be written.
TEST(OnnxRoundTrip, DamagedFilesAreReadOrRefused) {
  const bool holds = rc::check([](uint64_t seed, uint64_t place, uint8_t byte) {
    std::string bytes = model_bytes(Drawing(seed).model()).value();
    const size_t at = place % bytes.size();
    if (byte == 0) {
      bytes.resize(at);
    } else {
      bytes[at] = static_cast<char>(bytes[at] ^ static_cast<char>(byte));
    }
    const Result<ModelData> read = parse_model(std::as_bytes(std::span(bytes)), nullptr, "nowhere");
    if (!read.ok()) {
      RC_ASSERT(!read.error().message.empty());
      return;
    }
    const Result<std::string> first = model_bytes(*read);
    if (!first.ok()) return;  // an attribute or tensor of a kind that is only read
    const auto again = parse_model(std::as_bytes(std::span(*first)), nullptr, "nowhere");
    if (!again.ok()) RC_FAIL(again.error().message);
    RC_ASSERT(*model_bytes(*again) == *first);
  });
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace mantissa::onnx

// The state of an export, shared by the families of operators (operators.h).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "onnx/export/builder.h"
#include "onnx/export/exporter.h"

namespace mantissa::onnx {

inline constexpr const char* kPixels = "pixels";  // the model's input
inline constexpr const char* kLogits = "logits";  // its output
constexpr int kSignedZero = 128;  // the byte for mantissa 0 if mantissas may be negative

// A value of the network in the model: images are [N, C, H, W], vectors [N, C] in our own order.
struct Exported {
  std::string name;  // a tensor of uint8
  int exponent = 0;
  int least = -127, most = 127;  // mantissas
  int zero = kSignedZero;        // the byte for mantissa 0
  bool is_real = false;          // float32 logits

  bool is_signed() const { return least < 0; }
  int most_byte() const { return most + zero; }
  int least_byte() const { return least + zero; }
};

// A value whose mantissas reach from -most, or from 0, to `most`.
inline Exported exported_value(std::string name, int exponent, int most, bool is_signed) {
  return {.name = std::move(name),
          .exponent = exponent,
          .least = is_signed ? -most : 0,
          .most = most,
          .zero = is_signed ? kSignedZero : 0};
}

struct ExportContext {
  const ExportedNetwork& network;
  const Graph& graph;
  ExportTarget target;
  ExportBuilder builder;
  std::vector<std::optional<Exported>> values;  // by value; nothing: not made yet, or refused
  std::vector<bool> reads_negatives;            // by value: a reader tells negatives from zero
  std::vector<std::string> notes;

  int exponent(int value) const { return network.exponents[static_cast<size_t>(value)]; }
  int limit(int value) const { return network.limits[static_cast<size_t>(value)]; }
  const Exported& input(const Node& node, size_t i = 0) const {
    return *values[static_cast<size_t>(node.inputs[i])];
  }
  const Shape& shape(int value) const { return graph.values[value].shape; }
  // The tensor of the node's output.
  std::string output_name(const Node& node) const {
    const std::string& name = graph.values[node.outputs[0]].name;
    return name == kPixels || name == kLogits ? name + "/value" : name;
  }
};

NodeAttribute ints(const char* name, std::vector<int64_t> values);

// Whether a rescaled layer applies one.
bool is_relu6(const Node& node);

// Whether negative results of the node matter to any reader.
bool is_signed(const ExportContext& context, int n);

// The float32 tensor of a value, for one reader: ONNX Runtime wants them apart.
std::string real(ExportContext& context, const Exported& value, const std::string& reader);

// Quantises a float32 tensor, and clips it to the mantissas that there are. `out` says how.
void quantise_to(ExportContext& context, const std::string& tensor, const std::string& scale,
                 const Exported& out);

// Adds a look-up of 256 bytes, or of as many for each channel, from the node's input to `out`.
void look_up(ExportContext& context, const Node& node, int64_t channels,
             const std::vector<uint8_t>& table, const Exported& out);

// The same for the output of a node, at its exponent. `sign`: in place of is_signed.
Exported quantised(ExportContext& context, int n, const std::string& tensor,
                   std::optional<bool> sign = std::nullopt);

}  // namespace mantissa::onnx

// The state of an export, shared by the families of operators (operators.h).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "onnx/export/builder.h"
#include "onnx/export/exporter.h"
#include "onnx/names_by_text.h"
#include "ops/image_shape.h"

namespace mantissa::onnx {

constexpr int kSignedZero = 128;  // the byte for mantissa 0 if mantissas may be negative

// The form of a value in the model. It decides which function of an operator exports a node that
// reads it.
enum class Form : uint8_t {
  kBytes,   // mantissas in uint8: an image, [N, C, H, W], or a vector in our own order, [N, C]
  kWide,    // mantissas of up to 16 bits, times 2^exponent, in float32: [N, C, H, W] or [N, C]
  kVector,  // float32 [batch, channels]
  kRows,    // float32 [batch, sequence, channels]
  kFlat,    // rows one after the other, whose number is open: [batch, sequence * channels]
  kTokens,  // int64 [batch, sequence]
  kMask,    // the same: 1, or 0 of padding
  kPlaces,  // int64 [batch, rows]: places of rows in a value
};

// The sequence whose positions a value has. Networks that read one have the source alone.
enum class Side : uint8_t { kSource, kTarget };

// A value of the network in the model.
struct Exported {
  std::string name;  // the tensor
  Form form = Form::kBytes;
  // Only for mantissas.
  int exponent = 0;
  int least = -127, most = 127;  // mantissas
  int zero = kSignedZero;        // the byte for mantissa 0; of kWide 0
  // For all others.
  Side side = Side::kSource;
  bool repeats_last = false;  // padding has the row before it, so the last row is no padding

  // Whether it is mantissas at the network's exponent, and no real numbers near these.
  bool is_mantissas() const { return form == Form::kBytes || form == Form::kWide; }
  bool is_signed() const { return least < 0; }
  int most_byte() const { return most + zero; }
  int least_byte() const { return least + zero; }
};

constexpr int kMostOfBytes = 127;

// Mantissas from -most, or from 0, to `most`: bytes if they have at most 8 bits.
inline Exported exported_value(std::string name, int exponent, int most, bool is_signed) {
  const bool is_wide = most > kMostOfBytes;
  return {.name = std::move(name),
          .form = is_wide ? Form::kWide : Form::kBytes,
          .exponent = exponent,
          .least = is_signed ? -most : 0,
          .most = most,
          .zero = is_signed && !is_wide ? kSignedZero : 0};
}

struct ExportContext {
  const ExportedNetwork& network;
  const Graph& graph;
  ExportTarget target;
  std::vector<std::vector<int>> readers;        // by value
  std::vector<bool> reads_negatives;            // by value: a reader tells negatives from zero
  std::vector<std::optional<Exported>> values;  // by value; nothing: not made yet, or refused
  std::vector<std::string> outputs;             // the model's, in the order of the network's
  ExportBuilder builder;
  std::vector<std::string> notes;
  NamesByText near = {};  // nodes whose results are near the network's, not equal, by reason
  bool in_rows = false;   // an operator of rows computes for one of mantissas (by_rows.h)

  int exponent(int value) const { return network.exponents[static_cast<size_t>(value)]; }
  int limit(int value) const { return network.limits[static_cast<size_t>(value)]; }
  const ExportedParameter& numbers(int parameter) const {
    return network.parameters[static_cast<size_t>(parameter)];
  }
  const Exported& input(const Node& node, size_t i = 0) const {
    return *values[static_cast<size_t>(node.inputs[i])];
  }
  const Shape& shape(int value) const { return graph.values[value].shape; }
  // The same of bytes, for which a sequence is an image of one row.
  Shape image_shape(int value) const { return ops::as_image(shape(value)); }
  // The tensor of the node's output. The model's inputs and outputs keep their names for themselves.
  std::string output_name(const Node& node) const;
  // The model's output that is the network's value; empty: it is none.
  std::string result_name(int value) const;
};

// The node's results are near the network's, not equal. `why`: "is computed in float32".
void add_near(ExportContext& context, const Node& node, const std::string& why);

NodeAttribute ints(const char* name, std::vector<int64_t> values);

// Whether a rescaled layer applies one.
bool is_relu6(const Node& node);

// Whether negative results of the node matter to any reader.
bool is_signed(const ExportContext& context, int n);

// The float32 tensor of mantissas, for one reader: ONNX Runtime wants those of bytes apart.
std::string real(ExportContext& context, const Exported& value, const std::string& reader);

// Quantises a float32 tensor, and clips it to the mantissas that there are. `out` says how.
void quantise_to(ExportContext& context, const std::string& tensor, const std::string& scale,
                 const Exported& out);

// The same for the output of a node, at its exponent. `sign`: in place of is_signed.
Exported quantised(ExportContext& context, int n, const std::string& tensor,
                   std::optional<bool> sign = std::nullopt);

// The range of a look-up's indices: all bytes, or the mantissas of a wide value.
struct TableRange {
  int64_t first, last;  // mantissas
  int64_t size() const { return last - first + 1; }
};
TableRange table_range(const Exported& in);
// The places of the elements of the node's input in a table of that range: int32.
std::string table_index(ExportContext& context, const Node& node);

// Adds a look-up from the node's input to `out`: the mantissas of the input's table_range, one
// range for all or one for each channel. Those below `out.least` become `out.least`.
void look_up(ExportContext& context, const Node& node, int64_t channels,
             const std::vector<int64_t>& mantissas, const Exported& out);

}  // namespace mantissa::onnx

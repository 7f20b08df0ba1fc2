// Convolutions and linear layers of frozen networks.
#include <algorithm>
#include <bit>
#include <numeric>

#include "device/rows/convolution_members.h"
#include "device/rows/frozen_rows.h"
#include "device/text/packed_weights.h"
#include "numerics/rounding.h"
#include "ops/attributes.h"
#include "ops/convolutions/convolution_bytes.h"
#include "ops/convolutions/convolution_sums.h"

namespace mantissa::device {
namespace {

using kernels::ConvolutionShape;

ConvolutionShape shape_of(const OpContext& c) {
  return ops::convolution_shape(c, c.inputs[0].shape, c.output().shape);
}

// The sums of a pixel.
int64_t work_bytes(const OpContext& c) {
  return c.output().shape.last() * int64_t{sizeof(int32_t)};
}

bool is_depthwise(const ConvolutionShape& s) {
  return s.groups > 1 && s.groups == s.in_channels && s.groups == s.out_channels;
}

// Writes the call; `take` is a function of narrow.h, and `work` its structure.
void write_layer(CWriter& writer, const OpContext& c, const std::string& bias,
                 std::string_view take, const std::string& work) {
  const ConvolutionShape s = shape_of(c);
  writer.include("device/runtime/convolution.h");
  writer.include("device/runtime/narrow.h");
  const std::string shape = writer.structure("DevConvolution", "shape", convolution_members(s));
  const Tensor& mantissas = c.parameters[0].mantissa;
  const auto* data = mantissas.as<int8_t>();
  const PackedWeights packed = pack_weights({data, data + mantissas.count()});
  const std::string weights = writer.structure(
      "DevWeights", "weights",
      {{"mantissas",
        writer.table(packed.bits == 8 ? "int8_t" : "uint8_t", "weights", packed.bytes)},
       {"bias", bias},
       {"shift", c_number(packed.shift)}});
  const Instruction& instruction = writer.instruction();
  writer.statement(std::string(is_depthwise(s) ? "dev_depthwise_" : "dev_convolution_") +
                   c_number(packed.bits) + "(" + shape + ", " +
                   writer.at(instruction.inputs()[0], "int8_t") + ", " + weights + ",");
  writer.statement("    " + writer.work("int32_t") + ", " + std::string(take) + ", (void*)" + work +
                   ");");
}

// A layer whose batch norm is a multiplier for each channel.
Status write_rescaled(CWriter& writer, const OpContext& c) {
  const int64_t channels = c.output().shape.last();
  const auto* bias = c.parameters[1].mantissa.as<int32_t>();
  const auto* multipliers = c.parameters[2].mantissa.as<float>();
  std::vector<int64_t> bits;
  for (int64_t o = 0; o < channels; ++o) bits.push_back(std::bit_cast<uint32_t>(multipliers[o]));
  const auto [least, most] = ops::rescaled_range(c);
  const std::string narrow =
      writer.structure("DevRescale", "narrow",
                       {{"out", writer.at(writer.instruction().output(), "int8_t")},
                        {"channels", c_number(channels)},
                        {"multipliers", writer.table("uint32_t", "multipliers", bits)},
                        {"least", c_number(least)},
                        {"most", c_number(most)}});
  const std::string name =
      writer.table("int32_t", "bias", std::vector<int64_t>(bias, bias + channels));
  write_layer(writer, c, name, "dev_take_rescaled", narrow);
  return {};
}

// The bias at the sums' exponents.
std::vector<int64_t> aligned_bias(const OpContext& c, const ops::SumExponents& exponents) {
  std::vector<int64_t> aligned;
  if (c.parameters.size() < 2) return aligned;
  const Tensor& bias = c.parameters[1].mantissa;
  const ops::Mantissas mantissas(bias);
  for (int64_t o = 0; o < bias.count(); ++o) {
    const int64_t wide = rescale_rne(mantissas[o], exponents.of(o) - *bias.exponent);
    aligned.push_back(saturate(wide, ops::kBiasLimit));
  }
  return aligned;
}

// Right shifts of the channels from their sums to `exponent`.
std::vector<int64_t> shifts_to(int exponent, int64_t channels, const ops::SumExponents& exponents) {
  std::vector<int64_t> shifts;
  for (int64_t o = 0; o < channels; ++o) {
    shifts.push_back(std::max(exponent - exponents.of(o), 0));
  }
  return shifts;
}

Status write_plain(CWriter& writer, const OpContext& c) {
  if (c.mode.half_up) {
    return invalid_input("node '" + writer.instruction().name +
                         "': with ties=up C takes layers of the tie-free form only");
  }
  const int64_t channels = c.output().shape.last();
  const ops::SumExponents exponents(c.inputs[0], c.parameters[0].mantissa);
  const std::vector<int64_t> aligned = aligned_bias(c, exponents);
  const std::string bias = aligned.empty() ? "NULL" : writer.table("int32_t", "bias", aligned);
  const Operand& output = writer.instruction().output();
  const auto shifts = [&] {
    if (!exponents.by_channel()) return std::string("NULL");
    return writer.table("int32_t", "shifts", shifts_to(*c.output().exponent, channels, exponents));
  };
  if (c.output().type == DataType::kInt32) {
    const std::string leave = writer.structure("DevLeave", "leave",
                                               {{"out", writer.at(output, "int32_t")},
                                                {"channels", c_number(channels)},
                                                {"shifts", shifts()}});
    write_layer(writer, c, bias, "dev_take_left", leave);
    return {};
  }
  const int64_t limit = mantissa_limit(c.output().bits);
  const std::string narrow =
      writer.structure("DevNarrow", "narrow",
                       {{"out", writer.at(output, "int8_t")},
                        {"channels", c_number(channels)},
                        {"shift", c_number(*c.output().exponent - exponents.largest())},
                        {"least", c_number(-limit)},
                        {"most", c_number(limit)},
                        {"shifts", shifts()}});
  write_layer(writer, c, bias,
              exponents.by_channel() ? "dev_take_shifted_channels" : "dev_take_shifted", narrow);
  return {};
}

constexpr FrozenRow kLayerRows[] = {{"linear", write_plain, work_bytes},
                                    {"convolution", write_plain, work_bytes},
                                    {"rescaled_linear", write_rescaled, work_bytes},
                                    {"rescaled_convolution", write_rescaled, work_bytes}};

}  // namespace

std::span<const FrozenRow> layer_rows() { return kLayerRows; }

}  // namespace mantissa::device

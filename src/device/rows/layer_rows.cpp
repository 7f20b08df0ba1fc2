// Convolutions and linear layers of frozen networks.
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <optional>

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

bool is_depthwise(const ConvolutionShape& s) {
  return s.groups > 1 && s.groups == s.in_channels && s.groups == s.out_channels;
}

bool is_linear(const ConvolutionShape& s) {
  return s.groups == 1 && s.in_height * s.in_width == 1 && s.kernel_height * s.kernel_width == 1 &&
         s.padding_height + s.padding_width == 0;
}

std::span<const int8_t> weights_of(const OpContext& c) {
  const Tensor& mantissas = c.parameters[0].mantissa;
  return {mantissas.as<int8_t>(), static_cast<size_t>(mantissas.count())};
}

// The memory that the functions of device/runtime/words.h need.
int64_t work_bytes(const OpContext& c) {
  const ConvolutionShape s = shape_of(c);
  if (is_depthwise(s)) return s.out_channels * int64_t{sizeof(int32_t)};
  const int64_t sums = (s.out_channels + 1) * int64_t{sizeof(int32_t)};
  const int64_t taps = int64_t{s.kernel_height} * s.kernel_width;
  const int64_t inputs = taps * s.in_channels / s.groups;
  const int64_t in_word = per_word(packed_bits(weights_of(c)));
  const int64_t column = (inputs + in_word - 1) / in_word * in_word;
  const bool is_pixel = taps == 1 && s.padding_height + s.padding_width == 0 && column == inputs;
  const int64_t of_bytes = is_pixel ? 0 : column;
  const bool has_pairs = int64_t{s.out_height} * s.out_width > 1;
  return has_pairs ? 2 * (sums + column * int64_t{sizeof(int16_t)}) + of_bytes : sums + of_bytes;
}

// Writes the call; `take` is a function of narrow.h, and `work` its structure.
void write_layer(CWriter& writer, const OpContext& c, const std::string& bias,
                 std::string_view take, const std::string& work) {
  const ConvolutionShape s = shape_of(c);
  writer.include("device/runtime/words.h");
  writer.include("device/runtime/narrow.h");
  const std::string shape = writer.structure("DevConvolution", "shape", convolution_members(s));
  const PackedWeights packed = is_depthwise(s)
                                   ? pack_taps(weights_of(c), s.out_channels)
                                   : pack_pairs(weights_of(c), s.groups, s.out_channels / s.groups);
  const std::string weights =
      writer.structure("DevWeights", "weights",
                       {{"mantissas", writer.table("uint32_t", "weights", packed.words)},
                        {"bias", bias},
                        {"shift", c_number(packed.shift)}});
  const Instruction& instruction = writer.instruction();
  const std::string kind = is_depthwise(s) ? "depthwise" : is_linear(s) ? "linear" : "convolution";
  writer.statement("dev_" + kind + "_words_" + c_number(packed.bits) + "(" + shape + ", " +
                   writer.at(instruction.inputs()[0], "int8_t") + ", " + weights + ",");
  writer.statement("    " + writer.work("void") + ", " + std::string(take) + ", (void*)" + work +
                   ");");
}

// A channel's sums, S = products + bias: the largest magnitude, and whether all are even or odd.
struct SumFacts {
  int64_t bound;
  bool are_even, are_odd;
};

SumFacts facts_of(std::span<const int8_t> weights, int64_t bias) {
  int64_t bound = std::abs(bias);
  bool has_odd = false;
  for (const int8_t weight : weights) {
    bound += std::abs(int{weight}) * 128;
    has_odd |= weight % 2 != 0;
  }
  return {bound, !has_odd && bias % 2 == 0, !has_odd && bias % 2 != 0};
}

// The k of a multiplier 2^-k for which float32(float32(S) * 2^-k), rounded and clipped to 8 bits,
// is floor((S + half a unit) / 2^k): S lies on no tie, and is exact as a float32 number or clipped.
std::optional<int> shift_of(uint32_t multiplier, const SumFacts& sums) {
  constexpr uint32_t kFraction = 0x7fffff;
  const int k = 127 - static_cast<int>(multiplier >> 23);
  if ((multiplier & kFraction) != 0 || k < 0 || k > 30) return std::nullopt;
  const bool has_ties = k == 0 ? false : k == 1 ? !sums.are_even : !sums.are_odd;
  const bool is_exact = k <= 15 || sums.bound < 1 << 24;
  const bool fits = sums.bound < (int64_t{1} << 31) - (int64_t{1} << k);
  if (has_ties || !is_exact || !fits) return std::nullopt;
  return k;
}

// A layer whose batch norm is a multiplier for each channel. Multipliers of the tie-free form are
// shifts, and half a unit is part of the bias.
Status write_rescaled(CWriter& writer, const OpContext& c) {
  const auto channels = static_cast<size_t>(c.output().shape.last());
  const auto* bias = c.parameters[1].mantissa.as<int32_t>();
  const auto* multipliers = c.parameters[2].mantissa.as<float>();
  const auto weights = weights_of(c);
  const size_t inputs = weights.size() / channels;
  std::vector<int64_t> plain(bias, bias + channels), halves = plain, bits, shifts;
  for (size_t o = 0; o < channels; ++o) {
    const auto number = std::bit_cast<uint32_t>(multipliers[o]);
    bits.push_back(number);
    const auto k = shift_of(number, facts_of(weights.subspan(o * inputs, inputs), bias[o]));
    if (!k.has_value()) continue;
    shifts.push_back(*k);
    halves[o] += *k == 0 ? 0 : int64_t{1} << (*k - 1);
  }
  const bool floors = shifts.size() == channels;
  const auto [least, most] = ops::rescaled_range(c);
  CMembers members = {{"out", writer.at(writer.instruction().output(), "int8_t")},
                      {"channels", c_number(std::ssize(plain))}};
  if (floors) {
    members.push_back({"shifts", writer.table("int32_t", "shifts", shifts)});
  } else {
    members.push_back({"multipliers", writer.table("uint32_t", "multipliers", bits)});
  }
  members.insert(members.end(), {{"least", c_number(least)}, {"most", c_number(most)}});
  const std::string narrow =
      writer.structure(floors ? "DevNarrow" : "DevRescale", "narrow", members);
  const std::string name = writer.table("int32_t", "bias", floors ? halves : plain);
  write_layer(writer, c, name, floors ? "dev_take_floored" : "dev_take_rescaled", narrow);
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

// Pools of frozen networks.
#include <bit>
#include <cmath>

#include "device/rows/frozen_rows.h"
#include "numerics/float_product.h"
#include "numerics/real.h"
#include "ops/attributes.h"
#include "ops/pooling/pool_axes.h"

namespace mantissa::device {
namespace {

std::string axis_text(const kernels::PoolAxis& axis) {
  return "{" + c_number(axis.window) + ", " + c_number(axis.stride) + ", " +
         c_number(axis.padding) + "}";
}

// The members of a RefPoolShape.
CMembers window_members(const OpContext& c) {
  const kernels::PoolShape s = ops::pool_shape(c.attributes<ops::PoolAttributes>(),
                                               c.inputs[0].shape, c.output().shape);
  return {{"in_height", c_number(s.in_height)},   {"in_width", c_number(s.in_width)},
          {"channels", c_number(s.channels)},     {"out_height", c_number(s.out_height)},
          {"out_width", c_number(s.out_width)},   {"vertical", axis_text(s.vertical)},
          {"horizontal", axis_text(s.horizontal)}};
}

Status write_max_pool(CWriter& writer, const OpContext& c) {
  const Shape& in = c.inputs[0].shape;
  writer.include("device/runtime/pools.h");
  const std::string shape =
      writer.structure("RefMaxPoolShape", "shape",
                       {{"in_height", c_number(in[1])},
                        {"in_width", c_number(in[2])},
                        {"channels", c_number(in[3])},
                        {"window", c_number(c.attributes<ops::PoolAttributes>().window)}});
  writer.statement("dev_max_pool(" + shape + ", " + writer.input() + ", " + writer.output() + ", " +
                   c_number(in[0]) + ");");
  return {};
}

Status write_max_windows(CWriter& writer, const OpContext& c) {
  writer.include("reference/layers/pooling.h");
  const std::string shape = writer.structure("RefPoolShape", "shape", window_members(c));
  writer.statement("const RefConstSpan from = {" + writer.input() + ", 8};");
  writer.statement("const RefSpan to = {" + writer.output() + ", 8};");
  writer.statement("ref_max_pool_windows(" + shape + ", from, to, NULL, 0, " +
                   c_number(c.inputs[0].shape[0]) + ");");
  return {};
}

Status write_window_means(CWriter& writer, const OpContext& c) {
  writer.include("device/runtime/pools.h");
  writer.structure("RefPoolShape", "shape", window_members(c));
  const std::string average = writer.structure(
      "DevAverage", "average",
      {{"shape", "shape"},
       {"in", writer.input()},
       {"out", writer.output()},
       {"batch", c_number(c.inputs[0].shape[0])},
       {"counts_padding", c.attributes<ops::PoolAttributes>().count_padding ? "true" : "false"},
       {"shift", c_number(*c.output().exponent - *c.inputs[0].exponent)},
       {"limit", c_number(mantissa_limit(c.output().bits))}});
  writer.statement("dev_average(" + average + ");");
  return {};
}

// 2^(exponent of the input - exponent of the output) / pixels as a float32 number, as the operator
// has it.
uint32_t mean_multiplier(const OpContext& c, int64_t pixels) {
  const Real real = Real(1) / Real(pixels);
  const int shift = fixed_point_shift(real, kFloatBits);
  const int64_t multiplier = to_fixed_point(real, shift, mantissa_limit(kFloatBits + 1));
  const int exponent = *c.inputs[0].exponent - *c.output().exponent - shift;
  return std::bit_cast<uint32_t>(std::ldexp(static_cast<float>(multiplier), exponent));
}

Status write_image_mean(CWriter& writer, const OpContext& c) {
  const Shape in = ops::as_images(c.inputs[0].shape);
  const int64_t pixels = in[1] * in[2];
  writer.include("device/runtime/pools.h");
  const std::string average =
      writer.structure("DevImageAverage", "average",
                       {{"in", writer.input()},
                        {"out", writer.output()},
                        {"batch", c_number(in[0])},
                        {"pixels", c_number(pixels)},
                        {"channels", c_number(in[3])},
                        {"multiplier", c_number(mean_multiplier(c, pixels)) + "u"},
                        {"limit", c_number(mantissa_limit(c.output().bits))}});
  writer.statement("dev_image_average(" + average + ");");
  return {};
}

constexpr FrozenRow kPoolingRows[] = {{"max_pool", write_max_pool},
                                      {"overlapping_max_pool", write_max_windows},
                                      {"exact_average_pool", write_window_means},
                                      {"rescaled_global_average", write_image_mean}};

}  // namespace

std::span<const FrozenRow> pooling_rows() { return kPoolingRows; }

}  // namespace mantissa::device

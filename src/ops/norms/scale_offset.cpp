// scale_offset: batch norm of a frozen network, one multiplier and offset per channel.
#include "ops/norms/scale_offset.h"

#include <algorithm>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/kernel_name.h"
#include "ops/norms/batch_norm_parts.h"
#include "ops/ops.h"
#include "ops/same_shape.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

struct ScaleOffsetAttributes {
  int least_bits = 0;  // of the result's mantissas
};
constexpr AttributeSpec kSchema[] = {
    whole<&ScaleOffsetAttributes::least_bits>("least_bits", 0, 0, 16)};

// Integers M, B and the exponent k: wide = q M + B at 2^k.
std::vector<Parameter> parameters(const Attributes&, std::span<const Shape> inputs) {
  const Shape shape{inputs[0].last()};
  return {{.name = "multiplier", .shape = shape, .storage = Storage::kInt32, .trained = false},
          {.name = "wide_offset", .shape = shape, .storage = Storage::kInt64, .trained = false}};
}

void forward(const OpContext& c) {
  const Tensor& multiplier = c.parameters[0].mantissa;
  *c.output().saturated +=
      scale_and_offset(c, multiplier.as<int32_t>(), c.parameters[1].mantissa.as<int64_t>(),
                       *c.output().exponent - *multiplier.exponent, *multiplier.exponent);
}

}  // namespace

int64_t scale_and_offset(const OpContext& c, const int32_t* multiplier, const int64_t* offset,
                         int shift, int wide_exponent, const kernels::PassCounts& counts,
                         const int32_t* negative_shift) {
  const int64_t channels = c.output().shape.last();
  const auto wide_of = [&, in = Mantissas(c.inputs[0])](int64_t i) {
    const int64_t wide = in[i] * multiplier[i % channels] + offset[i % channels];
    return c.mode.relu ? std::max<int64_t>(0, wide) : wide;
  };
  calibrate(c, wide_exponent, wide_of);
  const kernels::ScaleOffset args{.in = value_of(c.inputs[0]),
                                  .channels = channels,
                                  .multiplier = multiplier,
                                  .offset = offset,
                                  .relu = c.mode.relu && negative_shift == nullptr,
                                  .shift = shift,
                                  .out = value_of(c.output()),
                                  .negative_shift = negative_shift ? *negative_shift : -1};
  return write_pieces(
             c, c.output(), c.output().count() / channels, batch_norm_grain(channels), counts,
             [&](int64_t begin, int64_t end) {
               return c.kernel.table->batch_norm->scale_offset(args, begin, end);
             },
             wide_of)
      .saturated;
}

const Op kScaleOffset = {
    .name = "scale_offset",
    .traits = {.takes = TakenExponents::kOfChannels, .row_by_row = true, .applies_relu = true},
    .attributes = schema<ScaleOffsetAttributes>(kSchema),
    .bits = least_bits<ScaleOffsetAttributes>,
    .infer_shape = same_shape,
    .parameters = parameters,
    .integer = {.forward = {.run = forward},
                .kernel = kernel_name<&kernels::KernelTable::batch_norm>},
    .fp32 = &fp32::kScaleOffset};

}  // namespace mantissa::ops

// The gradient of the weights of a linear layer whose input's rows have exponents of their own: a
// sum over rows, so these come to one exponent first.
#include <algorithm>
#include <array>

#include "ops/convolutions/convolution_wide.h"
#include "ops/convolutions/linear_rows.h"
#include "ops/rows.h"

namespace mantissa::ops {
namespace {

// A row of the input at this exponent, in 16 bits.
void align_row(const OpContext& c, int64_t row, int exponent, int16_t* to) {
  const Tensor& input = c.inputs[0];
  const int64_t channels = input.shape.last();
  const int shift = exponent - input.row_exponent(row);
  std::array<int64_t, 512> wide;
  for (int64_t at = 0; at < channels; at += std::ssize(wide)) {
    const int64_t count = std::min(std::ssize(wide), channels - at);
    c.kernel.table->wide->rescale(
        {gradient_from(input, row * channels + at), shift, false, wide.data()}, 0, count);
    c.kernel.table->wide->narrow({wide.data(), 0, {to + at, kSharedBits}}, 0, count);
  }
}

// The input's rows at one exponent, which is written there, too.
Tensor aligned_input(const OpContext& c, int16_t* exponent) {
  const Tensor& input = c.inputs[0];
  const int64_t channels = input.shape.last(), rows = input.count() / channels;
  *exponent = static_cast<int16_t>(shared_exponent(input, 0, rows));
  auto* const to = reinterpret_cast<int16_t*>(c.memory.workspace);
  kernels::parallel_ranges(*c.kernel.pool, rows, row_grain(channels),
                           [&](int64_t begin, int64_t end, int64_t) {
                             for (int64_t row = begin; row < end; ++row) {
                               align_row(c, row, *exponent, to + row * channels);
                             }
                           });
  Tensor aligned = input;
  aligned.data = to;
  aligned.type = DataType::kInt16;
  aligned.bits = kSharedBits;
  aligned.exponent = exponent;
  aligned.row_exponents = nullptr;
  return aligned;
}

}  // namespace

Prepared prepare_row_backward_weights(const OpContext& c) {
  return prepare_wide_grad_weights(c, kSharedBits);
}

void row_backward_weights(const OpContext& c) {
  if (c.parameters[0].gradient.empty()) return;
  int16_t exponent = 0;
  wide_backward_weights(c, aligned_input(c, &exponent));
}

}  // namespace mantissa::ops

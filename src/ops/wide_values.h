// Values of more than 8 bits: the arithmetic of operators on them, in one plain loop for all. It
// works element by element in int64, so that the bits cannot depend on an instruction set. A kernel
// narrows the loop's results, block by block. Kernels of single operators are for 8 bits, except
// those of batch norm, maximum pooling and addition (docs/decisions/0023-wide-values.md).
#pragma once

#include <array>
#include <type_traits>

#include "kernels/common/mantissa_span.h"
#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "ops/narrowing.h"

namespace mantissa::ops {

// Whether mantissas are int8, as the kernels for values need them; true for an operand that is not
// there.
inline bool is_bytes(const Tensor& value) { return value.type == DataType::kInt8; }

inline kernels::MantissaSpan value_of(const Tensor& tensor) { return {tensor.data, tensor.bits}; }

// Mantissas of a value or gradient as int64, from any type.
class Mantissas {
 public:
  explicit Mantissas(const Tensor& tensor) : data_(tensor.data), type_(tensor.type) {}
  int64_t operator[](int64_t i) const {
    if (type_ == DataType::kInt8) return static_cast<const int8_t*>(data_)[i];
    if (type_ == DataType::kInt16) return static_cast<const int16_t*>(data_)[i];
    return static_cast<const int32_t*>(data_)[i];
  }

 private:
  const void* data_;
  DataType type_;
};

constexpr int64_t kWideGrain = 4096;

// out = narrow(wide >> shift) for all elements, unless `writes` is false; |wide| <= 2^62.
inline kernels::WideStatistics narrow_wide(const OpContext& c, const int64_t* wide,
                                           const Tensor& out, bool writes, int shift,
                                           const kernels::PassCounts& counts = {}) {
  const kernels::NarrowWide args{wide, shift, {writes ? out.data : nullptr, out.bits}};
  return kernels::parallel_statistics(
      *c.kernel.pool, out.count(), kWideGrain, [&](int64_t begin, int64_t end, int64_t part) {
        return kernels::narrow_counted(*c.kernel.table->wide, args, begin, end,
                                       counts.wide_of(part));
      });
}

// The same of wide_of(i), which may ask for the element's channel too.
template <typename WideOf>
kernels::WideStatistics narrow_elements(const OpContext& c, const Tensor& out, bool writes,
                                        int shift, const WideOf& wide_of,
                                        const kernels::PassCounts& counts = {}) {
  constexpr int64_t kBlock = 512;
  constexpr bool kByChannel = std::is_invocable_v<const WideOf&, int64_t, int64_t>;
  const int64_t channels = out.shape.last();
  const auto narrow_range = [&](int64_t begin, int64_t end, int64_t part) {
    std::array<int64_t, kBlock> wide;
    kernels::WideStatistics found;
    int64_t channel = begin % channels;
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t count = std::min(kBlock, end - at);
      if constexpr (kByChannel) {
        for (int64_t i = 0; i < count;) {  // the rest of a row, which compilers make vectors of
          const int64_t of_row = std::min(channels - channel, count - i);
          for (int64_t j = 0; j < of_row; ++j) wide[i + j] = wide_of(at + i + j, channel + j);
          i += of_row;
          channel = (channel + of_row) % channels;
        }
      } else {
        for (int64_t i = 0; i < count; ++i) wide[i] = wide_of(at + i);
      }
      kernels::MantissaSpan to = gradient_from(out, at);
      if (!writes) to.data = nullptr;
      found += kernels::narrow_counted(*c.kernel.table->wide, {wide.data(), shift, to}, 0, count,
                                       counts.wide_of(part));
    }
    return found;
  };
  return kernels::parallel_statistics(*c.kernel.pool, out.count(), kWideGrain, narrow_range);
}

// context.output = wide_of(i) at wide_exponent, requantised to its width in any mode.
template <typename WideOf>
void write_wide(const OpContext& c, int wide_exponent, const WideOf& wide_of) {
  calibrate(c, wide_exponent, wide_of);
  narrow_by_passes(
      c, wide_exponent,
      [&](bool writes, int shift, const kernels::PassCounts& counts) {
        return narrow_elements(c, c.output(), writes, shift, wide_of, counts);
      },
      64);
}

// The same, rounded half up: twice a value and one is odd, so never halfway between mantissas, and
// above a value that was.
template <typename WideOf>
void write_half_up(const OpContext& c, int wide_exponent, const WideOf& wide_of) {
  write_wide(c, wide_exponent - 1, [&](int64_t i) { return 2 * wide_of(i) + 1; });
}

// grad_input = wide_of(i) at wide_exponent, requantised to its width.
template <typename WideOf>
void write_wide_gradient(const OpContext& c, const Tensor& grad_input, int wide_exponent,
                         const WideOf& wide_of) {
  narrow_gradient(c, grad_input, wide_exponent, [&](int shift, const kernels::PassCounts& counts) {
    return narrow_elements(c, grad_input, true, shift, wide_of, counts);
  });
}

// Calls use(signs, at, count) on pieces that cover [begin, end), with int8 that are positive if the
// value is.
template <typename Use>
void for_each_sign(const Tensor& value, int64_t begin, int64_t end, const Use& use) {
  if (is_bytes(value)) return use(value.as<int8_t>() + begin, begin, end - begin);
  std::array<int8_t, 4096> signs;
  for (int64_t at = begin; at < end; at += int64_t{signs.size()}) {
    const int64_t count = std::min(end - at, int64_t{signs.size()});
    for (int64_t i = 0; i < count; ++i) signs[i] = value.as<int16_t>()[at + i] > 0;
    use(signs.data(), at, count);
  }
}

// grad_input = value > 0 ? context.grad_output : 0 for the elements [begin, end).
inline void mask_gradient(const OpContext& c, const Tensor& value, const Tensor& grad_input,
                          int64_t begin, int64_t end) {
  for_each_sign(value, begin, end, [&](const int8_t* signs, int64_t at, int64_t count) {
    c.kernel.table->elementwise->relu_gradient(signs, gradient_from(c.grad_output(), at),
                                               gradient_from(grad_input, at), 0, count);
  });
}

}  // namespace mantissa::ops

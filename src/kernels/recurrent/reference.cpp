// The normative loops of recurrent layers.
#include "kernels/recurrent/recurrent.h"
#include "kernels/recurrent/recurrent_cells.h"
#include "numerics/exponent.h"

namespace mantissa::kernels {
namespace {

void products(const PairProducts& args) noexcept {
  std::fill_n(args.sums, args.rows * args.columns, int64_t{0});
  for (int64_t r = 0; r < args.rows; ++r) {
    int64_t* const sums = args.sums + r * args.columns;
    for (int64_t k = 0; k < args.depth; ++k) {
      const int32_t a = args.a[r * args.a_row + k / 2 * args.a_pair + k % 2];
      const int16_t* const b = args.b + k / 2 * args.columns * 2 + k % 2;
      for (int64_t c = 0; c < args.columns; ++c) sums[c] += a * b[2 * c];
    }
  }
}

void add_output_gradient(ConstMantissaSpan output, int shift, const int32_t* carry, int64_t count,
                         int32_t* gradients) noexcept {
  with_wide_gradient_type(output.bits, [&](auto type) {
    const auto* numbers = output.as<decltype(type)>();
    for (int64_t j = 0; j < count; ++j) {
      gradients[j] =
          static_cast<int32_t>(clipped_gradient(carry[j] + rescale_rne(numbers[j], shift)));
    }
  });
}

void add_carry(const int64_t* sums, int shift, int64_t count, int32_t* carry) noexcept {
  for (int64_t j = 0; j < count; ++j) {
    carry[j] = static_cast<int32_t>(clipped_gradient(carry[j] + rescale_rne(sums[j], shift)));
  }
}

template <typename T>
uint64_t largest_of(const T* numbers, int64_t count) noexcept {
  uint64_t largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, magnitude(numbers[i]));
  return largest;
}

int16_t narrow(int64_t n, int shift, int bits) {
  return static_cast<int16_t>(saturate(shift_right_rne(n, shift), mantissa_limit(bits + 1)));
}

int shorten(const int32_t* gradients, const int32_t* shifts, int64_t count, int16_t* to) noexcept {
  const auto aligned = [&](int64_t k) { return shift_right_rne(gradients[k], shifts[k]); };
  uint64_t largest = 0;
  for (int64_t k = 0; k < count; ++k) largest = std::max(largest, magnitude(aligned(k)));
  const int shift = exact_shift(largest, kShortGradientBits + 1);
  for (int64_t k = 0; k < count; ++k) to[k] = narrow(aligned(k), shift, kShortGradientBits);
  return shift;
}

template <typename T>
void pair_rows(const T* even, const T* odd, int64_t count, int shift, int bits,
               int16_t* to) noexcept {
  for (int64_t i = 0; i < count; ++i) {
    to[2 * i] = narrow(even[i], shift, bits);
    to[2 * i + 1] = odd == nullptr ? int16_t{0} : narrow(odd[i], shift, bits);
  }
}

template <typename Cell>
constexpr CellKernels kCell = {Cell::forward, Cell::backward};

}  // namespace

const RecurrentKernels kRecurrentReference = {
    "recurrent_reference", kNeedsNothing,      products,
    kCell<RnnCell>,        kCell<LstmCell>,    kCell<GruCell>,
    add_output_gradient,   add_carry,          shorten,
    pair_rows<int32_t>,    pair_rows<int16_t>, largest_of<int32_t>,
    largest_of<int16_t>};

}  // namespace mantissa::kernels

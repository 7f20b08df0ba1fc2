// Steps of recurrent layers for one instruction set: reference/layers/recurrent.c in passes over a
// few channels at a time, each plain enough that compilers vectorise it. Tables are read number by
// number.
//
// Include inside an anonymous namespace of mantissa::kernels, after product_loops.h.

constexpr int64_t kCellBlock = 64;  // channels
using CellRow = int32_t[kCellBlock];
using WideCellRow = int64_t[kCellBlock];

// The shifts of a step are plain. Else the reference computes it.
inline bool are_plain(const CellStep& a, int64_t gates) noexcept {
  bool plain = is_plain_shift(a.x_shift, kInputBits);
  if (a.peepholes.weights != nullptr) plain &= is_plain_shift(a.peepholes.shift, kPeepholeBits);
  int32_t low = 0, high = 0;
  for (int64_t k = 0; k < gates; ++k) {
    low = a.s_shifts[k] < low ? a.s_shifts[k] : low;
    high = a.s_shifts[k] > high ? a.s_shifts[k] : high;
  }
  return plain && is_plain_shift(low, kSumBits) && is_plain_shift(high, kSumBits);
}

template <typename T>
inline void shift_row(const T* from, const PlainShift& shifted, int64_t count,
                      int64_t* __restrict to) noexcept {
  for (int64_t l = 0; l < count; ++l) to[l] = shifted(from[l]);
}

// The input's part of sums.
inline void input_part(const CellStep& a, int64_t at, int64_t count, WideCellRow& to) noexcept {
  const PlainShift shifted(a.x_shift);
  with_wide_gradient_type(
      a.x.bits, [&](auto type) { shift_row(a.x.as<decltype(type)>() + at, shifted, count, to); });
}

inline void add_recurrent_part(const CellStep& a, int64_t at, int64_t count,
                               WideCellRow& to) noexcept {
  const int64_t* const s = a.s + at;
  const int32_t* const shifts = a.s_shifts + at;
  for (int64_t l = 0; l < count; ++l) {
    const int left = shifts[l] < 0 ? -shifts[l] : 0, right = shifts[l] > 0 ? shifts[l] : 0;
    to[l] += round_even(static_cast<int64_t>(static_cast<uint64_t>(s[l]) << left), right);
  }
}

inline void add_peephole(const CellStep& a, int64_t at, const CellRow& cells, int64_t count,
                         WideCellRow& to) noexcept {
  if (a.peepholes.weights == nullptr) return;
  const PlainShift shifted(a.peepholes.shift);
  const int16_t* const weights = a.peepholes.weights + at;
  for (int64_t l = 0; l < count; ++l) to[l] += shifted(int64_t{weights[l]} * cells[l]);
}

inline void narrow_sums(const WideCellRow& sums, int64_t count, CellRow& to) noexcept {
  for (int64_t l = 0; l < count; ++l) {
    to[l] =
        static_cast<int32_t>(clipped(round_even(sums[l], kSumFraction - kPreFraction), INT16_MAX));
  }
}

// A function of pre-activations, in place.
inline void look_up(const GateTable& table, int64_t count, CellRow& row) noexcept {
  const int16_t* const at_zero = table.at_zero();
  for (int64_t l = 0; l < count; ++l) row[l] = at_zero[row[l]];
}

inline void narrow_row(const CellRow& from, int64_t count, int16_t* __restrict to) noexcept {
  for (int64_t l = 0; l < count; ++l) to[l] = static_cast<int16_t>(from[l]);
}
inline void widen_row(const int16_t* from, int64_t count, CellRow& to) noexcept {
  for (int64_t l = 0; l < count; ++l) to[l] = from[l];
}

// Calls function(first, channels) on blocks of channels.
template <typename Function>
inline void for_blocks(int64_t channels, const Function& function) noexcept {
  for (int64_t first = 0; first < channels; first += kCellBlock) {
    function(first, std::min(kCellBlock, channels - first));
  }
}

inline void sums_of(const CellStep& a, int64_t at, int64_t count, WideCellRow& sums) noexcept {
  input_part(a, at, count, sums);
  add_recurrent_part(a, at, count, sums);
}

// Products in int64 of factors that fit int32.
inline int64_t wide_product(int32_t a, int32_t b) noexcept { return int64_t{a} * b; }

// Products of gates and slopes fit int32 after their shift.
inline int32_t short_slope(int32_t slope_factor, int32_t gate, int shift) noexcept {
  return static_cast<int32_t>(round_even(wide_product(slope_factor, gate), shift));
}
inline int32_t short_sigmoid_slope(int32_t s) noexcept {
  return s * (static_cast<int32_t>(kGateOne) - s);
}
inline int32_t short_tanh_slope(int32_t t) noexcept {
  return static_cast<int32_t>(kGateOne * kGateOne) - t * t;
}
inline int32_t short_times_q30(int32_t gradient, int32_t factor) noexcept {
  return static_cast<int32_t>(
      clipped(round_even(wide_product(gradient, factor), 30), kGradientLimit));
}
inline int32_t short_times_gate(int32_t gradient, int32_t gate) noexcept {
  return static_cast<int32_t>(round_even(wide_product(gradient, gate), kGateFraction));
}

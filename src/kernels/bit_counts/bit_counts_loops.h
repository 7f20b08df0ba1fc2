// The counting loops, written once and compiled per instruction set.
//
// Include inside an anonymous namespace of mantissa::kernels, where kVectorBytes is defined.

template <typename T>
using Vector [[gnu::vector_size(kVectorBytes)]] = T;

template <typename T>
inline int64_t sum_lanes(const Vector<T>& lanes) {
  int64_t sum = 0;
  for (size_t lane = 0; lane < kVectorBytes / sizeof(T); ++lane) sum += lanes[lane];
  return sum;
}

// Whole vectors; comparisons give -1, and a lane of 8 bits holds 127 of them.
template <typename T>
inline void count_vectors(const T* in, int64_t vectors, int bits, LargeCounts& large) {
  constexpr int64_t kHeld = 127;
  constexpr int64_t kLanes = kVectorBytes / sizeof(T);
  Vector<T> from[kFinerExponents];
  for (int k = 0; k < kFinerExponents; ++k) {
    from[k] = static_cast<T>(large_from(bits, k) - 1) - Vector<T>{};
  }
  for (int64_t first = 0; first < vectors; first += kHeld) {
    Vector<T> counts[kFinerExponents] = {};
    const int64_t last = std::min(vectors, first + kHeld);
    for (int64_t v = first; v < last; ++v) {
      Vector<T> mantissas;
      std::memcpy(&mantissas, in + v * kLanes, kVectorBytes);
      const Vector<T> sizes = mantissas < 0 ? -mantissas : mantissas;
      for (int k = 0; k < kFinerExponents; ++k) counts[k] -= sizes > from[k];
    }
    for (int k = 0; k < kFinerExponents; ++k) {
      large[static_cast<size_t>(k)] += sum_lanes<T>(counts[k]);
    }
  }
}

void count_large(ConstGradient mantissas, int64_t begin, int64_t end, LargeCounts& large) noexcept {
  const int64_t vectors =
      (end - begin) * gradient_bytes(mantissas.bits) / static_cast<int64_t>(kVectorBytes);
  with_wide_gradient_type(mantissas.bits, [&](auto type) {
    using T = decltype(type);
    count_vectors(mantissas.as<T>() + begin, vectors, mantissas.bits, large);
    begin += vectors * static_cast<int64_t>(kVectorBytes / sizeof(T));
  });
  kBitCountsReference.count_large(mantissas, begin, end, large);
}

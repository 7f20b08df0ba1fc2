// Vectors of floats with the operators of the compiler.
//
// Include inside an anonymous namespace of mantissa::kernels, after <cstring>, Floats and Ints (as
// many of float and int32_t) and fused(a, b, c), a * b + c.

constexpr int64_t kFloats = sizeof(Floats) / sizeof(float);

inline Floats all(float value) noexcept { return value - Floats{}; }

inline Floats load(const float* from) noexcept {
  Floats floats;
  std::memcpy(&floats, from, sizeof(floats));
  return floats;
}
// At most a vector; lanes beyond `count` become `rest`.
inline Floats load(const float* from, int64_t count, float rest) noexcept {
  if (count == kFloats) return load(from);
  Floats floats = all(rest);
  std::memcpy(&floats, from, static_cast<size_t>(count) * sizeof(float));
  return floats;
}
inline void store(float* to, Floats floats, int64_t count = kFloats) noexcept {
  std::memcpy(to, &floats, static_cast<size_t>(count) * sizeof(float));
}

inline Ints bits_of(Floats floats) noexcept { return reinterpret_cast<Ints>(floats); }
inline Floats floats_of(Ints bits) noexcept { return reinterpret_cast<Floats>(bits); }

// NaN if `a` is.
inline Floats least(Floats a, Floats b) noexcept { return a > b ? b : a; }
inline Floats greatest(Floats a, Floats b) noexcept { return a < b ? b : a; }

// In the order of the lanes.
inline float lane_sum(Floats floats) noexcept {
  float sum = 0;
  for (int64_t i = 0; i < kFloats; ++i) sum += floats[i];
  return sum;
}
inline float lane_maximum(Floats floats) noexcept {
  float largest = floats[0];
  for (int64_t i = 1; i < kFloats; ++i) largest = floats[i] > largest ? floats[i] : largest;
  return largest;
}

// Calls visit(position, elements) for the vectors of [0, count); the last may be shorter. Inlined,
// `elements` is a constant for all but the last.
template <typename Visit>
inline void for_vectors(int64_t count, const Visit& visit) noexcept {
  int64_t i = 0;
  for (; i + kFloats <= count; i += kFloats) visit(i, kFloats);
  if (i < count) visit(i, count - i);
}

// Vectors of 8 float32 for AVX2 with FMA: see kernels/lanes/lanes.h.

using Floats [[gnu::vector_size(32)]] = float;
using Ints [[gnu::vector_size(32)]] = int32_t;

// a * b + c, rounded once.
inline Floats fused(Floats a, Floats b, Floats c) noexcept { return _mm256_fmadd_ps(a, b, c); }
inline Floats root(Floats a) noexcept { return _mm256_sqrt_ps(a); }

// Vectors of 16 float32 for AVX-512: as avx2/floats.h has them.

using Floats [[gnu::vector_size(64)]] = float;
using Ints [[gnu::vector_size(64)]] = int32_t;

inline Floats fused(Floats a, Floats b, Floats c) noexcept { return _mm512_fmadd_ps(a, b, c); }
inline Floats root(Floats a) noexcept { return _mm512_sqrt_ps(a); }

// Loops over floats for any CPU: the compiler takes vectors apart if necessary.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/floats/floats.h"

namespace mantissa::kernels {
namespace {
using Floats [[gnu::vector_size(16)]] = float;
using Ints [[gnu::vector_size(16)]] = int32_t;
inline Floats fused(Floats a, Floats b, Floats c) noexcept { return a * b + c; }
inline Floats root(Floats a) noexcept {
  for (int i = 0; i < 4; ++i) a[i] = std::sqrt(a[i]);
  return a;
}
#include "kernels/floats/loops.h"
}  // namespace

const FloatKernels kFloatsReference = {"floats_reference", kNeedsNothing, MANTISSA_FLOAT_LOOPS};

}  // namespace mantissa::kernels

#include "reference/elements/silu.h"

#include "reference/elements/elements.h"
#include "reference/numerics/point_functions.h"

void ref_silu(const RefSilu* args, int64_t begin, int64_t end) {
  const RefFraction unread = {0, 1};
  REF_WITH_SHORT_BYTES(
      args->in.bits, bytes, for (int64_t i = begin; i < end; ++i) {
        const int64_t q = ref_load(args->in.data, bytes, i);
        args->wide[i] = ref_silu_function.value(q, args->exponent, unread);
      });
}

void ref_silu_gradient(const RefSiluGradient* args, int64_t begin, int64_t end) {
  const RefFraction unread = {0, 1};
  const int bytes = args->in.bits <= 8 ? 1 : 2, grad_bytes = args->grad_out.bits <= 8 ? 1 : 2;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t q = ref_load(args->in.data, bytes, i);
    const int64_t grad = ref_load(args->grad_out.data, grad_bytes, i);
    args->wide[i] = grad * ref_silu_function.derivative_q30(q, args->exponent, unread);
  }
}

// The batch-norm row for AVX2.
#if defined(__x86_64__)
#include "kernels/batch_norm/avx2_kernels.h"

namespace mantissa::kernels {

const BatchNormKernels kBatchNormAvx2 = {"batch_norm_avx2",
                                         Isa::kAvx2,
                                         batch_norm_avx2::channel_sums,
                                         batch_norm_avx2::scale_offset,
                                         batch_norm_avx2::gradient_sums,
                                         batch_norm_avx2::gradient};

}  // namespace mantissa::kernels
#endif

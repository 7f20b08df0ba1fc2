// Peaks of AVX-512 with VNNI.
#include "base/system/target.h"
#include "kernels/peak/peak.h"

#if defined(__x86_64__)
namespace mantissa::kernels {
MANTISSA_TARGET_AVX512VNNI_BEGIN
namespace {

// Twelve sums, more than latency times throughput of either instruction.
// clang-format off
#define MANTISSA_SUMS                                                   \
  "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", \
  "xmm24", "xmm25", "xmm26", "xmm27"
#define MANTISSA_TWELVE(before, after)                                    \
  before "16" after before "17" after before "18" after before "19" after \
  before "20" after before "21" after before "22" after before "23" after \
  before "24" after before "25" after before "26" after before "27" after
// clang-format on

int64_t integer_multiply_adds(int64_t rounds) noexcept {
  int64_t left = rounds;
  asm volatile(
      "vpternlogd $255, %%zmm0, %%zmm0, %%zmm0\n\t"
      "vpsrlw $1, %%zmm0, %%zmm1\n\t"  // bytes of -1 and 127 times 255
      "1:\n\t"
      MANTISSA_TWELVE("vpdpbusd %%zmm1, %%zmm0, %%zmm", "\n\t")
      "dec %0\n\t"
      "jnz 1b\n\t"
      "vzeroupper"
      : "+r"(left)
      :
      : "cc", "xmm0", "xmm1", MANTISSA_SUMS);
  return rounds * 12 * 64;
}

int64_t float_multiply_adds(int64_t rounds) noexcept {
  int64_t left = rounds;
  asm volatile(
      // 1.0 = 0x3F800000; sums start at 0 and stay whole numbers.
      "vpternlogd $255, %%zmm0, %%zmm0, %%zmm0\n\t"
      "vpslld $25, %%zmm0, %%zmm0\n\t"
      "vpsrld $2, %%zmm0, %%zmm0\n\t"
      "vpxord %%zmm1, %%zmm1, %%zmm1\n\t"
      MANTISSA_TWELVE("vmovdqa32 %%zmm1, %%zmm", "\n\t")
      "1:\n\t"
      MANTISSA_TWELVE("vfmadd231ps %%zmm0, %%zmm0, %%zmm", "\n\t")
      "dec %0\n\t"
      "jnz 1b\n\t"
      "vzeroupper"
      : "+r"(left)
      :
      : "cc", "xmm0", "xmm1", MANTISSA_SUMS);
  return rounds * 12 * 16;
}
#undef MANTISSA_TWELVE
#undef MANTISSA_SUMS

void read(const std::byte* from, int64_t bytes) noexcept {
  const std::byte* end = from + bytes;
  asm volatile(
      "1:\n\t"
      "vmovdqa64 (%0), %%zmm0\n\t  vmovdqa64 64(%0), %%zmm1\n\t"
      "vmovdqa64 128(%0), %%zmm2\n\t  vmovdqa64 192(%0), %%zmm3\n\t"
      "add $256, %0\n\t"
      "cmp %1, %0\n\t"
      "jne 1b\n\t"
      "vzeroupper"
      : "+r"(from)
      : "r"(end)
      : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3");
}

void copy(std::byte* to, const std::byte* from, int64_t bytes) noexcept {
  const std::byte* end = from + bytes;
  asm volatile(
      "1:\n\t"
      "vmovdqa64 (%0), %%zmm0\n\t  vmovdqa64 64(%0), %%zmm1\n\t"
      "vmovdqa64 %%zmm0, (%1)\n\t  vmovdqa64 %%zmm1, 64(%1)\n\t"
      "add $128, %0\n\t"
      "add $128, %1\n\t"
      "cmp %2, %0\n\t"
      "jne 1b\n\t"
      "vzeroupper"
      : "+r"(from), "+r"(to)
      : "r"(end)
      : "cc", "memory", "xmm0", "xmm1");
}

}  // namespace

const PeakKernels kPeakAvx512Vnni = {"peak_avx512vnni",
                                     kNeedsAvx512Vnni,
                                     "vpdpbusd (zmm)",
                                     "vfmadd231ps (zmm)",
                                     integer_multiply_adds,
                                     float_multiply_adds,
                                     read,
                                     copy};

}  // namespace mantissa::kernels
MANTISSA_TARGET_END
#endif

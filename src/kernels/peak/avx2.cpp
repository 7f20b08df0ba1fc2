// Peaks of AVX2 (and FMA, which all but the first CPUs with AVX2 of one maker have), and of
// AVX-VNNI.
#include "base/system/target.h"
#include "kernels/peak/peak.h"

#if defined(__x86_64__)
namespace mantissa::kernels {
MANTISSA_TARGET_AVX2_BEGIN
namespace {

// A product of pairs goes to a register that the next but three overwrites, its sum to one of
// eight.
#define MANTISSA_PAIR(product, sum)        \
  "vpmaddwd %%ymm0, %%ymm1, %%ymm" product \
  "\n\t"                                   \
  "vpaddd %%ymm" product ", %%ymm" sum ", %%ymm" sum "\n\t"

int64_t integer_multiply_adds(int64_t rounds) noexcept {
  int64_t left = rounds;
  asm volatile(
      "vpcmpeqd %%ymm0, %%ymm0, %%ymm0\n\t"
      "vpsrlw $9, %%ymm0, %%ymm1\n\t"  // -1 times 127
      "1:\n\t"
      // clang-format off
      MANTISSA_PAIR("2", "8") MANTISSA_PAIR("3", "9")
      MANTISSA_PAIR("4", "10") MANTISSA_PAIR("5", "11")
      MANTISSA_PAIR("2", "12") MANTISSA_PAIR("3", "13")
      MANTISSA_PAIR("4", "14") MANTISSA_PAIR("5", "15")
      // clang-format on
      "dec %0\n\t"
      "jnz 1b\n\t"
      "vzeroupper"
      : "+r"(left)
      :
      : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm8", "xmm9", "xmm10", "xmm11",
        "xmm12", "xmm13", "xmm14", "xmm15");
  return rounds * 8 * 16;
}
#undef MANTISSA_PAIR

int64_t float_multiply_adds(int64_t rounds) noexcept {
  if (!__builtin_cpu_supports("fma")) return 0;
  int64_t left = rounds;
#define MANTISSA_FMA(sum) "vfmadd231ps %%ymm0, %%ymm0, %%ymm" sum "\n\t"
  asm volatile(
      // 1.0 = 0x3F800000; sums start at 0 and stay whole numbers.
      "vpcmpeqd %%ymm0, %%ymm0, %%ymm0\n\t"
      "vpslld $25, %%ymm0, %%ymm0\n\t"
      "vpsrld $2, %%ymm0, %%ymm0\n\t"
      "vxorps %%ymm4, %%ymm4, %%ymm4\n\t  vxorps %%ymm5, %%ymm5, %%ymm5\n\t"
      "vxorps %%ymm6, %%ymm6, %%ymm6\n\t  vxorps %%ymm7, %%ymm7, %%ymm7\n\t"
      "vxorps %%ymm8, %%ymm8, %%ymm8\n\t  vxorps %%ymm9, %%ymm9, %%ymm9\n\t"
      "vxorps %%ymm10, %%ymm10, %%ymm10\n\t  vxorps %%ymm11, %%ymm11, %%ymm11\n\t"
      "vxorps %%ymm12, %%ymm12, %%ymm12\n\t  vxorps %%ymm13, %%ymm13, %%ymm13\n\t"
      "vxorps %%ymm14, %%ymm14, %%ymm14\n\t  vxorps %%ymm15, %%ymm15, %%ymm15\n\t"
      "1:\n\t"
      // clang-format off
      MANTISSA_FMA("4") MANTISSA_FMA("5") MANTISSA_FMA("6") MANTISSA_FMA("7")
      MANTISSA_FMA("8") MANTISSA_FMA("9") MANTISSA_FMA("10") MANTISSA_FMA("11")
      MANTISSA_FMA("12") MANTISSA_FMA("13") MANTISSA_FMA("14") MANTISSA_FMA("15")
      // clang-format on
      "dec %0\n\t"
      "jnz 1b\n\t"
      "vzeroupper"
      : "+r"(left)
      :
      : "cc", "xmm0", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
        "xmm13", "xmm14", "xmm15");
#undef MANTISSA_FMA
  return rounds * 12 * 8;
}

void read(const std::byte* from, int64_t bytes) noexcept {
  const std::byte* end = from + bytes;
  asm volatile(
      "1:\n\t"
      "vmovdqa (%0), %%ymm0\n\t  vmovdqa 32(%0), %%ymm1\n\t"
      "vmovdqa 64(%0), %%ymm2\n\t  vmovdqa 96(%0), %%ymm3\n\t"
      "vmovdqa 128(%0), %%ymm0\n\t  vmovdqa 160(%0), %%ymm1\n\t"
      "vmovdqa 192(%0), %%ymm2\n\t  vmovdqa 224(%0), %%ymm3\n\t"
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
      "vmovdqa (%0), %%ymm0\n\t  vmovdqa 32(%0), %%ymm1\n\t"
      "vmovdqa 64(%0), %%ymm2\n\t  vmovdqa 96(%0), %%ymm3\n\t"
      "vmovdqa %%ymm0, (%1)\n\t  vmovdqa %%ymm1, 32(%1)\n\t"
      "vmovdqa %%ymm2, 64(%1)\n\t  vmovdqa %%ymm3, 96(%1)\n\t"
      "add $128, %0\n\t"
      "add $128, %1\n\t"
      "cmp %2, %0\n\t"
      "jne 1b\n\t"
      "vzeroupper"
      : "+r"(from), "+r"(to)
      : "r"(end)
      : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3");
}

}  // namespace

const PeakKernels kPeakAvx2 = {"peak_avx2",
                               kNeedsAvx2,
                               "vpmaddwd, vpaddd (ymm)",
                               "vfmadd231ps (ymm)",
                               integer_multiply_adds,
                               float_multiply_adds,
                               read,
                               copy};

MANTISSA_TARGET_END
MANTISSA_TARGET_AVXVNNI_BEGIN
namespace {

int64_t vnni_multiply_adds(int64_t rounds) noexcept {
  int64_t left = rounds;
#define MANTISSA_DOT(sum) "%{vex%} vpdpwssd %%ymm1, %%ymm0, %%ymm" sum "\n\t"
  asm volatile(
      "vpcmpeqd %%ymm0, %%ymm0, %%ymm0\n\t"
      "vpsrlw $9, %%ymm0, %%ymm1\n\t"  // -1 times 127
      "1:\n\t"
      // clang-format off
      MANTISSA_DOT("4") MANTISSA_DOT("5") MANTISSA_DOT("6") MANTISSA_DOT("7")
      MANTISSA_DOT("8") MANTISSA_DOT("9") MANTISSA_DOT("10") MANTISSA_DOT("11")
      MANTISSA_DOT("12") MANTISSA_DOT("13") MANTISSA_DOT("14") MANTISSA_DOT("15")
      // clang-format on
      "dec %0\n\t"
      "jnz 1b\n\t"
      "vzeroupper"
      : "+r"(left)
      :
      : "cc", "xmm0", "xmm1", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
        "xmm12", "xmm13", "xmm14", "xmm15");
#undef MANTISSA_DOT
  return rounds * 12 * 16;
}

}  // namespace

const PeakKernels kPeakAvxVnni = {"peak_avxvnni",
                                  kNeedsAvxVnni,
                                  "vpdpwssd (ymm)",
                                  "vfmadd231ps (ymm)",
                                  vnni_multiply_adds,
                                  float_multiply_adds,
                                  read,
                                  copy};

MANTISSA_TARGET_END
}  // namespace mantissa::kernels
#endif

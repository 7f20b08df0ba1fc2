// Peaks of AMX: tiles of bytes; all else is AVX-512's.
#include "kernels/peak/peak.h"

#if defined(__x86_64__)
#include <cstring>

#include "kernels/lanes/amx.h"

MANTISSA_TARGET_AVX512VNNI_BEGIN

namespace mantissa::kernels {
namespace {

int64_t integer_multiply_adds(int64_t rounds) noexcept {
  constexpr int kTiles = 4;
  amx::configure(amx::kRows, amx::kRows);
  amx::for_each_index<kTiles>([](auto i)
                                  __attribute__((always_inline)) { amx::clear<amx::kSums + i>(); });
  // Bytes of 255 and 127: zeros need less power.
  uint8_t bytes[2][amx::kTileBytes];
  std::memset(bytes[0], 255, sizeof(bytes[0]));
  std::memset(bytes[1], 127, sizeof(bytes[1]));
  amx::for_each_index<2>([&](auto i) __attribute__((always_inline)) {
    amx::load<amx::kA + i>(bytes[0], amx::kRowBytes);
    amx::load<amx::kB + i>(bytes[1], amx::kRowBytes);
  });
  for (int64_t left = rounds; left > 0; --left) {
    amx::for_each_index<kTiles>([](auto i) __attribute__((always_inline)) {
      amx::multiply_unsigned_signed<amx::kSums + i, amx::kA + i / 2, amx::kB + i % 2>();
    });
  }
  amx::release();
  return rounds * kTiles * amx::kRows * amx::kRows * amx::kRowBytes;
}

int64_t float_multiply_adds(int64_t rounds) noexcept {
  return kPeakAvx512Vnni.float_multiply_adds(rounds);
}
void read(const std::byte* from, int64_t bytes) noexcept { kPeakAvx512Vnni.read(from, bytes); }
void copy(std::byte* to, const std::byte* from, int64_t bytes) noexcept {
  kPeakAvx512Vnni.copy(to, from, bytes);
}

}  // namespace

const PeakKernels kPeakAmx = {
    "peak_amx",          kNeedsAmx, "tdpbusd", "vfmadd231ps (zmm)", integer_multiply_adds,
    float_multiply_adds, read,      copy};

}  // namespace mantissa::kernels

MANTISSA_TARGET_END
#endif

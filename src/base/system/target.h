// Compiling one part of a file for an instruction set that the rest of the program must not need.
//
// Everything between MANTISSA_TARGET_AVX512VNNI_BEGIN and MANTISSA_TARGET_END is compiled for
// AVX-512 (F, BW, DQ, VL, VNNI). Put all #includes before it: functions of shared headers then stay
// plain, and the linker can never pick an AVX copy of one. Keep templates inside the region, and
// the region open to the end of the file.
#pragma once

// For functions of such a region that must not become calls.
#define MANTISSA_INLINE inline __attribute__((always_inline))

#if defined(__x86_64__)
#define MANTISSA_PRAGMA(text) _Pragma(#text)
// clang-format off
#if defined(__clang__)
#define MANTISSA_TARGET_BEGIN(features) \
  MANTISSA_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define MANTISSA_TARGET_END MANTISSA_PRAGMA(clang attribute pop)
#define MANTISSA_AVX512VNNI "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"
#else
#define MANTISSA_TARGET_BEGIN(features) MANTISSA_PRAGMA(GCC push_options) MANTISSA_PRAGMA(GCC target(features))
#define MANTISSA_TARGET_END MANTISSA_PRAGMA(GCC pop_options)
#define MANTISSA_AVX512VNNI "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,prefer-vector-width=512"
#endif
#define MANTISSA_TARGET_AVX2_BEGIN MANTISSA_TARGET_BEGIN("avx2")
#define MANTISSA_TARGET_AVXVNNI_BEGIN MANTISSA_TARGET_BEGIN("avx2,avxvnni")
#define MANTISSA_TARGET_AVX512VNNI_BEGIN MANTISSA_TARGET_BEGIN(MANTISSA_AVX512VNNI)
// clang-format on
#endif

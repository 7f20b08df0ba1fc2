// AVX-512 VNNI for the rows that are written once: see kernels/lanes/lanes.h.
#pragma once

#include "base/system/target.h"
#include "kernels/lanes/lanes.h"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 warns inside its own intrinsics, which pass values that they then ignore.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#define MANTISSA_ISA_BEGIN MANTISSA_TARGET_AVX512VNNI_BEGIN
#define MANTISSA_ISA_FLOATS_BEGIN MANTISSA_TARGET_AVX512VNNI_BEGIN
#define MANTISSA_ISA_NEEDS kNeedsAvx512Vnni
#define MANTISSA_LANES(part) MANTISSA_LANES_FILE(avx512vnni, part)
#define MANTISSA_ROW(Family) k##Family##Avx512Vnni
#define MANTISSA_ROW_NAME(family) family "_avx512vnni"
#define MANTISSA_ISA_FUNCTION(name) name##_avx512vnni
#endif

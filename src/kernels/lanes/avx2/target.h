// AVX2 for the rows that are written once: see kernels/lanes/lanes.h.
#pragma once

#include "base/system/target.h"
#include "kernels/lanes/lanes.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define MANTISSA_ISA_BEGIN MANTISSA_TARGET_AVX2_BEGIN
#define MANTISSA_ISA_FLOATS_BEGIN MANTISSA_TARGET_BEGIN("avx2,fma")
#define MANTISSA_ISA_NEEDS kNeedsAvx2
#define MANTISSA_LANES(part) MANTISSA_LANES_FILE(avx2, part)
#define MANTISSA_ROW(Family) k##Family##Avx2
#define MANTISSA_ROW_NAME(family) family "_avx2"
#define MANTISSA_ISA_FUNCTION(name) name##_avx2
#endif

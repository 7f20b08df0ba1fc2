// AVX2 for the rows that are written once (lane_rows.h of their families).
#pragma once

#include "base/system/target.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define MANTISSA_ISA_BEGIN MANTISSA_TARGET_AVX2_BEGIN
#define MANTISSA_ISA_LANES "kernels/lanes/avx2.h"
#define MANTISSA_ISA_NEEDS kNeedsAvx2
#define MANTISSA_ROW(Family) k##Family##Avx2
#define MANTISSA_ROW_NAME(family) family "_avx2"
#endif

// AVX-512 VNNI for the rows that are written once (lane_rows.h of their families).
#pragma once

#include "base/system/target.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define MANTISSA_ISA_BEGIN MANTISSA_TARGET_AVX512VNNI_BEGIN
#define MANTISSA_ISA_LANES "kernels/lanes/avx512vnni.h"
#define MANTISSA_ISA_NEEDS kNeedsAvx512Vnni
#define MANTISSA_ROW(Family) k##Family##Avx512Vnni
#define MANTISSA_ROW_NAME(family) family "_avx512vnni"
#endif

// Instruction sets for rows that are written once (lane_rows.h of their families).
//
// A folder here is an instruction set. Its target.h has names and features, and these lanes, each
// included inside an anonymous namespace of mantissa::kernels and a region for the set:
//   integers.h  vectors of int64, int32 and int16 (arithmetic.h builds on them)
//   bytes.h     vectors of uint8 and uint16
//   pairs.h     vectors of int16 whose products are added in pairs
//   reals.h     doubles that compute integers, after integers.h
//   floats.h    vectors of float32
#pragma once

// clang-format off
#define MANTISSA_TEXT(text) #text
#define MANTISSA_LANES_FILE(isa, part) MANTISSA_TEXT(kernels/lanes/isa/part.h)
// clang-format on

// The peak rates of this CPU: loops that do nothing but multiply and add in registers, or read
// and copy memory. They compute no result of a run; measurements are compared with them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/system/cpu.h"

namespace mantissa::kernels {

// Memory loops work on whole pieces of this many bytes, aligned to 64 bytes.
constexpr int64_t kPeakPieceBytes = 1024;

// One row of the kernel table. Loops for an instruction set are assembly, so that no compiler can
// remove or change them.
struct PeakKernels {
  const char* name;
  Features needs;
  const char* integer_instructions;  // the instructions of integer_multiply_adds
  const char* float_instructions;
  // Runs `rounds` (> 0) rounds of independent multiply-adds; returns the number of multiply-adds.
  // Returns 0, and runs nothing, if the CPU lacks the instruction.
  int64_t (*integer_multiply_adds)(int64_t rounds) noexcept;  // the integers of convolutions
  int64_t (*float_multiply_adds)(int64_t rounds) noexcept;    // fp32
  // Both take a multiple of kPeakPieceBytes, greater than 0.
  void (*read)(const std::byte* from, int64_t bytes) noexcept;
  void (*copy)(std::byte* to, const std::byte* from, int64_t bytes) noexcept;
};

extern const PeakKernels kPeakReference;
#if defined(__x86_64__)
extern const PeakKernels kPeakAvx2;
extern const PeakKernels kPeakAvxVnni;
extern const PeakKernels kPeakAvx512Vnni;
extern const PeakKernels kPeakAmx;
#endif

}  // namespace mantissa::kernels

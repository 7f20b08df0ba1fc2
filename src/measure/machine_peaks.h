// The measured peaks of this machine, so that other measurements can be compared with them.
#pragma once

#include "base/result.h"
#include "base/system/thread_pool.h"
#include "kernels/peak/peak.h"

namespace mantissa {

// Billions per second; a multiply-add is two operations. 0 if the CPU lacks the instruction.
struct MachinePeaks {
  int threads = 1;
  double integer_gops = 0;
  double float_gops = 0;
  double read_gb_per_s = 0;
  double copy_gb_per_s = 0;  // bytes read plus bytes written
};

// An error if the pool has fewer threads than were asked for: its rates would be taken for the
// machine's.
Status check_threads(const ThreadPool& pool);

// Measures on all threads of the pool, or on the calling one alone. Takes a fraction of a second
// and, while it runs, 256 MiB. An error if the system gives no memory.
Result<MachinePeaks> measure_peaks(const kernels::PeakKernels& kernels, ThreadPool& pool,
                                   bool all_threads);

}  // namespace mantissa

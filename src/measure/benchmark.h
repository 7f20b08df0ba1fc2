// Measures training steps, instruction by instruction, and compares them with the machine's peaks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/system/thread_pool.h"
#include "kernels/kernel_table.h"
#include "measure/machine_peaks.h"
#include "run/progress.h"
#include "run/settings/run_config.h"
#include "tensor/tensor.h"

namespace mantissa {

// The benchmark to run. `run` counts by its data ("synthetic" or a data set), network, format,
// optimiser, batch, seed, threads and instruction set.
struct BenchmarkConfig {
  RunConfig run = default_run_config();
  std::string checkpoint = {};  // of a trained network: its predictions are measured; "": training
  int64_t height = 28, width = 28, channels = 1;  // of synthetic pictures
  int64_t classes = 10;                           // of these, or the tokens of synthetic texts
  int64_t steps = 30;                             // measured
  int64_t warmup_steps = 5;                       // before them
};

// One instruction, or several added up; numbers are per step.
struct BenchmarkRow {
  std::string phase;
  std::string op;      // "": several
  std::string name;    // "": several
  std::string kernel;  // "": none or several
  Shape output;        // of its result, or of the parameter that it changes; rank 0: several
  int64_t count = 1;   // instructions
  double median_us = 0;
  int64_t multiply_adds = 0;  // a product with a 16-bit gradient counts once
  int64_t bytes = 0;          // operands read plus operands written, each once

  double gops() const { return 2e-3 * static_cast<double>(multiply_adds) / median_us; }
  double gb_per_s() const { return 1e-3 * static_cast<double>(bytes) / median_us; }
};

struct Benchmark {
  std::string cpu;
  std::string integer_instructions, float_instructions;  // of the peaks
  std::vector<MachinePeaks> peaks;                       // one thread; then all, if they are more
  int64_t parameters = 0;
  int64_t arena_bytes = 0;
  int64_t state_bytes = 0;                 // weights, optimiser and other state
  int64_t planned_peak_bytes = 0;          // of a training run on these pictures; 0: there is none
  int64_t measured_peak_bytes = 0;         // of these steps, beyond the process before them
  std::vector<BenchmarkRow> instructions;  // in the program's order
  std::vector<BenchmarkRow> by_op,
      by_phase;       // sums over phase and op, and over phase: slowest first
  BenchmarkRow step;  // the whole; bytes: the sum over its instructions
  double step_p10_us = 0, step_p90_us = 0;
  double overhead_us = 0;   // median of a step's time outside its instructions
  double data_wait_us = 0;  // median of the wait for a batch, which is no part of the step
  double examples_per_second = 0;
  // In the measured steps: gradients and values that were computed twice.
  int64_t re_executions = 0, mispredictions = 0;
};

// Measures the CPU's peaks, with one thread and with all of the pool.
Status measure_machine(const kernels::KernelTable& table, ThreadPool& pool, Benchmark& result);

// Measures as configured. The observer sees each step, warm-up steps too; if it returns false the
// result is an error (kInterrupted).
Result<Benchmark> run_benchmark(const BenchmarkConfig& config, const TrainObserver& observer);

// The same for batches of noise through the network of config.checkpoint, which tells `config` its
// name, format and sizes.
Result<Benchmark> run_inference_benchmark(BenchmarkConfig& config, const TrainObserver& observer);

}  // namespace mantissa

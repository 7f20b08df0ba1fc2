#include "measure/measure_profile.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/system/thread_pool.h"
#include "kernels/kernel_table.h"
#include "measure/benchmark.h"
#include "measure/benchmark_clock.h"
#include "measure/machine_peaks.h"
#include "runtime/memory.h"

namespace mantissa {
namespace {

constexpr int kCopyRuns = 10;  // the best counts: others may use the machine, too
constexpr int64_t kCopiedBytes = int64_t{1} << 27;  // per run

// More than four digits of a measured rate mean nothing.
double four_digits(double number) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", number);
  return std::strtod(text.data(), nullptr);
}

// Work and the time that it took.
struct Rate {
  double work = 0, ns = 0;
  double per_ns() const { return four_digits(work / ns); }
};

class ProfileMeasurement {
 public:
  ProfileMeasurement(int threads, Isa isa, const TrainObserver& observer)
      : threads_(threads), isa_(isa), observer_(observer) {}

  Result<MachineProfile> run() {
    MachineProfile profile;
    MANTISSA_RETURN_IF_ERROR(measure_caches(profile));
    // These networks have the instructions that a plan may compute again.
    MANTISSA_ASSIGN(const Benchmark dense, bench("resnet8", "bfp8", 64));
    MANTISSA_ASSIGN(const Benchmark depthwise, bench("mobilenet_blocks", "bfp8", 16));
    MANTISSA_ASSIGN(const Benchmark wide, bench("lenet5", "bfp:a=12", 64));
    MANTISSA_ASSIGN(const Benchmark floats, bench("resnet8", "fp32", 64));
    const auto rate = [&](const Benchmark& of, auto&& counts, auto&& work) {
      Rate sum;
      for (const BenchmarkRow& row : of.instructions) {
        if (row.phase != "forward" && row.phase != "recompute") continue;
        if (!counts(row)) continue;
        sum.work += work(row);
        sum.ns += 1e3 * row.median_us * threads_;
      }
      return sum.per_ns();
    };
    const auto macs = [](const BenchmarkRow& row) {
      return static_cast<double>(row.multiply_adds);
    };
    const auto multiplies = [](const BenchmarkRow& row) { return row.multiply_adds > 0; };
    profile.dense_macs_per_ns = rate(dense, multiplies, macs);
    profile.depthwise_macs_per_ns = rate(
        depthwise, [](const BenchmarkRow& row) { return row.kernel.starts_with("depthwise"); },
        macs);
    profile.wide_macs_per_ns = rate(wide, multiplies, macs);
    profile.float_macs_per_ns = rate(floats, multiplies, macs);
    const auto elements = [](const BenchmarkRow& row) {
      return static_cast<double>(row.output.count());
    };
    // In the forward pass batch norm finds its statistics, too.
    profile.norm_elements_per_ns = rate(
        dense,
        [](const BenchmarkRow& row) { return row.op == "batch_norm" && row.phase == "recompute"; },
        elements);
    profile.elements_per_ns = rate(
        dense, [](const BenchmarkRow& row) { return row.op == "add"; }, elements);
    return profile;
  }

 private:
  Result<Benchmark> bench(const char* model, const char* format, int64_t batch) {
    MANTISSA_ASSIGN(RunConfig run, make_run_config({{"model", model},
                                                    {"format", format},
                                                    {"data", "synthetic"},
                                                    {"batch-size", std::to_string(batch)},
                                                    {"threads", std::to_string(threads_)},
                                                    {"isa", std::string(isa_name(isa_))},
                                                    {"profile", "builtin"},
                                                    {"recompute", "all"}}));
    return run_benchmark(
        {.run = run, .height = 32, .width = 32, .channels = 3, .steps = 8, .warmup_steps = 2},
        observer_);
  }

  Status measure_caches(MachineProfile& profile) {
    ThreadPool pool(threads_);
    MANTISSA_RETURN_IF_ERROR(check_threads(pool));
    const kernels::KernelTable table = kernels::select_kernels(isa_);
    MANTISSA_ASSIGN(const MachinePeaks peaks, measure_peaks(*table.peak, pool, threads_ > 1));
    profile.tiers[2].bytes_per_ns = four_digits(peaks.copy_gb_per_s);
    const int64_t near_bytes = sysconf(_SC_LEVEL2_CACHE_SIZE), far = sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (near_bytes > 0) profile.tiers[0].bytes = near_bytes * threads_;
    if (far > 0) profile.tiers[1].bytes = std::max(far, profile.tiers[0].bytes + 1);
    for (const int tier : {0, 1}) {
      MANTISSA_ASSIGN(profile.tiers[tier].bytes_per_ns,
                      copy_rate(*table.peak, pool, profile.tiers[tier].bytes / 2));
    }
    return {};
  }

  // Bytes read plus bytes written per nanosecond, for copying within this many bytes.
  Result<double> copy_rate(const kernels::PeakKernels& kernels, ThreadPool& pool, int64_t bytes) {
    const int64_t half =
        std::max(kernels::kPeakPieceBytes,
                 bytes / 2 / threads_ / kernels::kPeakPieceBytes * kernels::kPeakPieceBytes);
    MANTISSA_ASSIGN(const AlignedMemory memory,
                    AlignedMemory::create(2 * half * threads_, "copies"));
    std::fill_n(memory.data(), 2 * half * threads_, std::byte{1});
    const int64_t rounds = std::max<int64_t>(1, kCopiedBytes / half / threads_);
    double best = 0;
    for (int run = 0; run < kCopyRuns; ++run) {
      const int64_t start = now_ns();
      pool.parallel_for(threads_, [&](int64_t task, int) {
        std::byte* from = memory.data() + 2 * half * task;
        for (int64_t i = 0; i < rounds; ++i) kernels.copy(from + half, from, half);
      });
      const auto ns = static_cast<double>(now_ns() - start);
      best = std::max(best, static_cast<double>(2 * half * threads_ * rounds) / ns);
    }
    return four_digits(best);
  }

  int threads_;
  Isa isa_;
  const TrainObserver& observer_;
};

}  // namespace

Result<MachineProfile> measure_profile(int threads, Isa isa, const TrainObserver& observer) {
  return ProfileMeasurement(threads, isa, observer).run();
}

}  // namespace mantissa

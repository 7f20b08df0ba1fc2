#include "measure/machine_peaks.h"

#include <algorithm>

#include "base/checked.h"
#include "measure/benchmark_clock.h"
#include "runtime/memory.h"

namespace mantissa {
namespace {

// Long enough to hide that threads start one after the other.
constexpr int64_t kLoopNs = 2'000'000;
constexpr int kLoopRuns = 10;  // the best counts: others may use the machine, too
constexpr int kMemoryRuns = 4;
constexpr int64_t kArrayBytes = int64_t{128} << 20;  // two of them: more than most caches

class PeakMeasurement {
 public:
  PeakMeasurement(const kernels::PeakKernels& kernels, ThreadPool& pool, bool all_threads)
      : kernels_(kernels), pool_(pool), threads_(all_threads ? pool.size() : 1) {}

  Result<MachinePeaks> run() {
    MANTISSA_ASSIGN(const AlignedMemory memory, AlignedMemory::create(2 * kArrayBytes, "copies"));
    MachinePeaks peaks;
    peaks.threads = threads_;
    peaks.integer_gops = gops(kernels_.integer_multiply_adds);
    peaks.float_gops = gops(kernels_.float_multiply_adds);
    std::byte* data = memory.data();
    // Pages come with the first write.
    ns([&](int64_t task) {
      std::fill(data + begin(task, 2), data + begin(task + 1, 2), std::byte{1});
    });
    peaks.read_gb_per_s = gb_per_s([&](int64_t task) {
      kernels_.read(data + begin(task, 2), begin(task + 1, 2) - begin(task, 2));
    });
    peaks.copy_gb_per_s = gb_per_s([&](int64_t task) {
      const std::byte* from = data + begin(task, 1);
      kernels_.copy(data + kArrayBytes + begin(task, 1), from, begin(task + 1, 1) - begin(task, 1));
    });
    return peaks;
  }

 private:
  // The start of a thread's part in the first `arrays` arrays.
  int64_t begin(int64_t task, int arrays) const {
    const int64_t part = round_up(arrays * kArrayBytes / threads_, kernels::kPeakPieceBytes);
    return std::min(task * part, arrays * kArrayBytes);
  }

  // Nanoseconds of one task per thread.
  template <typename Task>
  double ns(Task&& task) {
    const int64_t start = now_ns();
    if (threads_ == 1) {
      task(int64_t{0});
    } else {
      pool_.parallel_for(threads_, [&](int64_t index, int) { task(index); });
    }
    return static_cast<double>(now_ns() - start);
  }

  double gops(int64_t (*loop)(int64_t rounds) noexcept) {
    if (loop(1) == 0) return 0;
    int64_t rounds = 1024;
    for (;; rounds *= 2) {
      const int64_t start = now_ns();
      loop(rounds);
      if (now_ns() - start >= kLoopNs) break;
    }
    const auto operations = 2 * static_cast<double>(loop(1) * rounds * threads_);
    double best = 0;
    for (int run = 0; run < kLoopRuns; ++run) {
      best = std::max(best, operations / ns([&](int64_t) { loop(rounds); }));
    }
    return best;
  }

  // The rate of tasks that move as many bytes as both arrays have.
  template <typename Task>
  double gb_per_s(Task&& task) {
    double best = 0;
    for (int run = 0; run < kMemoryRuns; ++run) {
      best = std::max(best, 2 * static_cast<double>(kArrayBytes) / ns(task));
    }
    return best;
  }

  const kernels::PeakKernels& kernels_;
  ThreadPool& pool_;
  int threads_;
};

}  // namespace

Status check_threads(const ThreadPool& pool) {
  const std::string shortage = pool.shortage();
  if (shortage.empty()) return {};
  return failed("nothing was measured: " + shortage + "; --threads " +
                std::to_string(pool.threads()) + " asks for fewer");
}

Result<MachinePeaks> measure_peaks(const kernels::PeakKernels& kernels, ThreadPool& pool,
                                   bool all_threads) {
  return PeakMeasurement(kernels, pool, all_threads).run();
}

}  // namespace mantissa

// For the benchmarks of all rows of a kernel family.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>

#include "base/system/cpu.h"

namespace mantissa::kernels {

// Runs body() again and again and reports ns per element of `count`; a row that this CPU
// cannot run is skipped.
template <typename Body>
void measure_elements(benchmark::State& state, Features needs, int64_t count, Body&& body) {
  if (!cpu_features().contains(needs)) {
    return state.SkipWithError("this CPU lacks the instruction set");
  }
  for (auto _ : state) {
    body();
    benchmark::ClobberMemory();
  }
  state.counters["ns_per_element"] = benchmark::Counter(
      static_cast<double>(count) * 1e-9,
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

}  // namespace mantissa::kernels

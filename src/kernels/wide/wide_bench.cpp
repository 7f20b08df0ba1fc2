// ns per element of the wide kernels on 100,000 elements, one thread.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "kernels/common/bench_rows.h"
#include "kernels/elementwise/test_values.h"
#include "kernels/wide/wide.h"

namespace mantissa::kernels {
namespace {

constexpr int64_t kCount = 100000;

struct Operands {
  std::vector<int64_t> sums = test_values<int64_t>(kCount, 1, 40);
  std::vector<int32_t> part = test_values<int32_t>(kCount, 2, 24);
  std::vector<int16_t> values = test_values<int16_t>(kCount, 3, 15);
  std::vector<int8_t> bytes = std::vector<int8_t>(kCount);
};

template <typename Body>
void measure(benchmark::State& state, const WideKernels& kernels, Body&& body) {
  Operands operands;
  measure_elements(state, kernels.needs, kCount, [&] { body(operands); });
}

void add_rows(const WideKernels* k) {
  const auto add = [&](const char* name, auto body) {
    benchmark::RegisterBenchmark((std::string(k->name) + "/" + name).c_str(),
                                 [=](benchmark::State& state) { measure(state, *k, body); });
  };
  add("narrow", [=](Operands& o) {
    benchmark::DoNotOptimize(k->narrow({o.sums.data(), 25, {o.values.data(), 16}}, 0, kCount));
  });
  add("add_shifted", [=](Operands& o) {
    k->add_shifted({o.part.data(), 32}, 7, o.sums.data(), 0, kCount);
  });
  add("plane", [=](Operands& o) { k->plane({o.values.data(), 0, o.bytes.data()}, 0, kCount); });
}

const bool kRegistered = [] {
#if defined(__x86_64__)
  add_rows(&kWideAvx512Vnni);
  add_rows(&kWideAvx2);
#endif
  add_rows(&kWideReference);
  return true;
}();

}  // namespace
}  // namespace mantissa::kernels

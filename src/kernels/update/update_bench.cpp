// ns per element of the update kernels on 100,000 parameters, one thread.
#include <benchmark/benchmark.h>

#include "kernels/common/bench_rows.h"
#include "kernels/elementwise/test_values.h"
#include "kernels/update/update.h"

namespace mantissa::kernels {
namespace {

constexpr int64_t kCount = 100000;

struct Operands {
  std::vector<int64_t> initial = test_values<int64_t>(kCount, 1, 30);
  std::vector<int64_t> gradient = initial;
  std::vector<int32_t> sums32 = std::vector<int32_t>(initial.begin(), initial.end());
  std::vector<int8_t> weights = test_values<int8_t>(kCount, 2, 6);
  std::vector<int16_t> accumulator = test_values<int16_t>(kCount, 3, 14);
  std::vector<int16_t> velocity = test_values<int16_t>(kCount, 4, 14);
  std::vector<int16_t> root = std::vector<int16_t>(kCount, 1000);

  Adam adam() {
    return {.first = velocity.data(),
            .root = root.data(),
            .gradient_multiplier = 1 << 20,
            .first_multiplier = 900000,
            .magnitude_shift = 12,
            .root_align = 4,
            .square_multiplier = 16777,
            .first_shift = 40,
            .root_shift = 11,
            .root_offset = 1000,
            .numerator_shift = 30,
            .root_multiplier = 8000,
            .epsilon = 100};
  }

  Update args(bool momentum, bool narrow = false) {
    Update update;
    update.gradient = narrow ? GradientSums{sums32.data(), 32} : GradientSums{gradient.data()};
    update.weights = weights.data();
    update.accumulator = accumulator.data();
    update.velocity = momentum ? velocity.data() : nullptr;
    update.gradient_shift = narrow ? -2 : 6;
    update.gradient_multiplier = 1 << 20;
    update.velocity_multiplier = 900000;
    update.decay_multiplier = 100;
    update.direction_bits = momentum ? 16 : 32;
    update.direction_shift = momentum ? 30 : 14;
    update.rate_multiplier = 1 << 24;
    update.update_shift = momentum ? 30 : 46;
    return update;
  }
};

template <typename Body>
void measure(benchmark::State& state, const UpdateKernels& kernels, Body&& body) {
  Operands operands;
  measure_elements(state, kernels.needs, kCount, [&] { body(operands); });
}

void add_rows(const UpdateKernels* k) {
  const std::string prefix = std::string(k->name) + "/";
  const auto add = [&](const char* name, auto body) {
    benchmark::RegisterBenchmark((prefix + name).c_str(),
                                 [=](benchmark::State& state) { measure(state, *k, body); });
  };
  add("gradient_extremes", [=](Operands& o) {
    benchmark::DoNotOptimize(k->gradient_extremes({o.gradient.data()}, 0, kCount));
  });
  add("gradient_extremes_narrow", [=](Operands& o) {
    benchmark::DoNotOptimize(k->gradient_extremes({o.sums32.data(), 32}, 0, kCount));
  });
  for (const bool narrow : {false, true}) {
    add(narrow ? "sketch_extremes_narrow" : "sketch_extremes", [=](Operands& o) {
      const DirectionSketch sketch{o.velocity.data(), 16, 20000, 29000};
      benchmark::DoNotOptimize(
          k->sketch_extremes(o.args(true, narrow).gradient, sketch, 0, kCount));
    });
  }
  add("direction_extremes_narrow", [=](Operands& o) {
    benchmark::DoNotOptimize(k->direction_extremes(o.args(true, true), 0, kCount));
  });
  add("step_narrow",
      [=](Operands& o) { benchmark::DoNotOptimize(k->step(o.args(true, true), 0, kCount)); });
  for (const bool momentum : {false, true}) {
    add(momentum ? "direction_extremes_momentum" : "direction_extremes_sgd", [=](Operands& o) {
      benchmark::DoNotOptimize(k->direction_extremes(o.args(momentum), 0, kCount));
    });
    add(momentum ? "step_momentum" : "step_sgd",
        [=](Operands& o) { benchmark::DoNotOptimize(k->step(o.args(momentum), 0, kCount)); });
  }
  add("look_ahead",
      [=](Operands& o) { benchmark::DoNotOptimize(k->look_ahead(o.args(true), 0, kCount)); });
  add("adam_extremes", [=](Operands& o) {
    benchmark::DoNotOptimize(k->adam_extremes(o.args(false), o.adam(), 0, kCount));
  });
  add("adam_direction", [=](Operands& o) {
    benchmark::DoNotOptimize(k->adam_direction(o.args(false).gradient, o.adam(), 0, kCount));
  });
  add("sum_of_squares", [=](Operands& o) {
    benchmark::DoNotOptimize(k->sum_of_squares({o.gradient.data()}, 6, 0, kCount));
  });
  for (const int growth : {-1, 1}) {
    add(growth < 0 ? "change_unit_shrink" : "change_unit_grow",
        [=](Operands& o) { k->change_unit(o.args(false), growth, 0, kCount); });
  }
}

const bool kRegistered = [] {
#if defined(__x86_64__)
  add_rows(&kUpdateAvx512Vnni);
  add_rows(&kUpdateAvx2);
#endif
  add_rows(&kUpdateReference);
  return true;
}();

}  // namespace
}  // namespace mantissa::kernels

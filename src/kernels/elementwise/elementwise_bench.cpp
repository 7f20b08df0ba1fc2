// ns per element of the element-wise kernels on the shapes of ResNet-20 at batch 128, one thread.
#include <benchmark/benchmark.h>

#include "kernels/common/bench_rows.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/test_values.h"

namespace mantissa::kernels {
namespace {

struct Operands {
  int64_t rows, channels, count;
  std::vector<int32_t> wide, mean, shifts;
  std::vector<uint8_t> pixels;
  std::vector<int8_t> a, b, out;
  std::vector<int16_t> grad_a, grad_b, grad_out;
  std::vector<int8_t> grad_a8, grad_b8, grad_out8;
  std::vector<int64_t> sums;

  explicit Operands(const benchmark::State& state)
      : rows(state.range(0)),
        channels(state.range(1)),
        count(rows * channels),
        wide(test_values<int32_t>(count, 1, 20)),
        mean(test_values<int32_t>(channels, 2, 7)),
        shifts(channels, 12),
        pixels(test_values<uint8_t>(count, 3, 8)),
        a(test_values<int8_t>(count, 4, 7)),
        b(test_values<int8_t>(count, 5, 7)),
        out(count),
        grad_a(test_values<int16_t>(count, 6, 15)),
        grad_b(test_values<int16_t>(count, 7, 15)),
        grad_out(count),
        grad_a8(test_values<int8_t>(count, 6, 7)),
        grad_b8(test_values<int8_t>(count, 7, 7)),
        grad_out8(count),
        sums(channels) {}

  AddWide add_wide(int bits, int shift_a, int shift) {
    if (bits <= 8) {
      return {{grad_a8.data(), bits},  {grad_b8.data(), bits}, shift_a, 0, false, shift,
              {grad_out8.data(), bits}};
    }
    return {{grad_a.data(), bits},  {grad_b.data(), bits}, shift_a, 0, false, shift,
            {grad_out.data(), bits}};
  }
};

template <typename Body>
void measure(benchmark::State& state, const ElementwiseKernels& kernels, Body&& body) {
  Operands operands(state);
  measure_elements(state, kernels.needs, operands.count, [&] { body(operands); });
}

// The kernels of gradients of `bits` bits.
template <typename Add>
void add_gradient_rows(const ElementwiseKernels* k, int bits, const Add& add) {
  const std::string suffix = "_" + std::to_string(bits) + "_bits";
  add("add_wide" + suffix, [=](Operands& o) {
    benchmark::DoNotOptimize(k->add_wide(o.add_wide(bits, -2, 3), 0, o.count));
  });
  add("add_wide_far" + suffix, [=](Operands& o) {
    benchmark::DoNotOptimize(k->add_wide(o.add_wide(bits, -25, 26), 0, o.count));
  });
  add("relu_gradient" + suffix, [=](Operands& o) {
    const AddWide gradients = o.add_wide(bits, 0, 0);
    k->relu_gradient(o.a.data(), gradients.a, gradients.out, 0, o.count);
  });
  add("sum_rows" + suffix, [=](Operands& o) {
    k->sum_rows(o.add_wide(bits, 0, 0).a, o.channels, 0, o.rows, o.sums.data());
  });
  add("sum_magnitudes" + suffix, [=](Operands& o) {
    k->sum_magnitudes(o.add_wide(bits, 0, 0).a, o.channels, 0, o.rows, o.sums.data());
  });
  add("scale_within" + suffix, [=](Operands& o) {
    const AddWide gradients = o.add_wide(bits, 0, 0);
    benchmark::DoNotOptimize(k->scale_within(
        {gradients.a, o.a.data(), 0, 96, int64_t{1} << 29, 29, gradients.out}, 0, o.count));
  });
  add("sum_by_table" + suffix, [=](Operands& o) {
    benchmark::DoNotOptimize(
        k->sum_by_table(o.add_wide(bits, 0, 0).a, o.a.data(), o.b.data(), 0, o.count));
  });
  add("shift_channels" + suffix, [=](Operands& o) {
    const AddWide gradients = o.add_wide(bits, 0, 0);
    k->shift_channels({gradients.a, o.shifts.data(), o.channels, gradients.out}, 0, o.rows);
  });
}

void add_rows(const ElementwiseKernels* k) {
  const std::string prefix = std::string(k->name) + "/";
  const auto add = [&](const std::string& name, auto body) {
    benchmark::RegisterBenchmark((prefix + name).c_str(),
                                 [=](benchmark::State& state) { measure(state, *k, body); })
        ->Args({100352, 16})
        ->Args({25088, 32})
        ->Args({6272, 64});
  };
  add("requantise", [=](Operands& o) {
    benchmark::DoNotOptimize(k->requantise({o.wide.data(), 13, o.out.data()}, 0, o.count));
  });
  add("requantise_maximum", [=](Operands& o) {
    benchmark::DoNotOptimize(k->requantise({o.wide.data(), 0, nullptr}, 0, o.count));
  });
  add("add", [=](Operands& o) {
    benchmark::DoNotOptimize(
        k->add({o.a.data(), o.b.data(), -2, 0, true, 3, o.out.data()}, 0, o.count));
  });
  add("add_maximum", [=](Operands& o) {
    benchmark::DoNotOptimize(k->add({o.a.data(), o.b.data(), -2, 0, true, 0, nullptr}, 0, o.count));
  });
  add("normalise_input", [=](Operands& o) {
    benchmark::DoNotOptimize(
        k->normalise_input({o.pixels.data(), o.mean.data(), 3, 1, o.out.data()}, 0, o.count / 3));
  });
  add("requantise_channels", [=](Operands& o) {
    benchmark::DoNotOptimize(k->requantise_channels(
        {o.wide.data(), o.shifts.data(), o.channels, o.out.data()}, 0, o.rows));
  });
  add("look_up",
      [=](Operands& o) { k->look_up(o.a.data(), o.b.data(), o.out.data(), 0, o.count); });
  for (const int bits : {16, 8}) add_gradient_rows(k, bits, add);
}

const bool kRegistered = [] {
#if defined(__x86_64__)
  add_rows(&kElementwiseAvx512Vnni);
  add_rows(&kElementwiseAvx2);
#endif
  add_rows(&kElementwiseReference);
  return true;
}();

}  // namespace
}  // namespace mantissa::kernels

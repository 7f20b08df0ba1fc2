// ns per input element of the pooling kernels on LeNet-5's and VGG's shapes, and with overlapping
// windows on ResNet's and Inception's, at batch 128, one thread.
#include <benchmark/benchmark.h>

#include "kernels/common/bench_rows.h"
#include "kernels/elementwise/test_values.h"
#include "kernels/pooling/pooling.h"

namespace mantissa::kernels {
namespace {

constexpr int64_t kImages = 128;

struct Operands {
  MaxPoolShape shape;
  int64_t pixels, count;
  std::vector<int8_t> in, out;
  std::vector<int16_t> grad_out, grad_in;
  std::vector<int32_t> sums;
  PoolShape windows;  // 3x3
  std::vector<int64_t> multipliers;

  explicit Operands(const benchmark::State& state)
      : shape{state.range(0), state.range(0), state.range(1), state.range(2)},
        pixels(shape.in_height * shape.in_width),
        count(kImages * pixels * shape.channels),
        in(test_values<int8_t>(count, 1, 7)),
        out(count),
        grad_out(test_values<int16_t>(count, 2, 15)),
        grad_in(count),
        sums(kImages * shape.channels) {
    const int64_t stride = std::min<int64_t>(shape.window, 2), side = shape.in_height;
    const int64_t windows_per_axis = (side - 1) / stride + 1;
    windows = {side,           side,          shape.channels, windows_per_axis, windows_per_axis,
               {3, stride, 1}, {3, stride, 1}};
    multipliers.assign(windows_per_axis * windows_per_axis, (int64_t{1} << 31) / 9);
  }
};

template <typename Body>
void measure(benchmark::State& state, const PoolingKernels& kernels, Body&& body) {
  Operands operands(state);
  measure_elements(state, kernels.needs, operands.count, [&] { body(operands); });
}

void add_rows(const PoolingKernels* k) {
  const std::string prefix = std::string(k->name) + "/";
  const auto add = [&](const std::string& name, auto body) {
    return benchmark::RegisterBenchmark((prefix + name).c_str(),
                                        [=](benchmark::State& state) { measure(state, *k, body); })
        ->ArgNames({"side", "channels", "window"});
  };
  const auto add_maximum = [&](const std::string& name, auto body) {
    auto* row = add(name, body);
    row->Args({28, 6, 2})->Args({10, 16, 2})->Args({32, 64, 2})->Args({28, 1, 2});
    row->Args({27, 6, 3})->Args({28, 33, 2});
  };
  add_maximum("max_pool",
              [=](Operands& o) { k->max_pool(o.shape, o.in.data(), o.out.data(), 0, kImages); });
  for (const int bits : {16, 8}) {
    add_maximum("max_pool_gradient" + std::to_string(bits), [=](Operands& o) {
      k->max_pool_gradient(o.shape, o.in.data(), {o.grad_out.data(), bits},
                           {o.grad_in.data(), bits}, 0, kImages);
    });
  }
  const auto add_windows = [&](const std::string& name, auto body) {
    // Windows of 3: with stride 2 if "window" is 2, else with stride 1 and padding.
    add(name, body)->Args({56, 64, 2})->Args({14, 128, 1})->Args({28, 24, 1});
  };
  add_windows("max_pool_windows", [=](Operands& o) {
    k->max_pool_windows(o.windows, {o.in.data(), 8}, {o.out.data(), 8}, nullptr, 0, kImages);
  });
  add_windows("max_pool_windows_gradient16", [=](Operands& o) {
    k->max_pool_windows_gradient(o.windows, o.out.data(), {o.grad_out.data(), 16}, 1,
                                 {o.grad_in.data(), 16}, 0, kImages, nullptr);
  });
  add_windows("average_pool", [=](Operands& o) {
    k->average_pool({o.windows, o.in.data(), o.multipliers.data(), 31, o.out.data()}, 0, kImages);
  });
  add_windows("average_pool_gradient16", [=](Operands& o) {
    k->average_pool_gradient(o.windows, o.multipliers.data(), {o.grad_out.data(), 16}, 31,
                             {o.grad_in.data(), 16}, 0, kImages, nullptr);
  });
  add("image_sums", [=](Operands& o) {
    k->image_sums(o.in.data(), o.pixels, o.shape.channels, o.sums.data(), 0, kImages);
  })->Args({8, 64, 8});
  add("broadcast", [=](Operands& o) {
    k->broadcast({o.grad_out.data(), 16}, o.pixels, o.shape.channels, {o.grad_in.data(), 16}, 0,
                 kImages);
  })->Args({8, 64, 8});
}

const bool kRegistered = [] {
#if defined(__x86_64__)
  add_rows(&kPoolingAvx512Vnni);
  add_rows(&kPoolingAvx2);
#endif
  add_rows(&kPoolingReference);
  return true;
}();

}  // namespace
}  // namespace mantissa::kernels

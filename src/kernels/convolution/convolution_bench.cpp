// Speed of the convolutions, dense and depthwise: GOPS (2 * multiply-adds per nanosecond), and the
// share of the peak. A loop of the instruction set's multiply-adds (tdpbusd, vpdpbusd, or vpmaddwd
// and vpaddd) measures the peak in the same run.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/convolution/convolution.h"
#include "kernels/kernel_table.h"
#include "numerics/exponent.h"

namespace mantissa::kernels {
namespace {

struct Case {
  const char* name;
  ConvolutionShape shape;
};

constexpr ConvolutionShape shape_of(int64_t batch, int64_t size, int64_t channels,
                                    int64_t out_channels, int64_t kernel, int64_t stride,
                                    int64_t padding, int64_t groups = 1) {
  const int64_t out = (size + 2 * padding - kernel) / stride + 1;
  return {.batch = batch,
          .in_height = size,
          .in_width = size,
          .in_channels = channels,
          .out_height = out,
          .out_width = out,
          .out_channels = out_channels,
          .kernel_height = kernel,
          .kernel_width = kernel,
          .stride_height = stride,
          .stride_width = stride,
          .padding_height = padding,
          .padding_width = padding,
          .groups = groups};
}

constexpr ConvolutionShape depthwise_of(int64_t batch, int64_t size, int64_t channels,
                                        int64_t kernel, int64_t stride) {
  return shape_of(batch, size, channels, channels, kernel, stride, kernel / 2, channels);
}

constexpr Case kCases[] = {
    {"28x28x16", shape_of(128, 28, 16, 16, 3, 1, 1)},
    {"14x14x32", shape_of(128, 14, 32, 32, 3, 1, 1)},
    {"7x7x64", shape_of(128, 7, 64, 64, 3, 1, 1)},
    {"28x28x16-14x14x32", shape_of(128, 28, 16, 32, 3, 2, 1)},
    {"14x14x32-7x7x64", shape_of(128, 14, 32, 64, 3, 2, 1)},
    {"shortcut-28x28x16-14x14x32", shape_of(128, 28, 16, 32, 1, 2, 0)},
    {"56x56x64", shape_of(16, 56, 64, 64, 3, 1, 1)},
    {"28x28x1-16", shape_of(128, 28, 1, 16, 3, 1, 1)},
    {"32x32x3-16", shape_of(128, 32, 3, 16, 3, 1, 1)},
    {"lenet-28x28x1-6", shape_of(128, 28, 1, 6, 5, 1, 2)},
    {"lenet-14x14x6-16", shape_of(128, 14, 6, 16, 5, 1, 0)},
    {"linear-128x784x200", shape_of(128, 1, 784, 200, 1, 1, 0)},
    {"linear-128x120x84", shape_of(128, 1, 120, 84, 1, 1, 0)},
    {"linear-512x768x768", shape_of(512, 1, 768, 768, 1, 1, 0)},
};

// Layers of a MobileNetV2, for the depthwise rows.
constexpr Case kDepthwiseCases[] = {
    {"56x56x144", depthwise_of(16, 56, 144, 3, 1)},
    {"56x56x144-batch32", depthwise_of(32, 56, 144, 3, 1)},
    {"28x28x192-14x14", depthwise_of(32, 28, 192, 3, 2)},
    {"14x14x384", depthwise_of(32, 14, 384, 3, 1)},
    {"7x7x960", depthwise_of(32, 7, 960, 3, 1)},
    {"28x28x120-5x5", depthwise_of(32, 28, 120, 5, 1)},
};

std::byte* allocate(size_t bytes) {
  return static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64 + 64));
}

struct Buffer {
  explicit Buffer(size_t bytes) : size(bytes), data(allocate(bytes), std::free) {
    for (size_t i = 0; i < bytes; ++i) data.get()[i] = static_cast<std::byte>(i * 37 % 251 - 125);
  }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data.get());
  }
  std::span<std::byte> span() { return {data.get(), size}; }
  size_t size;
  std::unique_ptr<std::byte, decltype(&std::free)> data;
};

// GOPS of a loop of the multiply-adds that the row uses: the best of several short runs.
double measure_peak(const PeakKernels& row) {
  constexpr int64_t kRounds = 200'000;
  double best = 0;
  for (int i = 0; i < 20; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const auto operations = 2.0 * static_cast<double>(row.integer_multiply_adds(kRounds));
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    best = std::max(best, operations / time.count());
  }
  return best;
}

double peak_gops(Features needs) {
  static std::map<const PeakKernels*, double> known;
  const PeakKernels* peak = select_kernels(needs).peak;
  if (!known.contains(peak)) known[peak] = measure_peak(*peak);
  return known[peak];
}

template <typename Call>
void measure(benchmark::State& state, Features needs, const ConvolutionShape& shape, int threads,
             Call&& call) {
  const double peak = peak_gops(needs);
  double best_ns = 1e30;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    call();
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    best_ns = std::min(best_ns, time.count());
    state.SetIterationTime(time.count() * 1e-9);
  }
  const double operations = 2.0 * static_cast<double>(shape.multiply_adds());
  state.counters["GOPS"] =
      benchmark::Counter(operations * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["best_GOPS"] = operations / best_ns;
  state.counters["best_%_of_peak"] = 100 * operations / best_ns / peak / threads;
}

enum class Pass { kForward, kGradInput, kGradWeights };

struct PassCase {
  const char* name;
  Pass pass;
  int gradient_bits;  // forward: 8 writes int8, 32 int32
};

constexpr PassCase kPasses[] = {
    {"forward", Pass::kForward, 8},           {"forward_wide", Pass::kForward, 32},
    {"grad_input", Pass::kGradInput, 16},     {"grad_input8", Pass::kGradInput, 8},
    {"grad_weights", Pass::kGradWeights, 16}, {"grad_weights8", Pass::kGradWeights, 8}};

// Results have the exponent that their maximum asks for, as in training: hardly any saturates.
void run(benchmark::State& state, const ConvolutionKernels* kernels, const PassCase& pass_case,
         const ConvolutionShape& shape, int threads) {
  const auto [name, pass, bits] = pass_case;
  ThreadPool pool(threads);
  Buffer input(static_cast<size_t>(shape.input_count()));
  Buffer weights(static_cast<size_t>(shape.weights_count()));
  // Weights like trained ones: sums of magnitudes well below 65535.
  for (int64_t i = 0; i < shape.weights_count(); ++i) weights.as<int8_t>()[i] /= 3;
  if (pass == Pass::kForward) {
    Buffer output(static_cast<size_t>(shape.output_count()) * 4);
    Buffer scratch(kernels->forward_scratch_bytes(shape, threads, {}));
    ConvolutionForward args = {.shape = shape,
                               .input = input.as<int8_t>(),
                               .weights = weights.as<int8_t>(),
                               .sums = bits == 32 ? output.as<int32_t>() : nullptr,
                               .output = bits == 8 ? output.as<int8_t>() : nullptr};
    args.shift = exact_shift(kernels->forward(args, {}, {&pool, scratch.span()}).maximum, 8);
    measure(state, kernels->needs, shape, threads, [&] {
      kernels->forward(args, {}, {&pool, scratch.span()});
    });
    return;
  }
  Buffer grad_output(static_cast<size_t>(shape.output_count()) * 2);
  const ConstMantissaSpan gradient = {grad_output.as<void>(), bits};
  if (pass == Pass::kGradInput) {
    Buffer grad_input(static_cast<size_t>(shape.input_count()) * 2);
    Buffer scratch(kernels->grad_input_scratch_bytes(shape, bits, threads, {}));
    ConvolutionGradInput args = {
        shape, gradient, weights.as<int8_t>(), 0, {grad_input.as<void>(), bits}};
    args.shift = exact_shift(kernels->grad_input(args, {}, {&pool, scratch.span()}).maximum, bits);
    measure(state, kernels->needs, shape, threads, [&] {
      kernels->grad_input(args, {}, {&pool, scratch.span()});
    });
    return;
  }
  Buffer accumulator(static_cast<size_t>(shape.weights_count()) * 8);
  for (int64_t i = 0; i < shape.weights_count(); ++i) accumulator.as<int64_t>()[i] = i;
  Buffer scratch(kernels->grad_weights_scratch_bytes(shape, bits, threads, {}));
  const ConvolutionGradWeights args = {
      shape, input.as<int8_t>(), gradient, 20, {accumulator.as<int64_t>()}};
  measure(state, kernels->needs, shape, threads, [&] {
    kernels->grad_weights(args, {}, {&pool, scratch.span()});
  });
}

void register_rows(const std::vector<const ConvolutionKernels*>& rows,
                   std::span<const Case> cases) {
  for (const ConvolutionKernels* kernels : rows) {
    if (!cpu_features().contains(kernels->needs)) continue;
    for (const PassCase& pass : kPasses) {
      for (const Case& item : cases) {
        for (const int threads : {1, 2}) {
          const std::string name = std::string(kernels->name) + "/" + pass.name + "/" + item.name +
                                   "/threads:" + std::to_string(threads);
          benchmark::RegisterBenchmark(
              name.c_str(),
              [kernels, pass, shape = item.shape, threads](benchmark::State& state) {
                run(state, kernels, pass, shape, threads);
              })
              ->UseManualTime()
              ->Unit(benchmark::kMicrosecond);
        }
      }
    }
  }
}

bool register_all() {
#if defined(__x86_64__)
  register_rows(
      {&kConvolutionAvx2, &kConvolutionAvxVnni, &kConvolutionAvx512Vnni, &kConvolutionAmx}, kCases);
  register_rows({&kDepthwiseAvx2, &kDepthwiseAvx512Vnni}, kDepthwiseCases);
#endif
  return true;
}

const bool registered = register_all();

}  // namespace
}  // namespace mantissa::kernels

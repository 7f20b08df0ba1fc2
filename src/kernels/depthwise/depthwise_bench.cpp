// Speed of the depthwise convolutions of a MobileNetV2: GOPS (2 * multiply-adds per nanosecond) and
// nanoseconds per result.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "kernels/depthwise/depthwise.h"

namespace mantissa::kernels {
namespace {

struct Case {
  const char* name;
  ConvolutionShape shape;
};

constexpr ConvolutionShape shape_of(int64_t batch, int64_t size, int64_t channels, int64_t kernel,
                                    int64_t stride) {
  const int64_t padding = kernel / 2, out = (size + 2 * padding - kernel) / stride + 1;
  return {.batch = batch,
          .in_height = size,
          .in_width = size,
          .in_channels = channels,
          .out_height = out,
          .out_width = out,
          .out_channels = channels,
          .kernel_height = kernel,
          .kernel_width = kernel,
          .stride = stride,
          .padding = padding,
          .groups = channels};
}

constexpr Case kCases[] = {
    {"56x56x144", shape_of(16, 56, 144, 3, 1)},
    {"56x56x144-batch32", shape_of(32, 56, 144, 3, 1)},
    {"28x28x192-14x14", shape_of(32, 28, 192, 3, 2)},
    {"14x14x384", shape_of(32, 14, 384, 3, 1)},
    {"7x7x960", shape_of(32, 7, 960, 3, 1)},
    {"28x28x120-5x5", shape_of(32, 28, 120, 5, 1)},
};

struct Buffer {
  explicit Buffer(int64_t bytes)
      : size(static_cast<size_t>(bytes + 63) / 64 * 64),
        data(static_cast<std::byte*>(std::aligned_alloc(64, size)), std::free) {
    for (size_t i = 0; i < size; ++i) data.get()[i] = static_cast<std::byte>(i * 37 % 251 - 125);
  }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data.get());
  }
  std::span<std::byte> span() const { return {data.get(), size}; }
  size_t size;
  std::unique_ptr<std::byte, decltype(&std::free)> data;
};

enum class Pass { kForward, kGradInput, kGradWeights };

struct PassCase {
  const char* name;
  Pass pass;
  int bits;  // of the gradients; forward: of the results
};

constexpr PassCase kPasses[] = {
    {"forward", Pass::kForward, 8},           {"forward_wide", Pass::kForward, 32},
    {"grad_input", Pass::kGradInput, 16},     {"grad_input8", Pass::kGradInput, 8},
    {"grad_weights", Pass::kGradWeights, 16}, {"grad_weights8", Pass::kGradWeights, 8}};

void measure(benchmark::State& state, const ConvolutionKernels& kernels, const PassCase& pass_case,
             const ConvolutionShape& shape, int threads) {
  const auto [name, pass, bits] = pass_case;
  ThreadPool pool(threads);
  Buffer input(shape.input_count() * 2), weights(shape.weights_count());
  Buffer output(shape.output_count() * 4), accumulator(shape.weights_count() * 8);
  for (int64_t i = 0; i < shape.weights_count(); ++i) accumulator.as<int64_t>()[i] = i;
  Buffer scratch(
      static_cast<int64_t>(std::max({kernels.forward_scratch_bytes(shape, threads),
                                     kernels.grad_input_scratch_bytes(shape, bits, threads),
                                     kernels.grad_weights_scratch_bytes(shape, bits, threads)})));
  const KernelContext context = {&pool, scratch.span()};
  const ConvolutionForward forward = {.shape = shape,
                                      .input = input.as<int8_t>(),
                                      .weights = weights.as<int8_t>(),
                                      .wide = bits == 32 ? output.as<int32_t>() : nullptr,
                                      .narrow = bits == 8 ? output.as<int8_t>() : nullptr,
                                      .shift = 9};
  const ConstGradient grad = {output.as<void>(), bits};
  const ConvolutionGradInput backward = {
      shape, grad, weights.as<int8_t>(), 9, {input.as<void>(), bits}};
  const ConvolutionGradWeights update = {shape, input.as<int8_t>(), grad, 20,
                                         accumulator.as<int64_t>()};
  for (auto _ : state) {
    if (pass == Pass::kForward) kernels.forward(forward, context);
    if (pass == Pass::kGradInput) kernels.grad_input(backward, context);
    if (pass == Pass::kGradWeights) kernels.grad_weights(update, context);
  }
  using Counter = benchmark::Counter;
  state.counters["GOPS"] = Counter(2e-9 * static_cast<double>(shape.multiply_adds()),
                                   Counter::kIsIterationInvariantRate);
  const int64_t results = pass == Pass::kGradInput ? shape.input_count() : shape.output_count();
  state.counters["ns_per_result"] =
      Counter(1e-9 * static_cast<double>(results),
              Counter::Flags(Counter::kIsIterationInvariantRate | Counter::kInvert));
}

bool register_all() {
  std::vector<const ConvolutionKernels*> all;
#if defined(__x86_64__)
  if (is_supported(Isa::kAvx2)) all.push_back(&kDepthwiseAvx2);
  if (is_supported(Isa::kAvx512Vnni)) all.push_back(&kDepthwiseAvx512Vnni);
#endif
  for (const ConvolutionKernels* kernels : all) {
    for (const PassCase& pass : kPasses) {
      for (const Case& item : kCases) {
        for (const int threads : {1, 2}) {
          const std::string name = std::string(kernels->name) + "/" + pass.name + "/" + item.name +
                                   "/threads:" + std::to_string(threads);
          benchmark::RegisterBenchmark(name.c_str(),
                                       [kernels, pass, item, threads](benchmark::State& state) {
                                         measure(state, *kernels, pass, item.shape, threads);
                                       })
              ->UseRealTime()
              ->Unit(benchmark::kMicrosecond);
        }
      }
    }
  }
  return true;
}

const bool registered = register_all();

}  // namespace
}  // namespace mantissa::kernels

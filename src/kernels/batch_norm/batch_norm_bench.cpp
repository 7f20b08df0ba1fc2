// ns per element of the batch-norm kernels on the shapes of ResNet-20 at batch 128, one thread.
#include <benchmark/benchmark.h>

#include "base/random.h"
#include "kernels/batch_norm/batch_norm.h"
#include "kernels/common/bench_rows.h"

namespace mantissa::kernels {
namespace {

// Numbers of at most `bits` bits and a sign, as gradients and parameters are: all of them
// different, and few of them large.
template <typename T>
std::vector<T> usual_values(int64_t count, uint64_t seed, int bits) {
  std::vector<T> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t random = random_bits(seed, RandomStream::kRound, 0, static_cast<uint64_t>(i));
    const int64_t sum = static_cast<int32_t>(random) / 2 + static_cast<int32_t>(random >> 32) / 2;
    values[static_cast<size_t>(i)] = static_cast<T>(sum >> (31 - bits));
  }
  return values;
}

struct Operands {
  int64_t rows, channels;
  std::vector<int8_t> in, output, out;
  std::vector<int16_t> grad_out, grad_in;
  std::vector<int8_t> grad_out8, grad_in8;
  std::vector<int32_t> multiplier, low, high;
  std::vector<int64_t> offset, sum, squares;

  explicit Operands(const benchmark::State& state)
      : rows(state.range(0)),
        channels(state.range(1)),
        in(usual_values<int8_t>(rows * channels, 1, 6)),
        output(usual_values<int8_t>(rows * channels, 2, 6)),
        out(rows * channels),
        grad_out(usual_values<int16_t>(rows * channels, 3, 13)),
        grad_in(rows * channels),
        grad_out8(usual_values<int8_t>(rows * channels, 3, 5)),
        grad_in8(rows * channels),
        multiplier(usual_values<int32_t>(channels, 4, 30)),
        low(channels),
        high(channels),
        offset(usual_values<int64_t>(channels, 5, 30)),
        sum(channels),
        squares(channels) {}

  BatchNormGradient gradient(int bits) {
    BatchNormGradient args = {.grad_out = {grad_out.data(), bits},
                              .in = {in.data(), 8},
                              .output = {output.data(), 8},
                              .channels = channels,
                              .grad_multiplier = multiplier.data(),
                              .in_multiplier = multiplier.data(),
                              .offset = offset.data(),
                              .shift = 30,
                              .grad_in = {grad_in.data(), bits}};
    if (bits <= 8) args.grad_out.data = grad_out8.data(), args.grad_in.data = grad_in8.data();
    return args;
  }
  ScaleOffset scale_offset(bool write) {
    return {{in.data(), 8},
            channels,
            multiplier.data(),
            offset.data(),
            true,
            30,
            {write ? out.data() : nullptr, 8}};
  }
};

template <typename Body>
void measure(benchmark::State& state, const BatchNormKernels& kernels, Body&& body) {
  Operands operands(state);
  measure_elements(state, kernels.needs, static_cast<int64_t>(operands.in.size()),
                   [&] { body(operands); });
}

void add_rows(const BatchNormKernels* kernels) {
  const std::string prefix = std::string(kernels->name) + "/";
  const auto add = [&](const std::string& name, auto body) {
    benchmark::RegisterBenchmark((prefix + name).c_str(),
                                 [=](benchmark::State& state) { measure(state, *kernels, body); })
        ->Args({100352, 16})
        ->Args({25088, 32})
        ->Args({6272, 64});
  };
  add("channel_sums", [=](Operands& o) {
    kernels->channel_sums({o.in.data(), 8}, o.channels, 0, o.rows,
                          {o.sum.data(), o.squares.data(), o.low.data(), o.high.data()});
  });
  add("scale_offset", [=](Operands& o) {
    benchmark::DoNotOptimize(kernels->scale_offset(o.scale_offset(true), 0, o.rows));
  });
  add("scale_offset_maximum", [=](Operands& o) {
    benchmark::DoNotOptimize(kernels->scale_offset(o.scale_offset(false), 0, o.rows));
  });
  for (const int bits : {16, 8}) {
    const std::string suffix = "_" + std::to_string(bits) + "_bits";
    add("gradient_sums" + suffix, [=](Operands& o) {
      kernels->gradient_sums(o.gradient(bits), 0, o.rows, o.sum.data(), o.squares.data());
    });
    add("gradient" + suffix, [=](Operands& o) {
      benchmark::DoNotOptimize(kernels->gradient(o.gradient(bits), 0, o.rows));
    });
  }
}

const bool kRegistered = [] {
#if defined(__x86_64__)
  add_rows(&kBatchNormAvx512Vnni);
  add_rows(&kBatchNormAvx2);
#endif
  add_rows(&kBatchNormReference);
  return true;
}();

}  // namespace
}  // namespace mantissa::kernels

// Convolutions under test, whatever their entry points, and what they make of the same operands.
#pragma once

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/convolution/convolution.h"

namespace mantissa::kernels::test {

struct Subject {
  std::string name;
  std::function<WideStatistics(const ConvolutionForward&, const KernelContext&)> forward;
  std::function<size_t(const ConvolutionShape&, int threads)> forward_scratch_bytes;
  std::function<WideStatistics(const ConvolutionGradInput&, const KernelContext&)> grad_input;
  std::function<size_t(const ConvolutionShape&, int bits, int threads)> grad_input_scratch_bytes;
  std::function<void(const ConvolutionGradWeights&, const KernelContext&)> grad_weights;
  std::function<size_t(const ConvolutionShape&, int bits, int threads)> grad_weights_scratch_bytes;
};

inline Subject subject_of(const ConvolutionKernels& row) {
  return {row.name,
          row.forward,
          row.forward_scratch_bytes,
          row.grad_input,
          row.grad_input_scratch_bytes,
          row.grad_weights,
          row.grad_weights_scratch_bytes};
}

// Scratch of exactly the size asked for, so that sanitizers see what is written beyond it.
class Scratch {
 public:
  explicit Scratch(size_t bytes)
      : bytes_(bytes),
        block_(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64))) {
    for (size_t i = 0; i < bytes; ++i) block_.get()[i] = std::byte{0xa5};
  }
  std::span<std::byte> span() { return {block_.get(), bytes_}; }

 private:
  struct Free {
    void operator()(std::byte* block) const { std::free(block); }
  };
  size_t bytes_;
  std::unique_ptr<std::byte, Free> block_;
};

enum class Values { kRandom, kExtreme, kAllMaximum, kMixedSigns };

template <typename T>
std::vector<T> make_values(int64_t count, int limit, Values values, std::mt19937& random) {
  std::vector<T> result(static_cast<size_t>(count));
  std::uniform_int_distribution<int> any(-limit, limit);
  std::uniform_int_distribution<int> coin(0, 2);
  for (T& value : result) {
    if (values == Values::kRandom) value = static_cast<T>(any(random));
    if (values == Values::kExtreme) value = static_cast<T>((coin(random) - 1) * limit);
    if (values == Values::kAllMaximum) value = static_cast<T>(limit);
    if (values == Values::kMixedSigns) value = static_cast<T>(coin(random) == 0 ? -limit : limit);
  }
  return result;
}

struct Results {
  std::vector<int32_t> wide;
  std::vector<int8_t> narrow;
  std::vector<std::byte> grad_input;
  std::vector<int64_t> accumulator;
  WideStatistics wide_found, narrow_found, grad_input_found;
};

struct Operands {
  ConvolutionShape shape;
  int bits = 16;
  std::vector<int8_t> input, weights;
  std::vector<int32_t> bias;
  std::vector<std::byte> grad_output;
  std::vector<int64_t> accumulator;
  int forward_shift = 0, grad_input_shift = 0, grad_weights_shift = 0;

  // The seed also chooses the shifts, the gradients' width and whether there is a bias.
  Operands(const ConvolutionShape& s, Values values, uint32_t seed) : shape(s) {
    std::mt19937 random(seed);
    constexpr int kForwardShifts[] = {0, 7, 12, 9, 24, 16, 1};
    constexpr int kGradInputShifts[] = {0, 1, 7, 12, 16, 17, 20, 29, 30, 31, 32, 40, 62};
    constexpr int kGradWeightsShifts[] = {0, 1, 9, 20, 31, 33, 48, 62, 63, -1, -20, -61, -70};
    constexpr int kBits[] = {16, 8, 16, 12, 8, 6};
    forward_shift = kForwardShifts[seed % std::size(kForwardShifts)];
    grad_input_shift = kGradInputShifts[seed % std::size(kGradInputShifts)];
    grad_weights_shift = kGradWeightsShifts[seed % std::size(kGradWeightsShifts)];
    bits = kBits[seed % std::size(kBits)];
    input = make_values<int8_t>(s.input_count(), 127, values, random);
    weights = make_values<int8_t>(s.weights_count(), 127, values, random);
    if (seed % 4 != 0) bias = make_values<int32_t>(s.out_channels, 1 << 30, values, random);
    accumulator = make_values<int64_t>(s.weights_count(), 1 << 30, values, random);
    with_gradient_type(bits, [&](auto type) {
      const int limit = (1 << (bits - 1)) - 1;
      set_grad_output(make_values<decltype(type)>(s.output_count(), limit, values, random));
    });
  }

  template <typename T>
  void set_grad_output(const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    grad_output.assign(bytes.begin(), bytes.end());
  }

  Results run(const Subject& subject, int threads) const {
    ThreadPool pool(threads);
    Results r;
    r.wide.resize(static_cast<size_t>(shape.output_count()), 12345);
    r.narrow.resize(r.wide.size(), 77);
    r.grad_input.resize(input.size() * static_cast<size_t>(gradient_bytes(bits)), std::byte{77});
    r.accumulator = accumulator;
    Scratch forward(subject.forward_scratch_bytes(shape, threads));
    ConvolutionForward args{.shape = shape,
                            .input = input.data(),
                            .weights = weights.data(),
                            .bias = bias.empty() ? nullptr : bias.data(),
                            .wide = r.wide.data()};
    r.wide_found = subject.forward(args, {&pool, forward.span()});
    args.wide = nullptr;
    args.narrow = r.narrow.data();
    args.shift = forward_shift;
    r.narrow_found = subject.forward(args, {&pool, forward.span()});
    const ConstGradient gradient{grad_output.data(), bits};
    Scratch backward(subject.grad_input_scratch_bytes(shape, bits, threads));
    r.grad_input_found = subject.grad_input(
        {shape, gradient, weights.data(), grad_input_shift, {r.grad_input.data(), bits}},
        {&pool, backward.span()});
    Scratch update(subject.grad_weights_scratch_bytes(shape, bits, threads));
    subject.grad_weights({shape, input.data(), gradient, grad_weights_shift, r.accumulator.data()},
                         {&pool, update.span()});
    return r;
  }
};

template <typename T>
std::string first_difference(const char* what, const std::vector<T>& expected,
                             const std::vector<T>& actual) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == actual[i]) continue;
    return std::string(what) + ": element " + std::to_string(i) + " is " +
           std::to_string(static_cast<int64_t>(actual[i])) + ", not " +
           std::to_string(static_cast<int64_t>(expected[i])) + "; ";
  }
  return "";
}

inline std::string first_difference(const char* what, const WideStatistics& expected,
                                    const WideStatistics& actual) {
  if (expected.maximum == actual.maximum && expected.saturated == actual.saturated) return "";
  return std::string(what) + ": maximum " + std::to_string(actual.maximum) + " (" +
         std::to_string(expected.maximum) + "), saturated " + std::to_string(actual.saturated) +
         " (" + std::to_string(expected.saturated) + "); ";
}

// Empty if all results are equal.
inline std::string difference(const Results& expected, const Results& actual) {
  return first_difference("wide", expected.wide, actual.wide) +
         first_difference("wide's statistics", expected.wide_found, actual.wide_found) +
         first_difference("narrow", expected.narrow, actual.narrow) +
         first_difference("narrow's statistics", expected.narrow_found, actual.narrow_found) +
         first_difference("grad_input's bytes", expected.grad_input, actual.grad_input) +
         first_difference("grad_input's statistics", expected.grad_input_found,
                          actual.grad_input_found) +
         first_difference("accumulator", expected.accumulator, actual.accumulator);
}

// Empty if every subject agrees with the reference, with each number of threads.
inline std::string disagreement(const std::vector<Subject>& subjects, const Operands& operands,
                                const std::vector<int>& threads) {
  const ConvolutionShape& s = operands.shape;
  const Results expected = operands.run(subject_of(kConvolutionReference), 1);
  for (const Subject& subject : subjects) {
    for (const int count : threads) {
      const std::string found = difference(expected, operands.run(subject, count));
      if (found.empty()) continue;
      const auto text = [](int64_t n) { return std::to_string(n); };
      return subject.name + ", " + text(count) + " threads, " + text(s.batch) + "x" +
             text(s.in_height) + "x" + text(s.in_width) + "x" + text(s.in_channels) + " to " +
             text(s.out_height) + "x" + text(s.out_width) + "x" + text(s.out_channels) +
             ", kernel " + text(s.kernel_height) + "x" + text(s.kernel_width) + ", stride " +
             text(s.stride) + ", padding " + text(s.padding) + ", groups " + text(s.groups) +
             ", shifts " + text(operands.forward_shift) + " " + text(operands.grad_input_shift) +
             " " + text(operands.grad_weights_shift) + ", gradients of " + text(operands.bits) +
             " bits: " + found;
    }
  }
  return "";
}

}  // namespace mantissa::kernels::test

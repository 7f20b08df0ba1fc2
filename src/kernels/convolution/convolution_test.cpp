// Every fast convolution against the reference: bit for bit, for awkward shapes, extreme values and
// any number of threads.
#include "kernels/convolution/convolution.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdlib>
#include <memory>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace mantissa::kernels {

void PrintTo(const ConvolutionShape& s, std::ostream* os) {
  *os << s.batch << "x" << s.in_height << "x" << s.in_width << "x" << s.in_channels << " -> "
      << s.out_height << "x" << s.out_width << "x" << s.out_channels << ", kernel "
      << s.kernel_height << "x" << s.kernel_width << ", stride " << s.stride << ", padding "
      << s.padding;
}

namespace {

// Scratch of exactly the size asked for, so that sanitizers see what is written beyond it.
class Scratch {
 public:
  explicit Scratch(size_t bytes)
      : bytes_(bytes),
        data_(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64))) {
    for (size_t i = 0; i < bytes; ++i) data_.get()[i] = std::byte{0xa5};
  }
  std::span<std::byte> span() { return {data_.get(), bytes_}; }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  size_t bytes_;
  std::unique_ptr<std::byte, Free> data_;
};

enum class Values { kRandom, kExtreme, kAllMaximum, kMixedSigns };

template <typename T>
std::vector<T> make_values(int64_t count, int limit, Values values, std::mt19937& random) {
  std::vector<T> result(static_cast<size_t>(count));
  std::uniform_int_distribution<int> any(-limit, limit);
  std::uniform_int_distribution<int> coin(0, 2);
  for (T& value : result) {
    switch (values) {
      case Values::kRandom:
        value = static_cast<T>(any(random));
        break;
      case Values::kExtreme:
        value = static_cast<T>((coin(random) - 1) * limit);
        break;
      case Values::kAllMaximum:
        value = static_cast<T>(limit);
        break;
      case Values::kMixedSigns:
        value = static_cast<T>(coin(random) == 0 ? -limit : limit);
        break;
    }
  }
  return result;
}

struct Results {
  std::vector<int32_t> wide;
  std::vector<int8_t> narrow;
  std::vector<std::byte> grad_input;
  std::vector<int64_t> accumulator;
  WideStatistics wide_statistics, narrow_statistics, grad_input_statistics;
};

struct Operands {
  ConvolutionShape shape;
  int gradient_bits = 16;
  int grad_input_bits = 16;
  std::vector<int8_t> input, weights;
  std::vector<int32_t> bias;
  std::vector<std::byte> grad_output;
  std::vector<int64_t> accumulator;
  int forward_shift = 0, grad_input_shift = 0, grad_weights_shift = 0;

  Operands(const ConvolutionShape& s, Values values, uint32_t seed) : shape(s) {
    std::mt19937 random(seed);
    input = make_values<int8_t>(s.input_count(), 127, values, random);
    weights = make_values<int8_t>(s.weights_count(), 127, values, random);
    bias = make_values<int32_t>(s.out_channels, 1 << 30, values, random);
    accumulator = make_values<int64_t>(s.weights_count(), 1 << 30, values, random);
    if (seed % 3 == 0) bias.clear();
    constexpr int kForwardShifts[] = {0, 7, 12, 9, 24, 16, 1};
    constexpr int kGradInputShifts[] = {0, 1, 7, 12, 16, 17, 20, 30, 31, 32, 33, 40, 62};
    constexpr int kGradWeightsShifts[] = {0, 1, 9, 20, 31, 33, 48, 62, 63, -1, -20, -40, -61, -70};
    constexpr int kGradientBits[] = {16, 8, 16, 12, 8, 6};
    forward_shift = kForwardShifts[seed % std::size(kForwardShifts)];
    grad_input_shift = kGradInputShifts[seed % std::size(kGradInputShifts)];
    grad_weights_shift = kGradWeightsShifts[seed % std::size(kGradWeightsShifts)];
    gradient_bits = kGradientBits[seed % std::size(kGradientBits)];
    grad_input_bits = seed % 4 == 0 ? 16 : gradient_bits;
    const int limit = (1 << (gradient_bits - 1)) - 1;
    with_gradient_type(gradient_bits, [&](auto type) {
      set_grad_output(make_values<decltype(type)>(s.output_count(), limit, values, random));
    });
  }

  template <typename T>
  void set_grad_output(const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    grad_output.assign(bytes.begin(), bytes.end());
  }

  Results run(const ConvolutionKernels& kernels, int threads) const {
    ThreadPool pool(threads);
    Results r;
    r.wide.resize(static_cast<size_t>(shape.output_count()), 12345);
    r.narrow.resize(r.wide.size(), 77);
    r.grad_input.resize(input.size() * static_cast<size_t>(gradient_bytes(grad_input_bits)),
                        std::byte{77});
    r.accumulator = accumulator;
    Scratch forward(kernels.forward_scratch_bytes(shape, threads));
    ConvolutionForward args{.shape = shape,
                            .input = input.data(),
                            .weights = weights.data(),
                            .bias = bias.empty() ? nullptr : bias.data(),
                            .wide = r.wide.data()};
    r.wide_statistics = kernels.forward(args, {&pool, forward.span()});
    args.wide = nullptr;
    args.narrow = r.narrow.data();
    args.shift = forward_shift;
    r.narrow_statistics = kernels.forward(args, {&pool, forward.span()});
    const ConstGradient gradient{grad_output.data(), gradient_bits};
    Scratch backward(kernels.grad_input_scratch_bytes(shape, gradient_bits, threads));
    r.grad_input_statistics = kernels.grad_input(
        {shape, gradient, weights.data(), grad_input_shift, {r.grad_input.data(), grad_input_bits}},
        {&pool, backward.span()});
    Scratch update(kernels.grad_weights_scratch_bytes(shape, gradient_bits, threads));
    kernels.grad_weights({shape, input.data(), gradient, grad_weights_shift, r.accumulator.data()},
                         {&pool, update.span()});
    return r;
  }
};

template <typename T>
std::string first_difference(const std::vector<T>& expected, const std::vector<T>& actual) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == actual[i]) continue;
    return "element " + std::to_string(i) + " is " +
           std::to_string(static_cast<int64_t>(actual[i])) + ", not " +
           std::to_string(static_cast<int64_t>(expected[i]));
  }
  return "";
}

std::string first_difference(const WideStatistics& expected, const WideStatistics& actual) {
  if (expected.maximum != actual.maximum) {
    return "maximum " + std::to_string(actual.maximum) + ", not " +
           std::to_string(expected.maximum);
  }
  if (expected.saturated == actual.saturated) return "";
  return "saturated " + std::to_string(actual.saturated) + ", not " +
         std::to_string(expected.saturated);
}

std::vector<const ConvolutionKernels*> fast_kernels() {
  std::vector<const ConvolutionKernels*> result;
#if defined(__x86_64__)
  if (is_supported(Isa::kAvx2)) result.push_back(&kConvolutionAvx2);
  if (is_supported(Isa::kAvxVnni)) result.push_back(&kConvolutionAvxVnni);
  if (is_supported(Isa::kAvx512Vnni)) result.push_back(&kConvolutionAvx512Vnni);
#endif
  return result;
}

// Empty if all fast kernels agree with the reference.
std::string disagreement(const ConvolutionShape& shape, Values values, uint32_t seed,
                         const std::vector<int>& threads) {
  const Operands operands(shape, values, seed);
  const Results expected = operands.run(kConvolutionReference, 1);
  for (const ConvolutionKernels* kernels : fast_kernels()) {
    for (const int count : threads) {
      const Results actual = operands.run(*kernels, count);
      const std::string parts[] = {
          first_difference(expected.wide, actual.wide),
          first_difference(expected.wide_statistics, actual.wide_statistics),
          first_difference(expected.narrow, actual.narrow),
          first_difference(expected.narrow_statistics, actual.narrow_statistics),
          first_difference(expected.grad_input, actual.grad_input),
          first_difference(expected.grad_input_statistics, actual.grad_input_statistics),
          first_difference(expected.accumulator, actual.accumulator)};
      constexpr const char* kNames[] = {"wide",
                                        "statistics of wide",
                                        "narrow",
                                        "statistics of narrow",
                                        "grad_input (bytes)",
                                        "statistics of grad_input",
                                        "accumulator"};
      for (size_t i = 0; i < std::size(parts); ++i) {
        if (parts[i].empty()) continue;
        return std::string(kernels->name) + " with " + std::to_string(count) + " threads, shifts " +
               std::to_string(operands.forward_shift) + ", " +
               std::to_string(operands.grad_input_shift) + " and " +
               std::to_string(operands.grad_weights_shift) + ", gradients of " +
               std::to_string(operands.gradient_bits) + " bits: " + kNames[i] + ": " + parts[i];
      }
    }
  }
  return "";
}

ConvolutionShape shape_of(int64_t batch, int64_t height, int64_t width, int64_t channels,
                          int64_t out_channels, int64_t kernel, int64_t stride, int64_t padding) {
  return {.batch = batch,
          .in_height = height,
          .in_width = width,
          .in_channels = channels,
          .out_height = (height + 2 * padding - kernel) / stride + 1,
          .out_width = (width + 2 * padding - kernel) / stride + 1,
          .out_channels = out_channels,
          .kernel_height = kernel,
          .kernel_width = kernel,
          .stride = stride,
          .padding = padding};
}

const ConvolutionShape kShapes[] = {
    shape_of(1, 1, 1, 1, 1, 1, 1, 0),      // smallest
    shape_of(5, 1, 1, 784, 200, 1, 1, 0),  // linear
    shape_of(33, 1, 1, 120, 84, 1, 1, 0),  //
    shape_of(130, 1, 1, 30, 10, 1, 1, 0),  //
    shape_of(3, 28, 28, 1, 6, 5, 1, 2),    // LeNet
    shape_of(3, 14, 14, 6, 16, 5, 1, 0),   //
    shape_of(7, 5, 5, 16, 120, 5, 1, 0),   // kernel covers the image
    shape_of(2, 3, 3, 5, 7, 3, 1, 1),      //
    shape_of(2, 28, 28, 16, 16, 3, 1, 1),  // ResNet-20
    shape_of(2, 28, 28, 16, 32, 3, 2, 1),  //
    shape_of(3, 28, 28, 16, 32, 1, 2, 0),  // shortcut
    shape_of(3, 15, 13, 6, 33, 1, 2, 0),   //
    shape_of(5, 14, 14, 32, 32, 3, 1, 1),  //
    shape_of(2, 14, 14, 32, 64, 3, 2, 1),  //
    shape_of(6, 7, 7, 64, 64, 3, 1, 1),    //
    shape_of(1, 9, 40, 3, 48, 3, 1, 1),    //
    shape_of(1, 33, 33, 3, 16, 7, 2, 3),   //
    shape_of(2, 8, 8, 3, 20, 4, 4, 0),     // patches
    shape_of(2, 9, 9, 3, 20, 2, 3, 0),     // taps that miss pixels
    shape_of(2, 4, 4, 2, 3, 3, 1, 4),      // padding larger than needed
    shape_of(2, 4, 4, 2, 3, 1, 2, 3),      //
    shape_of(2, 1, 1, 4, 5, 1, 2, 1),      // no pixel reached
    shape_of(1, 6, 6, 200, 17, 3, 1, 1),   //
    shape_of(9, 3, 3, 120, 200, 3, 1, 0),  //
    shape_of(1, 64, 64, 16, 16, 3, 1, 1),  // several bands
    shape_of(2, 40, 60, 64, 5, 3, 1, 1),   //
    shape_of(64, 4, 4, 40, 8, 1, 1, 0),    // pointwise
    shape_of(4, 2, 2, 256, 300, 2, 1, 1),  // many weights
};

class Shapes : public testing::TestWithParam<ConvolutionShape> {
 protected:
  void SetUp() override {
    if (fast_kernels().empty()) GTEST_SKIP() << "this CPU has no instruction set to test";
  }
};

TEST_P(Shapes, FastKernelsEqualTheReference) {
  uint32_t seed = 1;
  for (const Values values :
       {Values::kRandom, Values::kExtreme, Values::kAllMaximum, Values::kMixedSigns}) {
    EXPECT_EQ(disagreement(GetParam(), values, seed++, {1, 2, 3, 5, 8}), "");
  }
  for (; seed < 20; ++seed) {  // all shifts
    const Values values = seed % 2 == 0 ? Values::kRandom : Values::kExtreme;
    EXPECT_EQ(disagreement(GetParam(), values, seed, {2}), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Convolution, Shapes, testing::ValuesIn(kShapes));

class Depth : public Shapes {};

TEST_P(Depth, DeepSumsOfExtremesAreExact) {
  for (const uint32_t seed : {3u, 4u, 5u}) {
    EXPECT_EQ(disagreement(GetParam(), Values::kAllMaximum, seed, {1, 2}), "");
    EXPECT_EQ(disagreement(GetParam(), Values::kMixedSigns, seed, {3}), "");
  }
}

// Deep in each direction: forward, grad_input (also beyond a sum of |weights| of 65535),
// grad_weights (also beyond the depth that int32 holds).
INSTANTIATE_TEST_SUITE_P(
    Convolution, Depth,
    testing::Values(shape_of(2, 1, 1, 66'000, 2, 1, 1, 0), shape_of(2, 1, 1, 2, 66'000, 1, 1, 0),
                    shape_of(1, 3, 3, 3, 57, 3, 1, 1), shape_of(1, 3, 3, 3, 58, 3, 1, 1),
                    shape_of(3, 8, 8, 40, 516, 1, 1, 0), shape_of(3, 8, 8, 40, 517, 1, 1, 0),
                    shape_of(2, 5, 5, 20, 600, 3, 2, 1), shape_of(70'001, 1, 1, 3, 2, 1, 1, 0),
                    shape_of(140'000, 1, 1, 1, 1, 1, 1, 0), shape_of(262'144, 1, 1, 1, 1, 1, 1, 0),
                    shape_of(129, 28, 28, 2, 2, 1, 1, 0), shape_of(4, 300, 300, 1, 1, 3, 1, 1)));

// 32767.5 is a tie, which goes to the even 32768 and is clipped; one less is not.
TEST(Convolution, TiesAtTheLimitSaturate) {
  if (fast_kernels().empty()) GTEST_SKIP() << "this CPU has no instruction set to test";
  for (const ConvolutionKernels* kernels : fast_kernels()) {
    for (const int shift : {1, 2, 3, 5, 6}) {
      Operands operands(shape_of(4, 1, 1, 1, 3, 1, 1, 0), Values::kRandom, 1);
      const auto half = static_cast<int16_t>(1 << (shift - 1));
      const auto minus_half = static_cast<int16_t>(-half);
      operands.grad_input_shift = shift;
      operands.weights = {static_cast<int8_t>(1 << shift), 1, 1};
      operands.gradient_bits = operands.grad_input_bits = 16;
      operands.set_grad_output<int16_t>(
          {32767, half, 0, 32767, half, -1, -32767, 0, minus_half, -32767, 1, minus_half});
      const Results expected = operands.run(kConvolutionReference, 1);
      const Results actual = operands.run(*kernels, 1);
      EXPECT_EQ(expected.grad_input_statistics.saturated, 2);
      EXPECT_EQ(first_difference(expected.grad_input_statistics, actual.grad_input_statistics), "");
      EXPECT_EQ(first_difference(expected.grad_input, actual.grad_input), "");
    }
  }
}

TEST(Convolution, LongRowsEqualTheReference) {
  if (fast_kernels().empty()) GTEST_SKIP() << "this CPU has no instruction set to test";
  ConvolutionShape shape = {.batch = 5,
                            .in_width = 20'000,
                            .in_channels = 2,
                            .out_width = 19'997,
                            .out_channels = 3,
                            .kernel_width = 4};
  EXPECT_EQ(disagreement(shape, Values::kMixedSigns, 1, {1, 3}), "");
}

TEST(Convolution, RandomShapesEqualTheReference) {
  if (fast_kernels().empty()) GTEST_SKIP() << "this CPU has no instruction set to test";
  const bool ok = rc::check("fast convolutions equal the reference", [] {
    const auto extent = [](int low, int high) { return *rc::gen::inRange<int64_t>(low, high + 1); };
    ConvolutionShape s;
    s.kernel_height = extent(1, 5);
    s.kernel_width = extent(1, 5);
    s.stride = extent(1, 3);
    s.padding = extent(0, 4);
    s.in_height = extent(1, 20);
    s.in_width = extent(1, 40);
    s.in_channels = extent(1, 70);
    s.out_channels = extent(1, 70);
    s.batch = extent(1, 9);
    RC_PRE(s.in_height + 2 * s.padding >= s.kernel_height);
    RC_PRE(s.in_width + 2 * s.padding >= s.kernel_width);
    s.out_height = (s.in_height + 2 * s.padding - s.kernel_height) / s.stride + 1;
    s.out_width = (s.in_width + 2 * s.padding - s.kernel_width) / s.stride + 1;
    RC_PRE(s.multiply_adds() < 8'000'000);
    const auto values = *rc::gen::element(Values::kRandom, Values::kExtreme, Values::kAllMaximum,
                                          Values::kMixedSigns);
    const auto seed = *rc::gen::arbitrary<uint32_t>();
    const int threads = *rc::gen::element(1, 2, 3, 5, 8);
    const std::string found = disagreement(s, values, seed, {threads});
    if (!found.empty()) RC_FAIL(testing::PrintToString(s) + ": " + found);
  });
  EXPECT_TRUE(ok);
}

}  // namespace
}  // namespace mantissa::kernels

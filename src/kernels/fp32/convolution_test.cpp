// The fp32 convolution against its definition in double.
#include "kernels/fp32/convolution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/fp32/onednn.h"

namespace mantissa::kernels::fp32 {
namespace {

std::vector<float> values(int64_t count, uint64_t seed) {
  std::vector<float> list;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = random_bits(seed, RandomStream::kInitialise, 0, static_cast<uint64_t>(i));
    list.push_back(static_cast<float>(bits >> 40) * 0x1p-23f - 1);
  }
  return list;
}

// Calls visit(input, weight, output) with the indices of every product of the sums.
template <typename Visit>
void for_each_product(const ConvolutionShape& s, Visit&& visit) {
  const int64_t in = s.group_in_channels(), taps = s.kernel_height * s.kernel_width;
  for (int64_t at = 0; at < s.output_count(); ++at) {
    const int64_t o = at % s.out_channels, x = at / s.out_channels % s.out_width;
    const int64_t y = at / s.out_channels / s.out_width % s.out_height;
    const int64_t n = at / s.out_channels / s.out_width / s.out_height;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t row = y * s.stride_height + tap / s.kernel_width - s.padding_height;
      const int64_t column = x * s.stride_width + tap % s.kernel_width - s.padding_width;
      if (row < 0 || row >= s.in_height || column < 0 || column >= s.in_width) continue;
      for (int64_t c = 0; c < in; ++c) {
        const int64_t channel = o / s.group_out_channels() * in + c;
        visit(((n * s.in_height + row) * s.in_width + column) * s.in_channels + channel,
              (o * taps + tap) * in + c, at);
      }
    }
  }
}

void expect_near(const std::vector<float>& found, const std::vector<double>& wanted,
                 const char* what) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_NEAR(found[i], wanted[i], 1e-4 * (1 + std::abs(wanted[i]))) << what << " " << i;
  }
}

void check(const std::string& name, const ConvolutionShape& s, bool bias, int threads) {
  SCOPED_TRACE(name);
  ThreadPool pool(threads);
  const auto in = values(s.input_count(), 1), weights = values(s.weights_count(), 2);
  const auto offset = values(s.out_channels, 3), grad_out = values(s.output_count(), 4);
  std::vector<double> out(s.output_count()), grad_in(in.size()), grad_weights(weights.size());
  std::vector<double> grad_bias(s.out_channels);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = bias ? offset[i % s.out_channels] : 0;
    grad_bias[i % s.out_channels] += grad_out[i];
  }
  for_each_product(s, [&](int64_t i, int64_t w, int64_t o) {
    out[o] += static_cast<double>(in[i]) * weights[w];
    grad_in[i] += static_cast<double>(grad_out[o]) * weights[w];
    grad_weights[w] += static_cast<double>(grad_out[o]) * in[i];
  });
  const auto context = [&](std::vector<std::byte>& scratch, ConvolutionPass pass) {
    const int64_t bytes = convolution_scratch_bytes(s, pass, bias, threads);
    EXPECT_GE(bytes, 0);
    scratch.resize(static_cast<size_t>(bytes) + 64);
    const size_t start = (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
    return KernelContext{&pool, std::span(scratch).subspan(start, static_cast<size_t>(bytes))};
  };
  std::vector<std::byte> scratch;
  std::vector<float> found(out.size(), NAN);
  const auto make = [&](ConvolutionPass pass) { return make_convolution(s, pass, bias, threads); };
  ASSERT_TRUE(convolution_forward(make(ConvolutionPass::kForward).get(), in.data(), weights.data(),
                                  bias ? offset.data() : nullptr, found.data(),
                                  context(scratch, ConvolutionPass::kForward)));
  expect_near(found, out, "output");
  found.assign(in.size(), NAN);
  ASSERT_TRUE(convolution_grad_input(make(ConvolutionPass::kGradInput).get(), grad_out.data(),
                                     weights.data(), found.data(),
                                     context(scratch, ConvolutionPass::kGradInput)));
  expect_near(found, grad_in, "grad_input");
  found.assign(weights.size(), NAN);
  std::vector<float> found_bias(s.out_channels, NAN);
  ASSERT_TRUE(convolution_grad_weights(
      make(ConvolutionPass::kGradWeights).get(), in.data(), grad_out.data(), found.data(),
      bias ? found_bias.data() : nullptr, context(scratch, ConvolutionPass::kGradWeights)));
  expect_near(found, grad_weights, "grad_weights");
  if (bias) expect_near(found_bias, grad_bias, "grad_bias");
}

ConvolutionShape shape(int64_t batch, int64_t size, int64_t in, int64_t out, int64_t kernel,
                       int64_t stride, int64_t padding, int64_t groups = 1) {
  const int64_t result = (size + 2 * padding - kernel) / stride + 1;
  return {.batch = batch,
          .in_height = size,
          .in_width = size,
          .in_channels = in,
          .out_height = result,
          .out_width = result,
          .out_channels = out,
          .kernel_height = kernel,
          .kernel_width = kernel,
          .stride_height = stride,
          .stride_width = stride,
          .padding_height = padding,
          .padding_width = padding,
          .groups = groups};
}

// Another kernel, stride and padding along the width.
ConvolutionShape with_width(ConvolutionShape s, int64_t kernel, int64_t stride, int64_t padding) {
  s.kernel_width = kernel;
  s.stride_width = stride;
  s.padding_width = padding;
  s.out_width = (s.in_width + 2 * padding - kernel) / stride + 1;
  return s;
}

TEST(Fp32Convolution, IsItsDefinition) {
  const Status loaded = load_onednn();
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  for (const int threads : {1, 2}) {
    for (const bool bias : {false, true}) {
      check("3x3", shape(2, 9, 16, 24, 3, 1, 1), bias, threads);
      check("stem", shape(3, 28, 1, 6, 5, 1, 2), bias, threads);
      check("rest unused", shape(2, 8, 3, 5, 3, 2, 1), bias, threads);
      check("1x1 strided", shape(2, 8, 32, 16, 1, 2, 0), bias, threads);
      check("linear", shape(37, 1, 120, 84, 1, 1, 0), bias, threads);
      check("depthwise", shape(2, 7, 32, 32, 3, 1, 1, 32), bias, threads);
      check("depthwise strided", shape(2, 8, 17, 17, 3, 2, 1, 17), bias, threads);
      check("1x7", with_width(shape(2, 9, 16, 24, 1, 1, 0), 7, 1, 3), bias, threads);
      check("7x1", with_width(shape(2, 9, 16, 24, 7, 1, 3), 1, 1, 0), bias, threads);
      check("two strides", with_width(shape(2, 9, 17, 17, 3, 2, 1, 17), 5, 1, 2), bias, threads);
      check("groups", shape(2, 6, 8, 12, 3, 1, 1, 4), bias, threads);
    }
  }
}

}  // namespace
}  // namespace mantissa::kernels::fp32

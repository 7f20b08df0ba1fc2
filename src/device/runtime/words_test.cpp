// Layers whose weights lie in words against those whose weights lie in their order.
#include "device/runtime/words.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "device/text/packed_weights.h"

namespace mantissa {
namespace {

using Layer = void (*)(const DevConvolution*, const int8_t*, const DevWeights*, void*, DevTake,
                       void*);

int64_t random_number(uint32_t which, size_t i, int64_t size) {
  const uint64_t word = random_bits(9, RandomStream::kSynthetic, which, static_cast<uint32_t>(i));
  return static_cast<int64_t>(word % static_cast<uint64_t>(2 * size)) - size;
}

struct Sums {
  int32_t channels;
  std::vector<int32_t> all;
};

void keep(void* work, const int32_t* sums, int32_t pixel) {
  auto* kept = static_cast<Sums*>(work);
  std::copy_n(sums, kept->channels, kept->all.begin() + pixel * kept->channels);
}

// Weights of `bits` bits times 2^shift.
void expect_equal_sums(const DevConvolution& s, int bits, int shift, const char* name) {
  SCOPED_TRACE(name);
  const bool is_depthwise = s.groups > 1 && s.groups == s.in_channels;
  std::vector<int8_t> input(
      static_cast<size_t>(s.batch * s.in_height * s.in_width * s.in_channels));
  for (size_t i = 0; i < input.size(); ++i)
    input[i] = static_cast<int8_t>(random_number(1, i, 128));
  const int32_t inputs = s.kernel_height * s.kernel_width * s.in_channels / s.groups;
  std::vector<int8_t> weights(static_cast<size_t>(s.out_channels * inputs));
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i] = static_cast<int8_t>(random_number(2, i, 1 << (bits - 1)) * (1 << shift));
  }
  weights[0] = static_cast<int8_t>(-(1 << (bits - 1 + shift)));
  weights.back() = static_cast<int8_t>(1 << shift);
  std::vector<int32_t> bias(static_cast<size_t>(s.out_channels));
  for (size_t i = 0; i < bias.size(); ++i)
    bias[i] = static_cast<int32_t>(random_number(3, i, 1000));
  const size_t results = static_cast<size_t>(s.batch * s.out_height * s.out_width * s.out_channels);
  Sums expected{s.out_channels, std::vector<int32_t>(results)}, found = expected;
  std::vector<int32_t> work(1000);
  const DevWeights plain{weights.data(), bias.data(), 0};
  (is_depthwise ? dev_depthwise_8 : dev_convolution_8)(&s, input.data(), &plain, work.data(), keep,
                                                       &expected);
  const device::PackedWeights packed =
      is_depthwise ? device::pack_taps(weights, s.out_channels)
                   : device::pack_pairs(weights, s.groups, s.out_channels / s.groups);
  ASSERT_EQ(packed.bits, bits);
  const std::vector<uint32_t> words(packed.words.begin(), packed.words.end());
  const DevWeights in_words{words.data(), bias.data(), packed.shift};
  const Layer layers[3][3] = {
      {dev_convolution_words_2, dev_convolution_words_4, dev_convolution_words_8},
      {dev_depthwise_words_2, dev_depthwise_words_4, dev_depthwise_words_8},
      {dev_linear_words_2, dev_linear_words_4, dev_linear_words_8}};
  std::fill(work.begin(), work.end(), -1);
  layers[is_depthwise ? 1 : 0][bits / 4](&s, input.data(), &in_words, work.data(), keep, &found);
  EXPECT_EQ(found.all, expected.all);
  if (s.in_height * s.in_width > 1) return;
  std::fill(found.all.begin(), found.all.end(), -1);
  layers[2][bits / 4](&s, input.data(), &in_words, work.data(), keep, &found);
  EXPECT_EQ(found.all, expected.all);
}

// batch, in, out, kernel, stride, padding, groups, dilation.
const std::pair<const char*, DevConvolution> kShapes[] = {
    {"linear", {3, 1, 1, 37, 1, 1, 11, 1, 1, 1, 1, 0, 0, 1, 1}},
    {"linear of whole words", {1, 1, 1, 64, 1, 1, 10, 1, 1, 1, 1, 0, 0, 1, 1}},
    {"one pixel's channels", {2, 5, 3, 16, 5, 3, 6, 1, 1, 1, 1, 0, 0, 1, 1}},
    {"one pixel's channels, strided", {1, 5, 5, 32, 3, 3, 5, 1, 1, 2, 2, 0, 0, 1, 1}},
    {"an odd number of channels", {1, 6, 7, 3, 6, 7, 5, 3, 3, 1, 1, 1, 1, 1, 1}},
    {"a large kernel", {1, 12, 5, 1, 6, 3, 4, 10, 4, 2, 2, 4, 2, 1, 1}},
    {"dilated", {1, 9, 9, 4, 9, 9, 3, 3, 3, 1, 1, 2, 2, 1, 2}},
    {"groups", {1, 5, 5, 6, 5, 5, 10, 3, 3, 1, 1, 1, 1, 2, 1}},
    {"groups of whole words", {1, 3, 3, 32, 3, 3, 6, 1, 1, 1, 1, 0, 0, 2, 1}},
    {"depthwise", {2, 6, 7, 8, 3, 4, 8, 3, 3, 2, 2, 1, 1, 8, 1}},
    {"depthwise, an odd number", {1, 5, 5, 7, 5, 5, 7, 5, 3, 1, 1, 2, 1, 7, 1}},
    {"depthwise, dilated", {1, 7, 7, 18, 7, 7, 18, 3, 3, 1, 1, 2, 2, 18, 2}}};

TEST(DeviceWords, SumsAsInOrder) {
  for (const auto& [name, shape] : kShapes) {
    expect_equal_sums(shape, 8, 0, name);
    expect_equal_sums(shape, 4, 0, name);
    expect_equal_sums(shape, 4, 3, name);
    expect_equal_sums(shape, 2, 1, name);
  }
}

}  // namespace
}  // namespace mantissa

// Rows of exported training programs against the reference, and against definitions.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "base/random.h"
#include "device/operators/elements.h"
#include "device/operators/window_pools.h"
#include "device/training/dynamic.h"
#include "device/training/gradient_norm.h"
#include "kernels/bit_counts/wide_counts.h"
#include "numerics/real.h"
#include "reference/layers/pooling.h"

namespace mantissa {
namespace {

uint64_t word_at(uint32_t i, uint32_t which) {
  return random_bits(8, RandomStream::kSynthetic, which, i);
}

// Mantissas of up to `bits` bits; every third is small.
template <typename T>
std::vector<T> random_numbers(int64_t count, int bits, uint32_t which) {
  std::vector<T> numbers;
  for (uint32_t i = 0; i < count; ++i) {
    const auto word = static_cast<int64_t>(word_at(i, which));
    const int64_t number = word >> (i % 3 == 0 ? 62 : 64 - bits);
    numbers.push_back(static_cast<T>(saturate(number, mantissa_limit(bits))));
  }
  return numbers;
}

// A tensor of its own numbers.
template <typename T>
struct Numbers {
  std::vector<T> data;
  int16_t exponent;
  DevTensor tensor;

  Numbers(std::vector<T> numbers, int channels, int exponent_of, int bits)
      : data(std::move(numbers)), exponent(static_cast<int16_t>(exponent_of)), tensor{} {
    tensor.data = data.data();
    tensor.count = static_cast<int32_t>(data.size());
    tensor.channels = channels;
    tensor.bits = bits;
    tensor.limit = INT8_MAX;
    tensor.exponent = &exponent;
  }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
};

// A pool with its windows as both sides see them.
struct Pool {
  RefPoolShape shape;
  DevWindows windows;
  int64_t images = 2;

  int64_t cells() const { return images * shape.in_image(); }
  int64_t results() const { return images * shape.out_image(); }
  int channels() const { return windows.channels; }
};

Pool random_pool(uint32_t i) {
  const auto pick = [&](uint32_t which, int64_t least, int64_t most) {
    return least +
           static_cast<int64_t>(word_at(i, which) % static_cast<uint64_t>(most - least + 1));
  };
  const auto axis = [&](uint32_t which, int64_t size) {
    const int64_t window = pick(which, 1, std::min<int64_t>(size, 4));
    return RefPoolAxis{window, pick(which + 1, 1, 4), pick(which + 2, 0, window / 2)};
  };
  RefPoolShape s;
  s.in_height = pick(1, 3, 8);
  s.in_width = pick(2, 3, 8);
  s.channels = pick(3, 1, 3);
  s.vertical = axis(4, s.in_height);
  s.horizontal = axis(8, s.in_width);
  // As many windows as begin inside the image, whether they end there or not.
  const auto windows = [](const RefPoolAxis& a, int64_t size) {
    return (size + a.padding - 1) / a.stride + 1;
  };
  s.out_height = windows(s.vertical, s.in_height);
  s.out_width = windows(s.horizontal, s.in_width);
  const auto device = [](const RefPoolAxis& a, int64_t size, int64_t count) {
    return DevAxis{static_cast<int32_t>(size), static_cast<int32_t>(count),
                   static_cast<int32_t>(a.window), static_cast<int32_t>(a.stride),
                   static_cast<int32_t>(a.padding)};
  };
  return {s,
          {device(s.vertical, s.in_height, s.out_height),
           device(s.horizontal, s.in_width, s.out_width), static_cast<int32_t>(s.channels)}};
}

TEST(DeviceRows, WindowMaximaAreTheReferences) {
  for (uint32_t i = 0; i < 300; ++i) {
    const Pool p = random_pool(i);
    Numbers<int8_t> in(random_numbers<int8_t>(p.cells(), 8, i), p.channels(), -3, 8);
    Numbers<int8_t> out(std::vector<int8_t>(p.results()), p.channels(), 0, 8);
    std::vector<int8_t> wanted(p.results()), taps(p.results()), own_taps(p.results());
    ref_max_pool_windows(&p.shape, {in.data.data(), 8}, {wanted.data(), 8}, taps.data(), 0,
                         p.images);
    dev_train_window_maxima(&p.windows, &in.tensor, &out.tensor);
    ASSERT_EQ(out.data, wanted);
    ASSERT_EQ(out.exponent, -3);

    DevStep step{};
    Numbers<int16_t> grad_out(random_numbers<int16_t>(p.results(), 15, 7), p.channels(), -9, 16);
    Numbers<int16_t> grad_in(std::vector<int16_t>(p.cells()), p.channels(), 0, 16);
    dev_train_window_maxima_gradient(&step, &p.windows, &in.tensor, &grad_out.tensor,
                                     own_taps.data(), &grad_in.tensor);
    std::vector<int16_t> wanted_grad(p.cells());
    ref_max_pool_windows_gradient(&p.shape, taps.data(), {grad_out.data.data(), 16},
                                  grad_in.exponent + 9, {wanted_grad.data(), 16}, 0, p.images,
                                  nullptr);
    ASSERT_EQ(grad_in.data, wanted_grad);
  }
}

TEST(DeviceRows, WindowMeansAreTheReferences) {
  for (uint32_t i = 0; i < 300; ++i) {
    const Pool p = random_pool(i);
    const bool padded = i % 2 == 0;
    std::vector<int64_t> multipliers;  // of each window, for the reference
    std::vector<int32_t> by_cells;
    for (int cell = 1; cell <= p.shape.window_cells(); ++cell) by_cells.push_back(1'000'000 / cell);
    const auto along = [&](const RefPoolAxis& a, int64_t at, int64_t size) {
      return padded ? std::min(a.first(at) + a.window, size + a.padding) - a.first(at)
                    : a.inside(at, size).size();
    };
    for (int64_t w = 0; w < p.shape.out_height * p.shape.out_width; ++w) {
      const int64_t count = along(p.shape.vertical, w / p.shape.out_width, p.shape.in_height) *
                            along(p.shape.horizontal, w % p.shape.out_width, p.shape.in_width);
      multipliers.push_back(by_cells[static_cast<size_t>(count - 1)]);
    }
    const DevMeans means = {p.windows, padded, 1, by_cells.data(), -20};
    DevStep step{};
    Numbers<int8_t> in(random_numbers<int8_t>(p.cells(), 8, i), p.channels(), -3, 8);
    Numbers<int8_t> out(std::vector<int8_t>(p.results()), p.channels(), 0, 8);
    dev_train_window_means(&step, &means, &in.tensor, &out.tensor);
    std::vector<int8_t> wanted(p.results());
    const RefAveragePool args{.shape = p.shape,
                              .in = in.data.data(),
                              .multipliers = multipliers.data(),
                              .shift = out.exponent + 23,
                              .out = wanted.data()};
    ref_average_pool(&args, 0, p.images);
    ASSERT_EQ(out.data, wanted);

    Numbers<int16_t> grad_out(random_numbers<int16_t>(p.results(), 15, 9), p.channels(), -9, 16);
    Numbers<int16_t> grad_in(std::vector<int16_t>(p.cells()), p.channels(), 0, 16);
    dev_train_window_means_gradient(&step, &means, &grad_out.tensor, &grad_in.tensor);
    std::vector<int16_t> wanted_grad(p.cells());
    ref_average_pool_gradient(&p.shape, multipliers.data(), {grad_out.data.data(), 16},
                              grad_in.exponent + 29, {wanted_grad.data(), 16}, 0, p.images,
                              nullptr);
    ASSERT_EQ(grad_in.data, wanted_grad);
  }
}

// Exponents that are near, and so far apart that an addend is shifted right.
TEST(DeviceRows, SumsAreRoundedHalfUp) {
  for (int apart = -24; apart <= 24; ++apart) {
    Numbers<int8_t> a(random_numbers<int8_t>(500, 8, 1), 5, apart, 8);
    Numbers<int8_t> b(random_numbers<int8_t>(500, 8, 2), 5, 0, 8);
    Numbers<int8_t> out(std::vector<int8_t>(500), 5, 0, 8);
    DevStep step{};
    dev_train_add_half_up(&step, &a.tensor, &b.tensor, false, &out.tensor);
    const int unit = ref_aligned_exponent(apart, 0, 16), shift = out.exponent - unit;
    ASSERT_GE(shift, 0);
    int largest = 0;
    for (size_t i = 0; i < out.data.size(); ++i) {
      const int64_t sum =
          ref_rescale_rne(a.data[i], unit - apart) + ref_rescale_rne(b.data[i], unit);
      const int64_t half = shift > 0 ? int64_t{1} << (shift - 1) : 0;
      ASSERT_EQ(out.data[i], std::clamp<int64_t>((sum + half) >> shift, -127, 127)) << apart;
      largest = std::max(largest, std::abs(int{out.data[i]}));
    }
    ASSERT_GE(largest, 63);  // no smaller exponent holds them
  }
}

int64_t number_of(const void* work, int32_t i, int32_t) {
  return static_cast<const int64_t*>(work)[i];
}

// Micro-batches decide together the exponents that the engine's histograms decide.
TEST(DeviceRows, MicroBatchesDecideTogether) {
  constexpr int kMicroBatches = 3, kElements = 400, kUnit = -20;
  for (uint32_t i = 0; i < 400; ++i) {
    const int ppm = i % 5 * 4000;
    const DecisionRule engine = {.clipped_ppm = ppm, .micro_batches = kMicroBatches};
    const DevRule rule = {
        .bits = 8, .limit = INT8_MAX, .clipped_ppm = ppm, .threshold = 1, .decides_at_once = true};
    const int32_t places[] = {0, kElements * kMicroBatches * ppm / 1'000'000 + 1};
    std::vector<int8_t> exponents(static_cast<size_t>(places[1]));
    const DevNeeded noted = {&rule, places, exponents.data()};
    DevCounts counts = {{0, {0}, REF_UNMEASURED}, INT32_MIN, 0};
    DevStep step{};
    step.dynamic = &dev_dynamic_of_micro_batches;
    step.needed = &noted;
    step.warms_up = true;
    step.micro_batches = kMicroBatches;
    NeededExponents needed;
    for (uint32_t part = 0; part < kMicroBatches; ++part) {
      int16_t predicted = -14;
      Numbers<int8_t> out(std::vector<int8_t>(kElements), 1, 0, 8);
      out.tensor.predicted = &predicted;
      out.tensor.rule = &rule;
      out.tensor.counts = &counts;
      const bool is_zero = (word_at(i, part) & 7) == 0;
      const int bits = 4 + static_cast<int>(word_at(i, part + 10) % 20);
      auto wide = random_numbers<int64_t>(kElements, bits, i * 3 + part);
      if (is_zero) std::ranges::fill(wide, 0);
      const DevElements elements = {number_of, wide.data(), &out.tensor};
      dev_write_value(&step, &elements, kUnit, 56);

      kernels::WideCounts of_part(8, 6, engine.most_clipped(kElements));
      of_part.add(wide.data(), kElements);
      uint64_t maximum = 0;
      for (const int64_t n : wide) maximum = std::max(maximum, magnitude(n));
      if (maximum == 0) {
        needed.add_zeros(kElements);
      } else {
        needed += kernels::needed_exponents({&of_part, 1}, kElements, kUnit,
                                            kUnit + exact_shift(maximum, 8));
      }
    }
    ASSERT_EQ(counts.decided, needed.decided(ppm, 8)) << i;
  }
}

TEST(DeviceRows, SquaresAreExact) {
  for (uint32_t i = 0; i < 300; ++i) {
    const int bits = 2 + static_cast<int>(word_at(i, 1) % 55), count = 1 + static_cast<int>(i);
    auto sums = random_numbers<int64_t>(count, bits, i);
    int16_t exponent = -30;
    DevParameter p{};
    p.sums = sums.data();
    p.sum_bits = 64;
    p.fixed_exponent = p.sums_exponent = &exponent;
    p.count = count;
    p.blocks = 1;
    DevStep step{};
    RefReal squares = ref_real(0);
    dev_add_squares(&step, &p, &squares);
    uint64_t maximum = 0;
    for (const int64_t n : sums) maximum = std::max(maximum, magnitude(n));
    const int shift = exact_shift(maximum, 32);
    unsigned __int128 exact = 0;
    for (const int64_t n : sums) {
      const auto g = static_cast<__int128>(rescale_rne(n, shift));
      exact += static_cast<unsigned __int128>(g * g);
    }
    const Real wanted = ldexp(Real(exact), 2 * (exponent + shift));
    ASSERT_EQ(ref_bits_of_real(squares), std::bit_cast<uint64_t>(wanted.to_double())) << i;
  }
}

TEST(DeviceRows, GradientsAreClippedByTheirNorm) {
  DevStep step{};
  const auto clips = [&](double squares, double most) {
    step.scalars.gradient_scale = ref_real_of_bits(std::bit_cast<uint64_t>(0.25));
    dev_clip_gradients(&step, ref_real_of_bits(std::bit_cast<uint64_t>(squares)),
                       std::bit_cast<uint64_t>(most));
    return std::bit_cast<double>(ref_bits_of_real(step.scalars.gradient_scale));
  };
  EXPECT_EQ(clips(4, 1), 0.25);  // a norm of 1/2
  EXPECT_EQ(clips(64, 1), 0.25 * (1 / (2 + 1e-6)));
}

}  // namespace
}  // namespace mantissa

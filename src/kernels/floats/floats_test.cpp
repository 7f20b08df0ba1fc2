// Loops over floats against their definitions in double, for every instruction set.
#include "kernels/floats/floats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/common/test_rows.h"

namespace mantissa::kernels {
namespace {

constexpr int64_t kCounts[] = {1, 3, 4, 7, 16, 31, 33, 100, 2049};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Uniform numbers in (-largest, largest).
std::vector<float> noise(int64_t count, float largest, uint64_t seed) {
  std::vector<float> numbers(static_cast<size_t>(count));
  uint64_t state = seed;
  for (float& each : numbers) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    each = (static_cast<float>(state >> 40) * 0x1p-23F - 1) * largest;
  }
  return numbers;
}

class Floats : public RowTest<FloatKernels> {};

TEST_P(Floats, SumsOfLogitsAreTheirDefinition) {
  for (const int64_t count : kCounts) {
    const std::vector<float> x = noise(count, 20, 1 + static_cast<uint64_t>(count));
    const LogitSums sums = GetParam()->logit_sums(x.data(), count);
    const float largest = *std::max_element(x.begin(), x.end());
    double exponentials = 0, sum = 0;
    for (const float each : x) exponentials += std::exp(double{each} - largest), sum += each;
    EXPECT_EQ(sums.largest, largest);
    EXPECT_NEAR(sums.exponentials / exponentials, 1, 1e-6) << count;
    EXPECT_NEAR(sums.sum, sum, 1e-4 * static_cast<double>(count)) << count;
  }
}

TEST_P(Floats, NoLogitThatIsNoNumberIsLost) {
  for (const int64_t at : {0, 15, 99}) {
    for (const float bad : {std::nanf(""), kInfinity}) {
      std::vector<float> x = noise(100, 2, 5);
      x[static_cast<size_t>(at)] = bad;
      EXPECT_TRUE(std::isnan(GetParam()->logit_sums(x.data(), 100).exponentials)) << at;
    }
  }
}

TEST_P(Floats, GradientsOfSoftmaxAreTheirDefinition) {
  for (const int64_t count : kCounts) {
    const std::vector<float> x = noise(count, 30, static_cast<uint64_t>(count));
    const SoftmaxGradient args = {.largest = *std::max_element(x.begin(), x.end()),
                                  .inverse = 0.3F,
                                  .target = 0.01F,
                                  .weight = 1.5F};
    std::vector<float> gradient(x.size() + 1, 7.0F);
    GetParam()->softmax_gradient(x.data(), count, args, gradient.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const double power = std::exp(double{x[i]} - args.largest);
      ASSERT_NEAR(gradient[i], (power * args.inverse - args.target) * args.weight, 2e-7) << count;
    }
    EXPECT_EQ(gradient.back(), 7.0F);
  }
}

TEST_P(Floats, ProductsAreTheirDefinition) {
  for (const int64_t rows : {1, 5, 6, 13}) {
    for (const int64_t columns : {1, 16, 31, 48, 70}) {
      for (const int64_t depth : {0, 1, 9}) {
        for (const bool turned : {false, true}) {
          const std::vector<float> a = noise(rows * depth, 1, 1), b = noise(columns * depth, 1, 2);
          std::vector<float> panels(static_cast<size_t>(panels_size(depth, columns)), 99.0F);
          const FloatKernels& kernels = *GetParam();
          // The same numbers as [depth, columns] or [columns, depth].
          if (turned) {
            kernels.pack_columns(b.data(), depth, depth, columns, panels.data());
          } else {
            kernels.pack(b.data(), columns, depth, columns, panels.data());
          }
          const int64_t c_row = columns + 2;
          std::vector<float> c(static_cast<size_t>(rows * c_row), 0.5F);
          kernels.product({.rows = rows,
                           .columns = columns,
                           .depth = depth,
                           .a = a.data(),
                           .a_row = turned ? 1 : depth,
                           .a_depth = turned ? rows : 1,
                           .b = panels.data(),
                           .panel_depth = depth,
                           .c = c.data(),
                           .c_row = c_row,
                           .adds = turned});
          for (int64_t r = 0; r < rows; ++r) {
            for (int64_t j = 0; j < c_row; ++j) {
              double sum = turned || j >= columns ? 0.5 : 0;
              for (int64_t k = 0; k < depth && j < columns; ++k) {
                sum += double{a[static_cast<size_t>(turned ? k * rows + r : r * depth + k)]} *
                       b[static_cast<size_t>(turned ? j * depth + k : k * columns + j)];
              }
              ASSERT_NEAR(c[static_cast<size_t>(r * c_row + j)], sum, 2e-6)
                  << rows << "x" << columns << "x" << depth;
            }
          }
        }
      }
    }
  }
}

TEST_P(Floats, LayersOfFewRowsAreTheirDefinition) {
  for (int64_t rows = 1; rows <= kMostFewRows; ++rows) {
    for (const int64_t depth : {1, 7, 16, 31, 64, 133}) {
      for (const bool has_bias : {false, true}) {
        constexpr int64_t kOutputs = 9, kBegin = 2, kEnd = 8;
        const std::vector<float> x = noise(rows * depth, 1, 1), w = noise(kOutputs * depth, 1, 2);
        const std::vector<float> bias = noise(kOutputs, 1, 3);
        std::vector<float> y(static_cast<size_t>(rows * kOutputs), 7.0F);
        GetParam()->few_rows({.rows = rows,
                              .outputs = kOutputs,
                              .depth = depth,
                              .x = x.data(),
                              .weights = w.data(),
                              .bias = has_bias ? bias.data() : nullptr,
                              .y = y.data()},
                             kBegin, kEnd);
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t o = 0; o < kOutputs; ++o) {
            double sum = has_bias ? bias[static_cast<size_t>(o)] : 0;
            for (int64_t k = 0; k < depth; ++k) {
              sum += double{x[static_cast<size_t>(r * depth + k)]} *
                     w[static_cast<size_t>(o * depth + k)];
            }
            const bool is_written = o >= kBegin && o < kEnd;
            ASSERT_NEAR(y[static_cast<size_t>(r * kOutputs + o)], is_written ? sum : 7.0, 1e-5)
                << rows << " rows, depth " << depth << ", output " << o;
          }
        }
      }
    }
  }
}

TEST_P(Floats, SoftmaxAndItsGradientAreTheirDefinition) {
  constexpr float kScale = 0.7F;
  for (const int64_t count : kCounts) {
    const std::vector<float> x = noise(count, 9, 3), dp = noise(count, 1, 4);
    std::vector<float> p = x, dx = dp;
    GetParam()->softmax(p.data(), count, kScale);
    GetParam()->softmax_backward(p.data(), dx.data(), count, kScale);
    double sum = 0, product = 0;
    for (const float each : x) sum += std::exp(double{each} * kScale);
    for (size_t i = 0; i < x.size(); ++i) product += std::exp(double{x[i]} * kScale) / sum * dp[i];
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = std::exp(double{x[i]} * kScale) / sum;
      ASSERT_NEAR(p[i] / expected, 1, 2e-6) << count;
      ASSERT_NEAR(dx[i], expected * (dp[i] - product) * kScale, 1e-6) << count;
    }
  }
}

// Units in the last place of a float between the two.
double ulps(float found, double expected) {
  const double size = std::max(std::abs(expected), 0x1p-126);
  return std::abs(found - expected) / std::ldexp(1.0, std::ilogb(size) - 23);
}

TEST_P(Floats, ElementaryFunctionsHaveErrorsOfFewUlps) {
  std::vector<float> x;
  for (const float largest : {1e-3F, 0.5F, 1.0F, 8.0F, 88.0F, 103.0F}) {
    const std::vector<float> more = noise(20001, largest, 9);
    x.insert(x.end(), more.begin(), more.end());
  }
  const std::vector<float> zero(x.size());
  std::vector<float> power(x.size()), tangent(x.size()), sigmoid(x.size());
  const FloatKernels& kernels = *GetParam();
  const auto count = std::ssize(x);
  kernels.softmax_gradient(x.data(), count, {.inverse = 1}, power.data());
  kernels.function(FloatFunction::kTanh, x.data(), tangent.data(), count);
  kernels.function(FloatFunction::kSigmoid, x.data(), sigmoid.data(), count);
  double of_power = 0, of_tangent = 0, of_sigmoid = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] < 88.7F) of_power = std::max(of_power, ulps(power[i], std::exp(double{x[i]})));
    of_tangent = std::max(of_tangent, ulps(tangent[i], std::tanh(double{x[i]})));
    if (x[i] < -87) continue;  // e^-x is infinite
    of_sigmoid = std::max(of_sigmoid, ulps(sigmoid[i], 1 / (1 + std::exp(-double{x[i]}))));
  }
  EXPECT_LE(of_power, 2);
  EXPECT_LE(of_tangent, 2);
  EXPECT_LE(of_sigmoid, 3);
}

struct Definition {
  FloatFunction name;
  double (*value)(double);
  double (*slope)(double);
  double value_error, slope_error;  // of values relative, of slopes absolute
};

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double softplus_of(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double bent(double x) { return std::tanh(softplus_of(x)); }
double normal(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

const Definition kFunctions[] = {
    {FloatFunction::kSigmoid, sigmoid_of,
     [](double x) { return sigmoid_of(x) * (1 - sigmoid_of(x)); }, 3e-7, 1e-7},
    {FloatFunction::kTanh, [](double x) { return std::tanh(x); },
     [](double x) { return 1 - std::tanh(x) * std::tanh(x); }, 2.4e-7, 2.4e-7},
    {FloatFunction::kGelu, [](double x) { return x * normal(x); },
     [](double x) { return normal(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }, 0, 5e-7},
    {FloatFunction::kSilu, [](double x) { return x * sigmoid_of(x); },
     [](double x) { return sigmoid_of(x) + x * sigmoid_of(x) * (1 - sigmoid_of(x)); }, 4e-7, 1e-6},
    {FloatFunction::kElu, [](double x) { return x > 0 ? x : std::expm1(x); },
     [](double x) { return x > 0 ? 1 : std::exp(x); }, 6e-7, 3e-7},
    {FloatFunction::kSoftplus, softplus_of, sigmoid_of, 4e-7, 1e-7},
    {FloatFunction::kMish, [](double x) { return x * bent(x); },
     [](double x) { return bent(x) + x * (1 - bent(x) * bent(x)) * sigmoid_of(x); }, 6e-7, 1e-6},
};

TEST_P(Floats, FunctionsAreTheirDefinitions) {
  std::vector<float> x = {0.0F, -0.0F, 1e-30F, -1e-6F, 100.0F, -100.0F, 1e30F, -1e30F};
  for (const float largest : {1e-3F, 1.0F, 8.0F, 60.0F}) {
    const std::vector<float> more = noise(3001, largest, 7);
    x.insert(x.end(), more.begin(), more.end());
  }
  const std::vector<float> ones(x.size(), 1.0F);
  std::vector<float> y(x.size()), slope(x.size());
  for (const Definition& of : kFunctions) {
    GetParam()->function(of.name, x.data(), y.data(), std::ssize(x));
    GetParam()->function_backward(of.name, x.data(), ones.data(), slope.data(), std::ssize(x));
    for (size_t i = 0; i < x.size(); ++i) {
      const double value = of.value(x[i]), size = std::abs(double{x[i]});
      // If 1 + erf is small, GELU has no small relative error.
      const double error = of.value_error > 0 ? of.value_error * std::abs(value) + 1e-38
                                              : 2e-7 * (std::min(size, 6.0) + std::abs(value));
      ASSERT_NEAR(y[i], value, error) << static_cast<int>(of.name) << " " << x[i];
      if (size > 1e9) continue;  // x^2 e^-x^2 / 2
      ASSERT_NEAR(slope[i], of.slope(x[i]), of.slope_error)
          << static_cast<int>(of.name) << " " << x[i];
    }
  }
}

TEST_P(Floats, NormsAndTheirGradientsAreTheirDefinition) {
  constexpr double kEpsilon = 1e-5;
  for (const int64_t count : kCounts) {
    for (const bool centred : {false, true}) {
      const FloatKernels& kernels = *GetParam();
      const std::vector<float> x = noise(count, 3, 11), dy = noise(count, 1, 12),
                               scale = noise(count, 2, 13), offset = noise(count, 1, 14);
      std::vector<float> y(x.size()), dx(x.size()), of_scale(x.size(), 1), of_offset(x.size(), 2);
      const FloatNorm norm = kernels.row_norm(x.data(), count, centred, kEpsilon);
      kernels.normalise(x.data(), norm, scale.data(), centred ? offset.data() : nullptr, count,
                        y.data());
      kernels.norm_backward(x.data(), dy.data(), norm, scale.data(), centred, count, dx.data());
      kernels.add_norm_gradients(x.data(), dy.data(), norm, count, of_scale.data(),
                                 centred ? of_offset.data() : nullptr);
      const auto n = static_cast<double>(count);
      double mean = 0, variance = 0, sum = 0, sum_x = 0;
      for (const float each : x) mean += centred ? each / n : 0;
      for (const float each : x) variance += (each - mean) * (each - mean) / n;
      const double inverse = 1 / std::sqrt(variance + kEpsilon);
      for (size_t i = 0; i < x.size(); ++i) {
        sum += centred ? double{dy[i]} * scale[i] / n : 0;
        sum_x += double{dy[i]} * scale[i] * (x[i] - mean) * inverse / n;
      }
      // A single centred number is 0: its norm consists of rounding errors.
      const double error = count == 1 ? 1e-4 : 3e-6;
      for (size_t i = 0; i < x.size(); ++i) {
        const double normal = (x[i] - mean) * inverse, d = double{dy[i]} * scale[i];
        ASSERT_NEAR(y[i], normal * scale[i] + (centred ? offset[i] : 0), error) << count;
        ASSERT_NEAR(dx[i], (d - sum - normal * sum_x) * inverse, error * inverse) << count;
        ASSERT_NEAR(of_scale[i], 1 + dy[i] * normal, error) << count;
        ASSERT_NEAR(of_offset[i], 2 + (centred ? dy[i] : 0), error) << count;
      }
    }
  }
}

TEST_P(Floats, AdamIsItsDefinition) {
  constexpr int64_t kCount = 101, kBegin = 3;
  for (const bool decoupled : {false, true}) {
    std::vector<float> weights = noise(kCount, 1, 21), first = noise(kCount, 0.1F, 22),
                       root = noise(kCount, 0.1F, 23), gradient = noise(kCount, 8, 24);
    for (float& each : root) each = std::abs(each);
    gradient[50] = root[50] = 0;  // without epsilon 0 would be the divisor
    const std::vector<float> old_weights = weights, old_first = first, old_root = root;
    const FloatAdam args = {.weights = weights.data(),
                            .first = first.data(),
                            .root = root.data(),
                            .gradient = gradient.data(),
                            .scale = 0.125F,
                            .decay = 0.25F,
                            .rate = 0.5F,
                            .beta1 = 0.75F,
                            .beta2 = 0.875F,
                            .first_part = 0.5F,
                            .root_part = 0.25F,
                            .epsilon = decoupled ? 0 : 1e-3F,
                            .decoupled = decoupled};
    GetParam()->adam(args, kBegin, kCount);
    for (size_t i = 0; i < weights.size(); ++i) {
      const double w = old_weights[i], g = gradient[i] * 0.125 + (decoupled ? 0 : 0.25 * w);
      const double moment = 0.75 * old_first[i] + 0.25 * g;
      const double size = std::sqrt(0.875 * old_root[i] * old_root[i] + 0.125 * g * g);
      const double divisor = size / 0.25 + args.epsilon;
      const double direction =
          (divisor > 0 ? moment / 0.5 / divisor : 0) + (decoupled ? 0.25 * w : 0);
      const bool is_left = i < kBegin;
      ASSERT_NEAR(first[i], is_left ? old_first[i] : moment, 1e-6) << i;
      ASSERT_NEAR(root[i], is_left ? old_root[i] : size, 1e-6) << i;
      ASSERT_NEAR(weights[i], is_left ? w : w - 0.5 * direction, 2e-6) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Floats,
                         testing::Values(&kFloatsReference
#if defined(__x86_64__)
                                         ,
                                         &kFloatsAvx2, &kFloatsAvx512Vnni
#endif
                                         ),
                         row_name);

}  // namespace
}  // namespace mantissa::kernels

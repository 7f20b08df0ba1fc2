// Weights in blocks: later weights make up for the errors of earlier ones, if inputs depend on each
// other; else each weight is rounded for itself. Threads change no bit.
#include "quantise/weights/block_rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "quantise/test_numbers.h"
#include "quantise/weights/block_search.h"

namespace mantissa::quantise {
namespace {

constexpr int64_t kFeatures = 256, kOutputs = 21, kInputs = 500;

// Inputs that are each the sum of a few of few causes, of different sizes.
std::vector<float> dependent_inputs(uint64_t seed) {
  constexpr size_t kCauses = 12;
  const auto causes = normal_numbers(kInputs * kCauses, seed);
  const auto shares = normal_numbers(kFeatures * kCauses, seed + 1);
  std::vector<float> inputs;
  for (size_t r = 0; r < kInputs; ++r) {
    for (size_t f = 0; f < kFeatures; ++f) {
      double sum = 0.2 * uniform_number(seed, r * kFeatures + f);
      for (size_t c = 0; c < kCauses; ++c) sum += causes[r * kCauses + c] * shares[f * kCauses + c];
      inputs.push_back(static_cast<float>(sum * (f % 7 == 3 ? 8 : 1)));
    }
  }
  return inputs;
}

std::vector<float> some_weights(uint64_t seed) {
  const auto numbers = normal_numbers(kFeatures * kOutputs, seed);
  return {numbers.begin(), numbers.end()};
}

InputFactor factor_of(const std::vector<float>& inputs, int threads = 1) {
  ThreadPool pool(threads);
  InputProducts products(kFeatures);
  // In two parts, whose sizes fit no piece.
  const std::span<const float> all(inputs);
  products.add(all.first(77 * kFeatures), pool);
  products.add(all.subspan(77 * kFeatures), pool);
  return *std::move(products).factor(pool);
}

BlockWeights rounded(const std::vector<float>& weights, const InputFactor& factor, BlockKind kind,
                     BlockMethod method, int threads = 1) {
  ThreadPool pool(threads);
  return round_to_blocks({.weights = weights, .rows = kOutputs, .kind = kind, .method = method},
                         factor, pool);
}

const BlockGrid& grid_of(const BlockWeights& weights, size_t i) {
  return weights.grids[i * weights.grids.size() / weights.steps.size()];
}

double number_of(const BlockWeights& weights, size_t i) {
  return block_number(weights.steps[i], grid_of(weights, i));
}

// The root of (squared error of outputs / squares of outputs), output by output.
double output_error(const std::vector<float>& inputs, const std::vector<float>& weights,
                    const BlockWeights& blocks) {
  double error = 0, squares = 0;
  for (size_t r = 0; r < kInputs; ++r) {
    for (size_t o = 0; o < kOutputs; ++o) {
      double output = 0, difference = 0;
      for (size_t f = 0; f < kFeatures; ++f) {
        const double input = inputs[r * kFeatures + f], weight = weights[o * kFeatures + f];
        output += input * weight;
        difference += input * (weight - number_of(blocks, o * kFeatures + f));
      }
      error += difference * difference;
      squares += output * output;
    }
  }
  return std::sqrt(error / squares);
}

TEST(InputProducts, FactorsGiveTheSumsOfTheInputs) {
  const std::vector<float> inputs = dependent_inputs(3);
  const InputFactor factor = factor_of(inputs);
  double trace = 0;
  for (size_t i = 0; i < kFeatures; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = 0, product = 0;
      for (size_t r = 0; r < kInputs; ++r) {
        sum += static_cast<double>(inputs[r * kFeatures + i]) * inputs[r * kFeatures + j];
      }
      if (i == j) trace += sum;
      const double size = std::sqrt(factor.squares[i] * factor.squares[j]);
      for (int64_t k = 0; k < kFeatures; ++k) {
        product += factor.row(static_cast<int64_t>(i))[k] * factor.row(static_cast<int64_t>(j))[k];
      }
      EXPECT_NEAR(product, sum + (i == j ? factor.damping : 0), 1e-10 * size) << i << " " << j;
      if (j < i) {
        EXPECT_EQ(factor.row(static_cast<int64_t>(i))[j], 0);
      }
    }
  }
  EXPECT_NEAR(factor.damping, 0.01 * trace / kFeatures, 1e-9 * trace);
}

TEST(InputProducts, NumbersThatAreNotFiniteAreFound) {
  ThreadPool pool(1);
  InputProducts products(32);
  std::vector<float> row(32, 1);
  row[5] = INFINITY;
  products.add(row, pool);
  EXPECT_FALSE(std::move(products).factor(pool).ok());
}

TEST(BlockRounding, LaterWeightsMakeUpForEarlierOnes) {
  for (const BlockKind kind : kBlockKinds) {
    const std::vector<float> inputs = dependent_inputs(5), weights = some_weights(6);
    const InputFactor factor = factor_of(inputs);
    const auto error = [&](BlockMethod method) {
      const BlockWeights blocks = rounded(weights, factor, kind, method);
      const double own = output_error(inputs, weights, blocks);
      EXPECT_NEAR(blocks.error, own, 1e-6 * own) << block_kind_name(kind);
      return own;
    };
    const double nearest = error(BlockMethod::kNearest),
                 squares = error(BlockMethod::kLeastSquares),
                 hessian = error(BlockMethod::kHessian);
    EXPECT_NEAR(rounded(weights, factor, kind, BlockMethod::kHessian).nearest_error, nearest,
                1e-6 * nearest);
    // With few causes behind many inputs, errors that are alike cancel.
    EXPECT_LT(hessian, 0.6 * nearest) << block_kind_name(kind);
    EXPECT_LT(hessian, 0.7 * squares) << block_kind_name(kind);
    if (kind != BlockKind::kQ8_0) {
      EXPECT_LT(squares, nearest) << block_kind_name(kind);
    }
  }
}

TEST(BlockRounding, ThreadsChangeNoBit) {
  const std::vector<float> inputs = dependent_inputs(8), weights = some_weights(9);
  const InputFactor one = factor_of(inputs), three = factor_of(inputs, 3);
  EXPECT_EQ(one.r, three.r);
  for (const BlockKind kind : kBlockKinds) {
    const BlockWeights alone = rounded(weights, one, kind, BlockMethod::kHessian);
    const BlockWeights together = rounded(weights, three, kind, BlockMethod::kHessian, 3);
    EXPECT_EQ(alone.grids, together.grids);
    EXPECT_EQ(alone.steps, together.steps);
    EXPECT_EQ(alone.error, together.error);
  }
}

TEST(BlockRounding, IndependentInputsLeaveEachWeightToItself) {
  std::vector<float> inputs(kInputs * kFeatures);
  for (size_t r = 0; r < kInputs; ++r) {
    inputs[r * kFeatures + r % kFeatures] = 1 + static_cast<float>(r % 3);
  }
  const InputFactor factor = factor_of(inputs);
  const std::vector<float> weights = some_weights(10);
  for (const BlockKind kind : kBlockKinds) {
    const BlockWeights squares = rounded(weights, factor, kind, BlockMethod::kLeastSquares);
    const BlockWeights hessian = rounded(weights, factor, kind, BlockMethod::kHessian);
    EXPECT_EQ(squares.grids, hessian.grids);
    EXPECT_EQ(squares.steps, hessian.steps);
  }
}

TEST(BlockRounding, NearestNumbersAreWithinHalfAStep) {
  const std::vector<float> weights = some_weights(11);
  const InputFactor factor = factor_of(dependent_inputs(12));
  for (const BlockKind kind : kBlockKinds) {
    const BlockSteps range = block_steps(kind);
    for (const BlockMethod method : {BlockMethod::kNearest, BlockMethod::kLeastSquares}) {
      const BlockWeights blocks = rounded(weights, factor, kind, method);
      int64_t inner = 0;
      for (size_t i = 0; i < weights.size(); ++i) {
        const int step = blocks.steps[i];
        ASSERT_TRUE(range.low <= step && step <= range.high);
        if (step == range.low || step == range.high) continue;  // may be clipped
        ++inner;
        const double half = std::abs(grid_of(blocks, i).scale) / 2;
        EXPECT_LE(std::abs(weights[i] - number_of(blocks, i)), half * (1 + 1e-12));
      }
      EXPECT_GT(inner, std::ssize(weights) / 2);
    }
  }
}

TEST(BlockRounding, ZerosStayZeros) {
  const InputFactor nothing = factor_of(std::vector<float>(kInputs * kFeatures));
  EXPECT_EQ(nothing.damping, 1);
  const std::vector<float> weights(kFeatures * kOutputs);
  for (const BlockKind kind : kBlockKinds) {
    const BlockWeights blocks = rounded(weights, nothing, kind, BlockMethod::kHessian);
    for (size_t i = 0; i < weights.size(); ++i) ASSERT_EQ(number_of(blocks, i), 0);
    EXPECT_EQ(blocks.error, 0);
  }
}

TEST(BlockSearch, FindsTheGridThatNumbersLieOn) {
  for (const double sign : {1.0, -1.0}) {
    for (const BlockKind kind : kBlockKinds) {
      if (kind == BlockKind::kQ8_0) continue;
      const BlockGrid grid = kind == BlockKind::kQ4_1 ? BlockGrid{0.0625, sign * 0.5}
                                                      : BlockGrid{sign * 0.03125, 0};
      const BlockSteps range = block_steps(kind);
      std::vector<double> numbers, ones(static_cast<size_t>(block_weights(kind)), 1.0);
      for (int i = 0; i < block_weights(kind); ++i) {
        numbers.push_back(block_number(range.low + i % (range.high - range.low + 1), grid));
      }
      const BlockGrid found = least_squares_grid(kind, numbers, ones);
      for (const double number : numbers) {
        EXPECT_EQ(block_number(nearest_step(number, found, range), found), number);
      }
    }
  }
}

TEST(BlockSearch, IsNeverWorseThanTheGridThatClipsNothing) {
  const auto numbers = normal_numbers(size_t{100} * kMostBlockWeights, 21);
  std::vector<double> weights;
  for (size_t i = 0; i < numbers.size(); ++i) weights.push_back(0.01 + uniform_number(22, i));
  for (const BlockKind kind : kBlockKinds) {
    double whole_error = 0, error = 0;
    const auto count = static_cast<size_t>(block_weights(kind));
    for (size_t at = 0; at < numbers.size(); at += count) {
      const auto own = std::span(numbers).subspan(at, count);
      const auto counts = std::span(weights).subspan(at, count);
      const auto error_of = [&](const BlockGrid& grid) {
        double sum = 0;
        for (size_t i = 0; i < own.size(); ++i) {
          const double rest =
              own[i] - block_number(nearest_step(own[i], grid, block_steps(kind)), grid);
          sum += counts[i] * rest * rest;
        }
        return sum;
      };
      const double whole = error_of(whole_grid(kind, own));
      const double found = error_of(least_squares_grid(kind, own, counts));
      EXPECT_LE(found, whole);
      whole_error += whole;
      error += found;
    }
    const double most = kind == BlockKind::kQ8_0 ? 1 : kind == BlockKind::kQ4_1 ? 0.95 : 0.88;
    EXPECT_LE(error, most * whole_error) << block_kind_name(kind);
  }
}

}  // namespace
}  // namespace mantissa::quantise

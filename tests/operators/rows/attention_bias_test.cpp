// The bias of attention's scores by distance: nothing changes with a bias of zeros; results and the
// gradient of the bias against their definition in double; rows with exponents of their own; and
// training moves it. The kernels' bits are in kernels/attention/attention_test.cpp.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness.h"
#include "tests/networks.h"
#include "tests/operators/single_op.h"

namespace mantissa::testing {
namespace {

constexpr int64_t kPositions = 12, kChannels = 8, kHeads = 2, kHeadChannels = kChannels / kHeads;
const std::vector<Shape> kShapes(3, Shape{kPositions, kChannels});
constexpr int kExponent = -5;

struct Form {
  int64_t height, width;
  int64_t table() const { return (2 * height - 1) * (2 * width - 1); }
  int64_t at(int64_t query, int64_t key) const {
    return (query / width - key / width + height - 1) * (2 * width - 1) + query % width -
           key % width + width - 1;
  }
};
constexpr Form kForms[] = {{1, 16}, {3, 4}};

std::vector<Mantissas> operands(int bits) {
  std::vector<Mantissas> all;
  for (uint64_t i = 0; i < 3; ++i) {
    all.push_back(some_mantissas(2 * kPositions * kChannels, bits, kExponent - bits + 8, 3 + i));
  }
  return all;
}

TEST(AttentionBias, OfZerosChangesNothing) {
  const std::vector<Mantissas> inputs = operands(8);
  const Mantissas grad = some_mantissas(2 * kPositions * kChannels, 16, -12, 9);
  for (const bool causal : {false, true}) {
    SingleOp plain(ops::kAttention, {{"heads", kHeads}, {"causal", causal}}, kShapes, 2);
    for (const Form& form : kForms) {
      SingleOp biased(ops::kAttention,
                      {{"heads", kHeads},
                       {"causal", causal},
                       {"bias_height", form.height},
                       {"bias_width", form.width}},
                      kShapes, 2);
      ASSERT_EQ(biased.parameter_shapes(), (std::vector<Shape>{{kHeads, form.table()}}));
      biased.set_parameters({{std::vector<int>(kHeads * form.table()), -15, 16}});
      EXPECT_EQ(biased.forward(inputs), plain.forward(inputs));
      EXPECT_EQ(biased.backward(inputs, grad, 16), plain.backward(inputs, grad, 16));
    }
  }
}

// Attention of the two sequences in double.
struct Definition {
  std::vector<double> out, grad_bias;

  Definition(const Form& form, const std::vector<Mantissas>& in, const Mantissas& bias,
             const Mantissas& grad)
      : out(grad.values.size()), grad_bias(bias.values.size()) {
    const auto number = [](const Mantissas& from, int64_t i) {
      return std::ldexp(from.values[i],
                        from.rows.empty() ? from.exponent : from.rows[i / kChannels]);
    };
    for (int64_t n = 0; n < 2 * kHeads; ++n) {
      const int64_t head = n % kHeads, offset = n / kHeads * kPositions * kChannels;
      const auto place = [&](int64_t row) {
        return offset + row * kChannels + head * kHeadChannels;
      };
      const auto dot = [&](const Mantissas& a, int64_t i, const Mantissas& b, int64_t j) {
        double sum = 0;
        for (int64_t c = 0; c < kHeadChannels; ++c) {
          sum += number(a, place(i) + c) * number(b, place(j) + c);
        }
        return sum;
      };
      for (int64_t i = 0; i < kPositions; ++i) {
        std::vector<double> p, dp;
        double sum = 0, mean = 0;
        for (int64_t j = 0; j < kPositions; ++j) {
          const double biased = dot(in[0], i, in[1], j) / std::sqrt(kHeadChannels) +
                                number(bias, head * form.table() + form.at(i, j));
          p.push_back(std::exp(biased));
          dp.push_back(dot(grad, i, in[2], j));
          sum += p[j];
        }
        for (int64_t j = 0; j < kPositions; ++j) mean += (p[j] /= sum) * dp[j];
        for (int64_t j = 0; j < kPositions; ++j) {
          grad_bias[head * form.table() + form.at(i, j)] += p[j] * (dp[j] - mean);
          for (int64_t c = 0; c < kHeadChannels; ++c) {
            out[place(i) + c] += p[j] * number(in[2], place(j) + c);
          }
        }
      }
    }
  }
};

double largest_of(const std::vector<double>& numbers) {
  double most = 0;
  for (const double number : numbers) most = std::max(most, std::abs(number));
  return most;
}

TEST(AttentionBias, ResultsAndGradientsAreTheirDefinition) {
  for (const Form& form : kForms) {
    for (const int bits : {8, 16}) {
      for (const int grad_bits : {8, 16, 32}) {
        SCOPED_TRACE(::testing::Message() << form.height << " " << bits << " " << grad_bits);
        const std::vector<Mantissas> inputs = operands(bits);
        const Mantissas grad = some_mantissas(2 * kPositions * kChannels, grad_bits, -9, 9),
                        bias = some_mantissas(kHeads * form.table(), 16, -14, 10);
        SingleOp op(ops::kAttention,
                    {{"heads", kHeads}, {"bias_height", form.height}, {"bias_width", form.width}},
                    kShapes, 2, 2);
        op.set_parameters({bias});
        const Definition wanted(form, inputs, bias, grad);
        const Mantissas out = op.forward(inputs, ExponentMode::kExact, 0, 16);
        const double most = largest_of(wanted.out);
        for (size_t i = 0; i < wanted.out.size(); ++i) {
          // P has 7 bits after the point.
          ASSERT_NEAR(std::ldexp(out.values[i], out.exponent), wanted.out[i], 0.02 * most) << i;
        }
        const int exponent = grad.exponent - 8;
        const auto sums = op.backward_weights(inputs, grad, exponent);
        const double steepest = largest_of(wanted.grad_bias);
        for (size_t i = 0; i < wanted.grad_bias.size(); ++i) {
          ASSERT_NEAR(std::ldexp(static_cast<double>(sums[0][i]), exponent), wanted.grad_bias[i],
                      0.06 * steepest)
              << i;
        }
      }
    }
  }
}

// Sequences whose rows, and so whose gradients of scores, have other exponents.
TEST(AttentionBias, GradientsOfRowsWithExponentsOfTheirOwn) {
  for (const Form& form : kForms) {
    std::vector<Mantissas> inputs = operands(8);
    for (Mantissas& input : inputs) {
      for (int row = 0; row < 2 * kPositions; ++row) {
        input.rows.push_back(input.exponent - row % 3 - (row < kPositions ? 2 : 0));
      }
    }
    const Mantissas grad = some_mantissas(2 * kPositions * kChannels, 16, -9, 9),
                    bias = some_mantissas(kHeads * form.table(), 16, -14, 10);
    SingleOp op(ops::kAttention,
                {{"heads", kHeads}, {"bias_height", form.height}, {"bias_width", form.width}},
                kShapes, 2, 2);
    op.set_parameters({bias});
    const std::vector<double> wanted = Definition(form, inputs, bias, grad).grad_bias;
    const auto sums = op.backward_weights(inputs, grad, -17);
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_NEAR(std::ldexp(static_cast<double>(sums[0][i]), -17), wanted[i],
                  0.06 * largest_of(wanted))
          << i;
    }
  }
}

TEST(AttentionBias, IsTrained) {
  for (const char* format : {"bfp8", "bfp:g=8", "dfp8"}) {
    HarnessOptions options{.format = format, .batch_size = 8, .micro_batch_size = 4};
    options.isa = Isa::kScalar;
    Harness scalar(options, with_biased_attention());
    scalar.train(3);
    options.isa = best_isa();
    options.threads = 3;
    Harness fast(options, with_biased_attention());
    fast.train(3);
    EXPECT_EQ(fast.weights_sha256(), scalar.weights_sha256()) << format;
    int biases = 0;
    const Graph& graph = fast.graph();
    for (size_t p = 0; p < graph.parameters.size(); ++p) {
      const std::string& name = graph.parameters[p].name;
      if (name != "picture.bias" && name != "sequence2.bias") continue;
      ++biases;
      const auto bytes = fast.state().bytes(fast.state().layout().parameters[p].mantissa);
      EXPECT_TRUE(std::ranges::any_of(bytes, [](std::byte b) { return b != std::byte{}; }));
    }
    EXPECT_EQ(biases, 2);
  }
}

std::string refusal(const Attributes& attributes, std::vector<Shape> shapes = kShapes) {
  const auto shape = output_shape(ops::kAttention, attributes, shapes);
  return shape.ok() ? "" : shape.error().message;
}

TEST(AttentionBias, RefusesOtherNumbersOfPositions) {
  EXPECT_NE(refusal({{"bias_width", 11}}).find("has biases for 11 positions, and 12 of them"),
            std::string::npos);
  EXPECT_NE(refusal({{"bias_height", 3}, {"bias_width", 3}}).find("3 x 3 positions, and 12"),
            std::string::npos);
  EXPECT_NE(refusal({{"bias_height", 3}}).find("wants a bias_width"), std::string::npos);
  EXPECT_NE(refusal({{"cross", 1}, {"bias_width", 12}}).find("within one sequence"),
            std::string::npos);
  EXPECT_EQ(refusal({{"bias_height", 3}, {"bias_width", 4}}), "");
}

}  // namespace
}  // namespace mantissa::testing

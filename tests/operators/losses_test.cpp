// Losses of all forms, in integers and fp32, against their definitions in double and against
// PyTorch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "numerics/rounding.h"
#include "tests/operators/loss_rows.h"

namespace mantissa::testing {
namespace {

constexpr double kLossTolerance = 2e-4;

// Logits between -8 and 8 with a zero among them.
LossRows some_rows(int64_t rows, int64_t outputs) {
  LossRows made{.rows = rows, .outputs = outputs};
  uint64_t state = 5;
  for (int64_t i = 0; i < rows * outputs; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    made.logits.push_back(i == 4 ? 0 : static_cast<int32_t>(state >> 48) - 32768);
  }
  return made;
}

LossRows with_weights(LossRows rows) {
  for (int64_t row = 0; row < rows.rows; ++row) {
    rows.weights.push_back(static_cast<int16_t>(row % 4 == 1 ? 0 : row % 5 * 700));
  }
  return rows;
}

void expect_same(const LossFound& a, const LossFound& b) {
  EXPECT_EQ(a.totals.loss_q24, b.totals.loss_q24);
  EXPECT_EQ(a.totals.correct, b.totals.correct);
  EXPECT_EQ(a.totals.weight_q10, b.totals.weight_q10);
  EXPECT_EQ(a.gradient, b.gradient);
}

// In integers on several threads and instruction sets, with and without weights of rows, and in
// fp32.
void expect_everywhere(const Op& op, const Attributes& attributes, const LossRows& rows,
                       const LossDefinition& definition) {
  for (const LossRows& each : {rows, with_weights(rows)}) {
    const LossFound integers = each.run(op, attributes);
    expect_definition(each, integers, definition, kLossTolerance);
    expect_same(integers, each.run(op, attributes, false, 3));
    expect_same(integers, each.run(op, attributes, false, 1, Isa::kScalar));
    const LossFound floats = each.run(op, attributes, true);
    expect_definition(each, floats, definition, 1e-5);
    EXPECT_EQ(floats.totals.correct, integers.totals.correct);
    EXPECT_EQ(floats.totals.weight_q10, integers.totals.weight_q10);
  }
}

double log_sigmoid(double z) { return std::min(z, 0.0) - std::log1p(std::exp(-std::abs(z))); }

struct SigmoidForm {
  double smoothing = 0, focal = 0;
  std::vector<int64_t> weights = {};
  bool ordinal = false;
};

Attributes sigmoid_attributes(const SigmoidForm& form) {
  return {{"smoothing", form.smoothing},
          {"focal", form.focal},
          {"positive_weights", form.weights},
          {"ordinal", int64_t{form.ordinal}}};
}

LossDefinition sigmoid_definition(const SigmoidForm& form, const LossRows& rows) {
  return [form, &rows](int64_t row, const std::vector<double>& logits) {
    double lost = 0;
    for (size_t k = 0; k < logits.size(); ++k) {
      const bool by_output = std::ssize(rows.labels) == rows.rows * rows.outputs;
      const int32_t label = rows.labels[by_output ? row * rows.outputs + static_cast<int64_t>(k)
                                                  : row];
      if (label < 0) continue;
      double target = by_output || rows.outputs == 1 ? label : label == static_cast<int64_t>(k);
      if (form.ordinal) target = label > static_cast<int64_t>(k) ? 1 : 0;
      target = target * (1 - form.smoothing) + form.smoothing / 2;
      const double weight = form.weights.empty()
                                ? 1
                                : form.weights[form.weights.size() == 1 ? 0 : k] / 1024.0;
      const double z = logits[k];
      lost -= target * weight * std::pow(std::exp(log_sigmoid(-z)), form.focal) * log_sigmoid(z) +
              (1 - target) * std::pow(std::exp(log_sigmoid(z)), form.focal) * log_sigmoid(-z);
    }
    return lost;
  };
}

TEST(LossForms, SigmoidsAreTheirDefinition) {
  const std::vector<SigmoidForm> forms = {{},
                                          {.smoothing = 0.125},
                                          {.focal = 2},
                                          {.focal = 0.5},
                                          {.focal = 5},
                                          {.weights = {3 * 1024}},
                                          {.smoothing = 0.25, .focal = 1.5, .weights = {512}}};
  for (const int64_t outputs : {1, 5}) {
    for (const bool by_output : {false, true}) {
      LossRows rows = some_rows(37, outputs);
      const int64_t values = by_output || outputs == 1 ? 2 : outputs;
      for (int64_t i = 0; i < 37 * (by_output ? outputs : 1); ++i) {
        rows.labels.push_back(i % 7 == 3 ? -1 : static_cast<int32_t>(i * 3 % values));
      }
      for (SigmoidForm form : forms) {
        SCOPED_TRACE(::testing::Message() << outputs << " outputs, smoothing " << form.smoothing
                                          << ", focal " << form.focal);
        expect_everywhere(ops::kSigmoidCrossEntropy, sigmoid_attributes(form), rows,
                          sigmoid_definition(form, rows));
      }
    }
  }
}

TEST(LossForms, PositivesHaveAWeightForEachOutput) {
  LossRows rows = some_rows(20, 3);
  for (int64_t i = 0; i < 60; ++i) rows.labels.push_back(static_cast<int32_t>(i * i % 2));
  const SigmoidForm form = {.weights = {0, 1024, 20000}};
  expect_everywhere(ops::kSigmoidCrossEntropy, sigmoid_attributes(form), rows,
                    sigmoid_definition(form, rows));
}

TEST(LossForms, RanksAreCumulative) {
  LossRows rows = some_rows(25, 4);
  for (int64_t i = 0; i < 25; ++i) rows.labels.push_back(static_cast<int32_t>(i % 6) - 1);
  const SigmoidForm form = {.ordinal = true};
  expect_everywhere(ops::kSigmoidCrossEntropy, sigmoid_attributes(form), rows,
                    sigmoid_definition(form, rows));
}

// A factor among several losses multiplies the gradient, not the loss that is counted: by a power
// of two exactly, else as weights of rows do.
TEST(LossForms, AFactorMultipliesTheGradientAlone) {
  LossRows classes = some_rows(40, 6), numbers = some_rows(40, 6);
  for (int64_t i = 0; i < 40; ++i) classes.labels.push_back(static_cast<int32_t>(i % 7) - 1);
  for (int64_t i = 0; i < 240; ++i) {
    numbers.targets.push_back(static_cast<int16_t>(i * 131 % 4096));
  }
  const Attributes plain, focal{{"focal", 2.0}}, huber{{"penalty", "huber"}};
  const std::tuple<const Op*, const LossRows*, const Attributes*> forms[] = {
      {&ops::kSoftmaxCrossEntropy, &classes, &plain}, {&ops::kMeanSquaredError, &classes, &plain},
      {&ops::kSigmoidCrossEntropy, &classes, &plain}, {&ops::kSigmoidCrossEntropy, &classes, &focal},
      {&ops::kRegressionError, &numbers, &plain},     {&ops::kRegressionError, &numbers, &huber}};
  for (const auto& [op, rows, attributes] : forms) {
    for (const bool floats : {false, true}) {
      const LossFound whole = rows->run(*op, *attributes, floats);
      for (const double factor : {1.0 / 1024, 0.5, 4.0, 307.0 / 1024, 3.0}) {
        SCOPED_TRACE(::testing::Message() << op->name << " " << factor);
        std::vector<AttributeItem> items = attributes->items();
        items.emplace_back("loss_weight", factor);
        const LossFound found = rows->run(*op, Attributes(items), floats);
        EXPECT_EQ(found.totals.loss_q24, whole.totals.loss_q24);
        EXPECT_EQ(found.totals.weight_q10, whole.totals.weight_q10);
        LossRows weighed = *rows;
        weighed.weights.assign(40, static_cast<int16_t>(factor * 1024));
        const LossFound by_rows = weighed.run(*op, *attributes, floats);
        for (size_t i = 0; i < found.gradient.size(); ++i) {
          EXPECT_EQ(found.gradient[i], by_rows.gradient[i]) << i;
          if (std::exp2(std::round(std::log2(factor))) != factor) continue;
          EXPECT_EQ(found.gradient[i], factor * whole.gradient[i]) << i;
        }
        expect_same(found, rows->run(*op, Attributes(items), floats, 3));
      }
    }
  }
}

// Weights of rows times a factor are rounded to nearest in 15 bits, of which the factor decides the
// unit: the largest products of both, 1023, are not clipped, small ones keep their bits.
TEST(LossForms, AFactorAndWeightsOfRowsAreMultiplied) {
  LossRows rows = with_weights(some_rows(40, 6));
  for (int64_t i = 0; i < 40; ++i) rows.labels.push_back(static_cast<int32_t>(i % 7) - 1);
  rows.weights[2] = 32767;
  rows.weights[3] = 1024;
  struct Factor {
    int64_t units;  // of 1/1024
    int bits;       // of their number
  };
  for (const auto& [units, bits] : {Factor{3, 2}, {307, 9}, {1229, 11}, {20787, 15}, {32767, 15}}) {
    SCOPED_TRACE(units);
    const double factor = static_cast<double>(units) / 1024;
    LossRows products = rows;
    for (int16_t& weight : products.weights) {
      weight = static_cast<int16_t>(shift_right_rne(weight * units, bits));
    }
    const LossFound found = rows.run(ops::kSoftmaxCrossEntropy, {{"loss_weight", factor}});
    std::vector<double> wanted = products.run(ops::kSoftmaxCrossEntropy, {}).gradient;
    for (double& each : wanted) each = std::ldexp(each, bits - 10);
    EXPECT_EQ(found.gradient, wanted);
    const LossFound floats = rows.run(ops::kSoftmaxCrossEntropy, {{"loss_weight", factor}}, true);
    const LossFound plain = rows.run(ops::kSoftmaxCrossEntropy, {}, true);
    const double largest = std::abs(
        *std::ranges::max_element(floats.gradient, {}, [](double each) { return std::abs(each); }));
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_NEAR(floats.gradient[i], factor * plain.gradient[i], largest * 1e-6) << i;
      EXPECT_NEAR(found.gradient[i], floats.gradient[i], largest * 2e-3) << i;
    }
  }
}

// The loops compute what the kernels compute, where both can.
TEST(LossForms, LoopsHaveTheBitsOfTheKernels) {
  for (const int exponent : {-27, -12, 0, 3}) {
    LossRows rows = with_weights(some_rows(40, 6));
    rows.exponent = exponent;
    for (int64_t i = 0; i < 40; ++i) rows.labels.push_back(static_cast<int32_t>(i % 6));
    const LossFound kernel = rows.run(ops::kSigmoidCrossEntropy, {});
    expect_same(kernel, rows.run(ops::kSigmoidCrossEntropy,
                                 {{"positive_weights", std::vector<int64_t>{1024}}}));
  }
}

TEST(LossForms, ExtremeLogitsAreFinite) {
  LossRows rows{.rows = 2, .outputs = 3, .logits = {INT32_MIN, INT32_MAX, 0, INT32_MAX, INT32_MIN, 1}};
  rows.labels = {0, 1, 0, 0, 1, 1};
  for (const int exponent : {-31, -8, 20}) {
    rows.exponent = exponent;
    for (const double focal : {0.0, 2.0, 5.0}) {
      const LossFound found = rows.run(
          ops::kSigmoidCrossEntropy, {{"focal", focal}, {"positive_weights", WholeList{32767}}});
      EXPECT_GT(found.totals.loss_q24, 0);
      if (exponent < -8) continue;
      EXPECT_NEAR(found.gradient[0], 0, 1e-6);
      EXPECT_NEAR(found.gradient[3], 1, 1e-3);
      EXPECT_NEAR(found.gradient[4], -32767 / 1024.0, 2e-3);
    }
  }
}

// Targets of 16 bits between -32 and 32.
LossRows some_numbers(int64_t rows, int64_t outputs) {
  LossRows made = some_rows(rows, outputs);
  for (int64_t i = 0; i < rows * outputs; ++i) {
    made.targets.push_back(static_cast<int16_t>((i * 7919) % 12000 - 6000));
  }
  return made;
}

TEST(LossForms, PenaltiesAreTheirDefinition) {
  for (const int64_t outputs : {1, 3, 7}) {
    const LossRows rows = some_numbers(19, outputs);
    const auto mean = [&rows](const auto& penalty) {
      return [&rows, penalty](int64_t row, const std::vector<double>& results) {
        double sum = 0;
        for (size_t k = 0; k < results.size(); ++k) {
          const int64_t at = row * rows.outputs + static_cast<int64_t>(k);
          sum += penalty(results[k] - rows.target(at));
        }
        return sum / static_cast<double>(results.size());
      };
    };
    expect_everywhere(ops::kRegressionError, {}, rows, mean([](double d) { return d * d; }));
    expect_everywhere(ops::kRegressionError, {{"penalty", "absolute"}}, rows,
                      mean([](double d) { return std::abs(d); }));
    for (const double delta : {0.25, 1.0, 3.5}) {
      expect_everywhere(ops::kRegressionError, {{"penalty", "huber"}, {"delta", delta}}, rows,
                        mean([delta](double d) {
                          const double size = std::abs(d);
                          return size <= delta ? d * d / 2 : delta * (size - delta / 2);
                        }));
    }
  }
}

TEST(LossForms, AnErrorOfZeroHasNoSlope) {
  LossRows rows{.rows = 1, .outputs = 2, .logits = {1024, -2048}, .exponent = -10};
  rows.targets = {1024, -2048};
  for (const char* penalty : {"absolute", "huber"}) {
    for (const bool floats : {false, true}) {
      const LossFound found = rows.run(ops::kRegressionError, {{"penalty", penalty}}, floats);
      EXPECT_EQ(found.totals.loss_q24, 0);
      EXPECT_EQ(found.gradient, (std::vector<double>{0, 0}));
    }
  }
}

// Shares of classes, in some rows not all of one.
LossRows some_shares(int64_t rows, int64_t classes) {
  LossRows made = some_rows(rows, classes);
  made.target_exponent = kShareExponent;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < classes; ++k) {
      const int64_t share = (row * 3 + k * k) % 5 * 16384 / (2 * classes);
      made.targets.push_back(static_cast<int16_t>(row % 6 == 5 ? (k == row % classes) * 16384
                                                               : share));
    }
  }
  return made;
}

double log_softmax(const std::vector<double>& logits, size_t k, double temperature) {
  double sum = 0;
  const double largest = *std::max_element(logits.begin(), logits.end());
  for (const double z : logits) sum += std::exp((z - largest) / temperature);
  return (logits[k] - largest) / temperature - std::log(sum);
}

double soft_loss(const LossRows& rows, int64_t row, const std::vector<double>& logits,
                 double temperature) {
  double lost = 0;
  for (size_t k = 0; k < logits.size(); ++k) {
    lost -= rows.target(row * rows.outputs + static_cast<int64_t>(k)) *
            log_softmax(logits, k, temperature);
  }
  return lost;
}

TEST(LossForms, DistributionsAreTheirDefinition) {
  for (const int64_t classes : {2, 6, 70}) {
    const LossRows rows = some_shares(30, classes);
    expect_everywhere(ops::kSoftCrossEntropy, {}, rows,
                      [&](int64_t row, const std::vector<double>& logits) {
                        return soft_loss(rows, row, logits, 1);
                      });
  }
}

TEST(LossForms, DistillationIsItsDefinition) {
  for (const double temperature : {1.0, 2.5, 8.0}) {
    for (const double teacher : {0.0, 0.3, 1.0}) {
      LossRows rows = some_shares(30, 6);
      for (int64_t row = 0; row < 30; ++row) {
        rows.labels.push_back(row % 9 == 2 ? -1 : static_cast<int32_t>(row * 5 % 6));
      }
      const LossDefinition definition = [&](int64_t row, const std::vector<double>& logits) {
        if (rows.labels[row] < 0) return 0.0;
        return -(1 - teacher) * log_softmax(logits, static_cast<size_t>(rows.labels[row]), 1) +
               teacher * temperature * temperature * soft_loss(rows, row, logits, temperature);
      };
      SCOPED_TRACE(::testing::Message() << temperature << " " << teacher);
      const Attributes attributes = {{"temperature", temperature}, {"teacher_weight", teacher}};
      const LossFound integers = rows.run(ops::kDistilledCrossEntropy, attributes);
      const double scale = std::max(1.0, teacher * temperature * temperature);
      expect_definition(rows, integers, definition, kLossTolerance * scale);
      expect_same(integers, rows.run(ops::kDistilledCrossEntropy, attributes, false, 3));
      expect_definition(rows, rows.run(ops::kDistilledCrossEntropy, attributes, true), definition,
                        1e-5 * scale);
    }
  }
}

// Rows that have exponents of their own.
TEST(LossForms, EachRowHasItsExponent) {
  LossRows rows = some_rows(12, 4);
  for (int64_t row = 0; row < 12; ++row) {
    rows.row_exponents.push_back(static_cast<int16_t>(-12 - row % 3));
    rows.labels.push_back(static_cast<int32_t>(row % 4));
  }
  const SigmoidForm form = {.focal = 2};
  expect_definition(rows, rows.run(ops::kSigmoidCrossEntropy, sigmoid_attributes(form)),
                    sigmoid_definition(form, rows), kLossTolerance);
  LossRows shares = some_shares(12, 4);
  shares.row_exponents = rows.row_exponents;
  expect_definition(shares, shares.run(ops::kSoftCrossEntropy, {}),
                    [&](int64_t row, const std::vector<double>& logits) {
                      return soft_loss(shares, row, logits, 1);
                    },
                    kLossTolerance);
}

struct PyTorchLoss {
  const Op* op;
  Attributes attributes;
  double loss;
  std::vector<double> gradient;
};

// What a macro takes in brackets, because it has commas.
#define MANTISSA_UNWRAP(...) __VA_ARGS__
#define PYTORCH_LOSS(op, attributes, loss, gradient) \
  {&ops::op, Attributes MANTISSA_UNWRAP attributes, loss, MANTISSA_UNWRAP gradient},

// The operands of tests/make_losses.py: multiples of 1/16384.
TEST(LossForms, AgreeWithPyTorch) {
  const std::vector<PyTorchLoss> losses = {
#include "tests/operators/pytorch_losses.inc"
  };
  const std::vector<double> logits = {1.5, -2.25, 0.5, -0.75, 3, 4.125, 0, -6.5, 2};
  const std::vector<double> numbers = {1, -2, 3.5, -0.5, 3, 1.125, 0.25, -4.5, 0};
  const std::vector<double> shares = {0.25, 0.25, 0.5, 0, 1, 0, 0.625, 0.125, 0.25};
  for (const PyTorchLoss& each : losses) {
    LossRows rows{.rows = 3, .outputs = 3};
    for (const double logit : logits) rows.logits.push_back(std::lrint(logit * 4096));
    const bool has_numbers = each.op == &ops::kRegressionError;
    const bool has_bits = each.op == &ops::kSigmoidCrossEntropy;
    if (has_bits) rows.labels = {1, 0, 1, 0, 0, 1, 1, 1, 0};
    if (each.op == &ops::kDistilledCrossEntropy) rows.labels = {2, 0, 1};
    if (!has_numbers && !has_bits) rows.target_exponent = kShareExponent;
    for (const double target : has_numbers ? numbers : shares) {
      if (has_bits) break;
      rows.targets.push_back(
          static_cast<int16_t>(std::lrint(std::ldexp(target, -rows.target_exponent))));
    }
    for (const bool floats : {false, true}) {
      const LossFound found = rows.run(*each.op, each.attributes, floats);
      const double tolerance = floats ? 1e-5 : 1e-3;
      EXPECT_NEAR(found.loss, each.loss, tolerance * std::max(1.0, each.loss)) << each.op->name;
      for (size_t i = 0; i < 9; ++i) {
        EXPECT_NEAR(found.gradient[i], each.gradient[i], tolerance) << each.op->name << " " << i;
      }
    }
  }
}

std::string loss_refusal(const Op& op, const Attributes& attributes, std::vector<Shape> inputs) {
  const auto completed = complete(attributes, op.attributes);
  if (!completed.ok()) return completed.error().message;
  const auto outputs = op.infer_outputs(*completed, inputs);
  return outputs.ok() ? "" : outputs.error().message;
}

TEST(LossForms, RefuseWhatDoesNotFit) {
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(loss_refusal(ops::kSigmoidCrossEntropy, {{"positive_weights", WholeList{1, 2}}}, {{3}, {3}}),
      "2 of them and 3 outputs");
  has(loss_refusal(ops::kSigmoidCrossEntropy, {{"ordinal", int64_t{1}}}, {{3}, {3}}),
      "one label for each row");
  has(loss_refusal(ops::kSigmoidCrossEntropy, {{"focal", 5.5}}, {{3}, {3}}), "focal");
  has(loss_refusal(ops::kRegressionError, {{"penalty", "cubic"}}, {{3}, {3}}), "penalty");
  has(loss_refusal(ops::kSoftCrossEntropy, {}, {{3}, Shape{}}), "as many targets");
  has(loss_refusal(ops::kDistilledCrossEntropy, {}, {{3}, {3}}), "a label for each row");
  has(loss_refusal(ops::kDistilledCrossEntropy, {{"temperature", 0.5}}, {{3}, Shape{}, {3}}),
      "temperature");
}

}  // namespace
}  // namespace mantissa::testing

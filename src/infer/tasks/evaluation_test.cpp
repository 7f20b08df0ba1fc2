#include "infer/tasks/evaluation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/random.h"
#include "numerics/exponential.h"

namespace mantissa {
namespace {

// Logits of `rows` examples as an executor would leave them, exponent -4.
struct LogitBatch {
  std::vector<int32_t> logits;
  std::vector<int32_t> labels;
  int16_t exponent = -4;
  int64_t classes;

  LogitBatch(int64_t rows, uint64_t seed, int64_t class_count = 12) : classes(class_count) {
    for (int64_t i = 0; i < rows * classes; ++i) {
      logits.push_back(static_cast<int32_t>(
          random_bits(seed, RandomStream::kShuffle, 0, static_cast<uint64_t>(i)) % 65));
    }
    for (int64_t i = 0; i < rows; ++i) {
      labels.push_back(static_cast<int32_t>(
          random_bits(seed, RandomStream::kShuffle, 1, static_cast<uint64_t>(i)) %
          static_cast<uint64_t>(
              std::min<int64_t>(256, classes - 1))));  // the last class never occurs
    }
  }

  Tensor rows(int64_t first, int64_t count) {
    Tensor tensor;
    tensor.data = logits.data() + first * classes;
    tensor.type = DataType::kInt32;
    tensor.shape = Shape{count, classes};
    tensor.exponent = &exponent;
    return tensor;
  }

  double probability(int64_t row, int64_t label) const {
    double sum = 0;
    const auto e = [&](int64_t c) { return std::exp(logits[row * classes + c] / 16.0); };
    for (int64_t c = 0; c < classes; ++c) sum += e(c);
    return e(label) / sum;
  }
};

ClassificationEvaluation evaluated(LogitBatch& batch, int64_t size) {
  ClassificationEvaluation evaluation(batch.classes);
  const auto rows = static_cast<int64_t>(batch.labels.size());
  for (int64_t at = 0; at < rows; at += size) {
    const Tensor logits = batch.rows(at, std::min(size, rows - at));
    const int32_t* labels = batch.labels.data() + at;
    std::vector<uint32_t> numbers(static_cast<size_t>(logits.shape[0]));
    std::iota(numbers.begin(), numbers.end(), static_cast<uint32_t>(at));
    const int64_t loss_q24 =
        kernels::kSoftmaxReference
            .loss({logits.as<int32_t>(), labels, batch.exponent, batch.classes}, 0, logits.shape[0])
            .loss_q24;
    evaluation.add(logits, labels, numbers, loss_q24, kernels::kSoftmaxReference);
  }
  evaluation.loss = nats_from_q24(evaluation.loss_q24) / static_cast<double>(rows);
  return evaluation;
}

TEST(Evaluation, AgreesWithItsDefinitions) {
  LogitBatch batch(200, 1);
  const ClassificationEvaluation evaluation = evaluated(batch, 64);
  int64_t correct = 0, in_5 = 0, counted = 0;
  double loss = 0;
  for (int64_t row = 0; row < 200; ++row) {
    std::vector<std::pair<int32_t, int64_t>> order;
    for (int64_t c = 0; c < batch.classes; ++c) {
      order.emplace_back(-batch.logits[row * batch.classes + c], c);
    }
    std::sort(order.begin(), order.end());
    correct += order[0].second == batch.labels[row];
    for (int k = 0; k < 5; ++k) in_5 += order[k].second == batch.labels[row];
    loss -= std::log(batch.probability(row, batch.labels[row]));
  }
  for (const auto& row : evaluation.confusion) {
    for (const int64_t count : row) counted += count;
  }
  EXPECT_EQ(evaluation.examples, 200);
  EXPECT_EQ(counted, 200);
  EXPECT_EQ(evaluation.correct, correct);
  EXPECT_EQ(evaluation.correct_in_5, in_5);
  EXPECT_NEAR(evaluation.loss, loss / 200, 1e-5);
  ASSERT_TRUE(evaluation.top5_accuracy());
  EXPECT_FALSE(ClassificationEvaluation(9).top5_accuracy());
}

// Two examples of five pixels each. The numbers are scikit-learn's:
// jaccard_score(labels, guesses, average="macro") and average=None.
TEST(Evaluation, OfPixelsHasTheMeanIntersectionOverUnion) {
  const std::vector<int32_t> labels = {0, 0, 1, 1, 1, 2, 2, 0, 4, 4};
  const std::vector<int> guesses = {0, 1, 1, 1, 2, 2, 2, 0, 0, 4};
  std::vector<int32_t> logits(10 * 5, 0);
  for (size_t i = 0; i < guesses.size(); ++i) logits[5 * i + static_cast<size_t>(guesses[i])] = 9;
  int16_t exponent = 0;
  Tensor tensor;
  tensor.data = logits.data();
  tensor.type = DataType::kInt32;
  tensor.shape = Shape{2, 5, 1, 5};
  tensor.exponent = &exponent;
  ClassificationEvaluation evaluation(5);
  const std::vector<uint32_t> numbers = {0, 1};
  evaluation.add(tensor, labels.data(), numbers, 0, kernels::kSoftmaxReference);
  EXPECT_TRUE(evaluation.of_places);
  EXPECT_EQ(evaluation.examples, 10);
  EXPECT_EQ(evaluation.correct, 7);
  EXPECT_TRUE(evaluation.worst.empty());
  EXPECT_NEAR(evaluation.mean_iou(), 0.5416666666666666, 1e-9);
  const double expected[] = {0.5, 0.5, 0.66666666666666663, 0, 0.5};
  for (size_t c = 0; c < 5; ++c) {
    const double iou = iou_of(evaluation.classes[c]);
    EXPECT_EQ(std::isnan(iou), c == 3);
    EXPECT_NEAR(c == 3 ? 0 : iou, expected[c], 1e-9) << c;
  }
  const std::string json = to_json(evaluation, "data", {"0", "1", "2", "3", "4"}, "hash");
  EXPECT_NEAR(nlohmann::json::parse(json)["mean_iou"].get<double>(), 0.5416666666666666, 1e-9);
}

TEST(Evaluation, LeavesOutPixelsWithoutALabel) {
  const std::vector<int32_t> labels = {0, -1, 1, -1};
  std::vector<int32_t> logits = {5, 0, 0, 5, 5, 0, 5, 0};
  int16_t exponent = 0;
  Tensor tensor;
  tensor.data = logits.data();
  tensor.type = DataType::kInt32;
  tensor.shape = Shape{1, 4, 2};
  tensor.exponent = &exponent;
  ClassificationEvaluation evaluation(2);
  const std::vector<uint32_t> numbers = {0};
  evaluation.add(tensor, labels.data(), numbers, 0, kernels::kSoftmaxReference);
  EXPECT_EQ(evaluation.examples, 2);
  EXPECT_EQ(evaluation.correct, 1);
  EXPECT_EQ(evaluation.classes[0].guesses, 2);
  EXPECT_EQ(evaluation.classes[1].examples, 1);
  EXPECT_NEAR(evaluation.mean_iou(), 0.25, 1e-9);
}

TEST(Evaluation, KeepsTheWorstInOrderWhateverTheBatch) {
  LogitBatch batch(300, 2);
  const ClassificationEvaluation evaluation = evaluated(batch, 300);
  std::vector<double> losses;
  for (int64_t row = 0; row < 300; ++row) {
    losses.push_back(-std::log(batch.probability(row, batch.labels[row])));
  }
  std::sort(losses.begin(), losses.end(), std::greater<>());
  ASSERT_EQ(evaluation.worst.size(), kWorstPredictions);
  for (size_t i = 0; i < kWorstPredictions; ++i) {
    const WorstPrediction& one = evaluation.worst[i];
    EXPECT_NEAR(one.loss, losses[i], 1e-4);
    EXPECT_EQ(one.label, batch.labels[one.index]);
    EXPECT_NEAR(one.probability, batch.probability(one.index, one.guess), 1e-5);
    EXPECT_NEAR(one.label_probability, batch.probability(one.index, one.label), 1e-5);
  }
  EXPECT_EQ(to_json(evaluation, "", {}, ""), to_json(evaluated(batch, 7), "", {}, ""));
}

TEST(Evaluation, ScoresPerClass) {
  const auto counts = class_counts({{3, 1, 0}, {2, 4, 0}, {0, 0, 0}});
  EXPECT_EQ(counts[0].examples, 4);
  EXPECT_EQ(counts[0].guesses, 5);
  EXPECT_EQ(score_of(counts[0]).recall, 0.75);
  EXPECT_EQ(score_of(counts[0]).precision, 0.6);
  EXPECT_TRUE(std::isnan(score_of(counts[2]).recall));
  EXPECT_TRUE(std::isnan(score_of(counts[2]).precision));
}

TEST(Evaluation, CountsWhatTheConfusionMatrixSays) {
  LogitBatch batch(200, 3);
  const ClassificationEvaluation evaluation = evaluated(batch, 64);
  const auto counts = class_counts(evaluation.confusion);
  ASSERT_EQ(counts.size(), evaluation.classes.size());
  for (size_t c = 0; c < counts.size(); ++c) {
    EXPECT_EQ(counts[c].examples, evaluation.classes[c].examples);
    EXPECT_EQ(counts[c].guesses, evaluation.classes[c].guesses);
    EXPECT_EQ(counts[c].right, evaluation.classes[c].right);
  }
}

// The matrix of very many classes would take more memory than the network.
TEST(Evaluation, OfManyClassesKeepsNoMatrix) {
  LogitBatch batch(100, 4, 300);
  const ClassificationEvaluation evaluation = evaluated(batch, 64);
  EXPECT_TRUE(evaluation.confusion.empty());
  int64_t examples = 0, guesses = 0, right = 0;
  for (const ClassCounts& counts : evaluation.classes) {
    examples += counts.examples;
    guesses += counts.guesses;
    right += counts.right;
  }
  EXPECT_EQ(examples, 100);
  EXPECT_EQ(guesses, 100);
  EXPECT_EQ(right, evaluation.correct);
  EXPECT_TRUE(evaluation.top5_accuracy());
  const auto json = nlohmann::json::parse(to_json(evaluation, "", {}, ""));
  EXPECT_FALSE(json.contains("confusion"));
  EXPECT_EQ(json["class_examples"].size(), 300u);
}

}  // namespace
}  // namespace mantissa

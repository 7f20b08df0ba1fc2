// Elements of arrays are numbers, or mantissas where the caller says so, whatever their type.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/test_folder.h"
#include "mantissa/mantissa.h"
#include "mantissa/training.h"

namespace mantissa {
namespace {

constexpr int64_t kCount = 64;

Network number_network() {
  NetworkBuilder net("numbers");
  net.numbers("x", {2}, exponent_for(64));
  const Var result = net.linear(1);
  net.squared_error(result, "y", exponent_for(64));
  auto network = net.finish({result});
  EXPECT_TRUE(network.ok()) << network.error();
  return *network;
}

Network class_network() {
  NetworkBuilder net("classes");
  net.numbers("x", {2}, exponent_for(64));
  const Var logits = net.linear(2);
  net.cross_entropy(logits, "y");
  auto network = net.finish({logits});
  EXPECT_TRUE(network.ok()) << network.error();
  return *network;
}

Trainer trainer_of(const Network& network) {
  auto trainer = Trainer::create(network, {{"batch-size", "16"}, {"learning-rate", "0.0001"}});
  EXPECT_TRUE(trainer.ok()) << trainer.error();
  return std::move(*trainer);
}

// The numbers 0, 1, ... 12, 0, ... as elements of this type, divided by `unit`.
template <typename T>
std::vector<T> numbers(size_t count, double unit = 1) {
  std::vector<T> values;
  for (size_t i = 0; i < count; ++i) values.push_back(static_cast<T>((i % 13) / unit));
  return values;
}

template <typename T>
std::string trained(Elements elements, double unit = 1) {
  const auto x = numbers<T>(2 * kCount, unit), y = numbers<T>(kCount, unit);
  Trainer trainer = trainer_of(number_network());
  const auto history = trainer.fit(
      {kCount, {{"x", elements, {2}, x.data()}, {"y", elements, {1}, y.data()}}}, {.epochs = 2});
  EXPECT_TRUE(history.ok()) << history.error();
  return trainer.weights_sha256();
}

TEST(ArrayMeaning, ElementsOfAnyTypeAreNumbers) {
  const std::string expected = trained<double>(Elements::kDouble);
  EXPECT_EQ(trained<float>(Elements::kFloat), expected);
  EXPECT_EQ(trained<uint8_t>(Elements::kUint8), expected);
  EXPECT_EQ(trained<int16_t>(Elements::kInt16), expected);
  EXPECT_EQ(trained<int32_t>(Elements::kInt32), expected);
  EXPECT_EQ(trained<int64_t>(Elements::kInt64), expected);
  EXPECT_EQ(trained<int16_t>(Elements::kMantissa, std::ldexp(1, exponent_for(64))), expected);
}

std::string refusal(const std::vector<int32_t>& labels) {
  const auto x = numbers<double>(2 * kCount);
  Trainer trainer = trainer_of(class_network());
  return trainer
      .fit({kCount,
            {{"x", Elements::kDouble, {2}, x.data()}, {"y", Elements::kInt32, {}, labels.data()}}})
      .error();
}

TEST(ArrayMeaning, LabelsThatLeaveOneClassAreRefused) {
  std::vector<int32_t> labels(kCount, -1);
  EXPECT_NE(refusal(labels).find("'y' is -1 everywhere"), std::string::npos);
  for (size_t i = 0; i < labels.size(); i += 3) labels[i] = 1;
  EXPECT_NE(refusal(labels).find("'y' has -1 and 1 alone"), std::string::npos);
  labels[2] = 0;
  EXPECT_EQ(refusal(labels), "");
  EXPECT_EQ(refusal(std::vector<int32_t>(kCount, 1)), "");
  labels[2] = -2;
  EXPECT_NE(refusal(labels).find("the label -2"), std::string::npos);
}

TEST(ArrayMeaning, LearningRatesThatAreNoneAreRefused) {
  const auto x = numbers<double>(32), y = numbers<double>(16);
  const ArraySet batch = {
      16, {{"x", Elements::kDouble, {2}, x.data()}, {"y", Elements::kDouble, {1}, y.data()}}};
  Trainer trainer = trainer_of(number_network());
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  for (const double rate : {std::nan(""), kInfinite, -kInfinite, -1.0, 1e-320, 1001.0}) {
    const auto step = trainer.step(batch, rate);
    EXPECT_NE(step.error().find("learning_rate"), std::string::npos) << rate;
    EXPECT_FALSE(trainer.observed_step(batch, rate).ok()) << rate;
  }
  EXPECT_EQ(trainer.steps_done(), 0);
  EXPECT_TRUE(trainer.step(batch, 0).ok());
  EXPECT_FALSE(Trainer::create(number_network(), {{"learning-rate", "1e-320"}}).ok());
}

// A price of about 200 for a size of about 1000 and a colour.
std::string prices() {
  std::string rows = "size,colour,price\n";
  for (int i = 0; i < 200; ++i) {
    const int size = 500 + 37 * i % 1000;
    const bool red = i % 3 == 0;
    rows += std::to_string(size) + (red ? ",red," : ",blue,") +
            std::to_string(size / 5 + (red ? 40 : 0)) + ".5\n";
  }
  return rows;
}

TEST(ArrayMeaning, RowsOfATableComeThroughItsColumns) {
  const TestFolder folder;
  put_file(folder / "t.csv", prices());
  const Outcome<TrainedRun> run = train({{"model", "mlp"},
                                         {"hidden", "16"},
                                         {"data", folder / "t.csv"},
                                         {"epochs", "40"},
                                         {"batch-size", "20"},
                                         {"optimizer", "adam"},
                                         {"learning-rate", "0.01"},
                                         {"out", folder / "run"}});
  ASSERT_EQ(run.error(), "");
  const auto model = Model::load(folder / "run" / "model.safetensors");
  ASSERT_TRUE(model.ok()) << model.error();
  EXPECT_NE(model->table_json().find("\"size\""), std::string::npos);
  const auto rows =
      model->encode({{"colour", {}, {"red", "blue", "pink"}}, {"size", {1000, 1000, 1000}, {}}});
  ASSERT_TRUE(rows.ok()) << rows.error();
  ASSERT_EQ(rows->notes.size(), 1u);
  const auto found = model->predict(rows->arrays);
  ASSERT_TRUE(found.ok()) << found.error();
  EXPECT_NEAR((*found)[0][0], 240, 15);
  EXPECT_NEAR((*found)[0][1], 200, 15);
  const auto labelled =
      model->encode({{"colour", {}, {"red"}}, {"size", {1000}, {}}, {"price", {240}, {}}});
  ASSERT_TRUE(labelled.ok()) << labelled.error();
  EXPECT_TRUE(model->evaluate(labelled->arrays).ok());
  // Numbers as they are in the file would fit the input as well.
  const std::vector<float> raw = {1, 0, 1};
  const auto refused = model->predict({1, {{"numbers", Elements::kFloat, {3}, raw.data()}}});
  EXPECT_NE(refused.error().find("encode()"), std::string::npos) << refused.error();
  EXPECT_FALSE(model->encode({{"size", {1000}, {}}}).ok());
}

}  // namespace
}  // namespace mantissa

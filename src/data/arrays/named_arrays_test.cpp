// Arrays that the inputs of a network name.
#include "data/arrays/named_arrays.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/test_folder.h"
#include "data/arrays/test_arrays.h"
#include "data/batches/examples.h"
#include "data/datasets/dataset.h"
#include "formats/arrays/npz.h"
#include "tensor/table_numbers.h"

namespace mantissa {
namespace {

constexpr int16_t kUnit = 1 << -kFeatureExponent;

const std::vector<uint8_t> kPictures = {1, 2, 3, 4, 5, 6, 7, 8};           // [2, 2, 2]
const std::vector<float> kVectors = {0, 5, 2, 5};                          // [2, 2]
const std::vector<float> kSeries = {1, 9, 9, 3, 3, 9};                     // [2, 3]
const std::vector<int64_t> kTokens = {4, 3, -1, 2, -1, 70000}, kLengths = {2, 1}, kTwo = {0, 1};

class NamedArrays : public testing::Test {
 protected:
  NamedArrays() {
    options_.table.inputs = {
        {.name = "Picture", .kind = ArrayKind::kPictures, .shape = Shape{2, 2, 1}},
        {.name = "vector", .kind = ArrayKind::kNumbers, .shape = Shape{2}}};
  }
  // Sequences of three numbers and three tokens, with lengths.
  void take_sequences() {
    options_.table.inputs = {
        {.name = "series", .kind = ArrayKind::kNumbers, .shape = Shape{3, 1}, .lengths = "lengths"},
        {.name = "words", .kind = ArrayKind::kTokens, .shape = Shape{3}, .limit = 5,
         .lengths = "lengths"},
        {.name = "lengths", .kind = ArrayKind::kLengths, .limit = 3}};
  }
  void put(const std::vector<NpyView>& arrays) {
    const Status status = write_npz(folder_ / "a.npz", arrays);
    ASSERT_TRUE(status.ok()) << status.error().message;
  }
  Result<Dataset> load() { return load_dataset(folder_ / "a.npz", true, true, options_); }
  void expect_refusal(const std::string& part) {
    const auto data = load();
    const std::string message = data.ok() ? "accepted" : data.error().message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }

  TestFolder folder_;
  DataOptions options_;
};

TEST_F(NamedArrays, FillInputsByName) {
  options_.table.task = TableTask::kClassification;
  const std::vector<float> other = {4, 7};
  const std::vector<uint8_t> picture = {9, 9, 9, 9};
  const std::vector<int64_t> one = {1};
  put({array_of("picture_train", NpyType::kUint8, {2, 2, 2}, kPictures),
       array_of("train.vector", NpyType::kFloat, {2, 2}, kVectors),
       array_of("y_train", NpyType::kInt64, {2}, kTwo),
       array_of("PICTURE-test", NpyType::kUint8, {1, 2, 2, 1}, picture),
       array_of("vector_test", NpyType::kFloat, {1, 2}, other),
       array_of("y_test", NpyType::kInt64, {1}, one),
       array_of("scale", NpyType::kInt64, {1}, one)});
  const auto data = load();
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_EQ(data->train.numbers<uint8_t>("Picture"), kPictures);
  EXPECT_EQ(data->train.numbers<int16_t>("vector"), (std::vector<int16_t>{-kUnit, 0, kUnit, 0}));
  EXPECT_EQ(data->train.labels(), (std::vector<Label>{0, 1}));
  // By the mean and deviation of training: (4 - 1) / 1, and (7 - 5) / 5 of a constant.
  EXPECT_EQ(data->test.numbers<int16_t>("vector")[0], 3 * kUnit);
  EXPECT_EQ(data->info.notes[0],
            "the array 'scale' is not read: no input of the network is called so");
  EXPECT_EQ(channel_means(data->train).at("Picture"), (std::vector<int>{5}));  // 4.5
  EXPECT_EQ(inputs_text(data->info.specs), "'Picture' (U8 [2, 2, 1]) and 'vector' (I16 [2])");
}

// The schema remembers all that other files need.
TEST_F(NamedArrays, TheSchemaIsWholeAsJson) {
  put({array_of("picture", NpyType::kUint8, {2, 2, 2}, kPictures),
       array_of("vector", NpyType::kFloat, {2, 2}, kVectors),
       array_of("y", NpyType::kInt64, {2}, kTwo),
       array_of("picture_test", NpyType::kUint8, {2, 2, 2}, kPictures),
       array_of("vector_test", NpyType::kFloat, {2, 2}, kVectors),
       array_of("y_test", NpyType::kInt64, {2}, kTwo)});
  const auto data = load();
  ASSERT_TRUE(data.ok()) << data.error().message;
  const std::string json = to_json(*data->info.table);
  const auto schema = parse_table_schema(json);
  ASSERT_TRUE(schema.ok()) << schema.error().message;
  EXPECT_EQ(to_json(*schema), json);
  EXPECT_EQ(schema->inputs, options_.table.inputs);
  options_ = {.schema = *schema};
  const auto again = load();
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(data_sha256(*again), data_sha256(*data));
  std::string damaged = json;
  damaged.replace(damaged.find("\"numbers\""), 9, "\"lengths\"");
  EXPECT_FALSE(parse_table_schema(damaged).ok());
}

// Neither what lies behind a length counts, nor does it reach the network.
TEST_F(NamedArrays, PositionsBehindTheLengthAreZero) {
  take_sequences();
  put({array_of("series", NpyType::kFloat, {2, 3}, kSeries),
       array_of("words", NpyType::kInt64, {2, 3}, kTokens),
       array_of("lengths", NpyType::kInt64, {2}, kLengths),
       array_of("y", NpyType::kInt64, {2}, kTwo),
       array_of("series_test", NpyType::kFloat, {2, 3, 1}, kSeries),
       array_of("words_test", NpyType::kInt64, {2, 3}, kTokens),
       array_of("lengths_test", NpyType::kInt64, {2, 1}, kLengths),
       array_of("y_test", NpyType::kInt64, {2}, kTwo)});
  const auto data = load();
  ASSERT_TRUE(data.ok()) << data.error().message;
  const TableColumn& column = data->info.table->inputs[0].columns[0];
  EXPECT_EQ(column.mean, (1 + 9 + 3) / 3.0);
  EXPECT_EQ(data->train.numbers<int32_t>("words"), (std::vector<int32_t>{4, 3, 0, 2, 0, 0}));
  EXPECT_EQ(data->train.numbers<int32_t>("lengths"), (std::vector<int32_t>{2, 1}));
  const auto& numbers = data->train.numbers<int16_t>("series");
  EXPECT_EQ(numbers[2], 0);
  EXPECT_EQ(numbers[3], standardised(3, column, kFeatureExponent));
  EXPECT_EQ(numbers[4], 0);
}

TEST_F(NamedArrays, ErrorsNameTheArray) {
  const NpyView picture = array_of("picture", NpyType::kUint8, {2, 2, 2}, kPictures);
  const NpyView vector = array_of("vector", NpyType::kFloat, {2, 2}, kVectors);
  const NpyView y = array_of("y", NpyType::kInt64, {2}, kTwo);
  put({picture, y});
  expect_refusal("there is no array for the input 'vector' (numbers [N, 2]) among its arrays "
                 "(picture, y); call it vector, or vector_train and vector_test");
  put({picture, vector});
  expect_refusal("there are no targets among its arrays (picture, vector)");
  put({picture, vector, y, array_of("vector_train", NpyType::kFloat, {2, 2}, kVectors)});
  expect_refusal("leave the ones or the others out");
  put({picture, vector, y, array_of("Vector", NpyType::kFloat, {2, 2}, kVectors)});
  expect_refusal("'vector' and 'Vector' are named as the same");
  put({picture, array_of("vector", NpyType::kFloat, {4, 1}, kVectors), y});
  expect_refusal("'vector' [4, 1] has not the examples that the network takes, [N, 2]");
  put({picture, array_of("vector", NpyType::kFloat, {1, 2}, std::vector<float>{1, 2}), y});
  expect_refusal("'vector' [1, 2] has not as many examples as 'picture' [2, 2, 2]");
  put({array_of("picture", NpyType::kFloat, {1, 2, 2}, kVectors), vector, y});
  expect_refusal("'picture' [1, 2, 2] of float32 does not fit the input 'Picture': it takes "
                 "pictures, uint8 [N, 2, 2, 1]");
  const std::vector<float> infinite = {1, INFINITY, 2, 3};
  put({picture, array_of("vector", NpyType::kFloat, {2, 2}, infinite), y});
  expect_refusal("'vector' [2, 2] has infinite numbers");
  options_.table.target = "y";
  expect_refusal("target: names a column of a table");
}

TEST_F(NamedArrays, TokensAndLengthsAreInRange) {
  take_sequences();
  const auto with = [&](std::vector<int64_t> tokens, std::vector<int64_t> lengths) {
    put({array_of("series", NpyType::kFloat, {2, 3}, kSeries),
         array_of("words", NpyType::kInt64, {2, 3}, tokens),
         array_of("lengths", NpyType::kInt64, {2}, lengths),
         array_of("y", NpyType::kInt64, {2}, kTwo),
         array_of("series_test", NpyType::kFloat, {2, 3}, kSeries),
         array_of("words_test", NpyType::kInt64, {2, 3}, tokens),
         array_of("lengths_test", NpyType::kInt64, {2}, lengths),
         array_of("y_test", NpyType::kInt64, {2}, kTwo)});
  };
  with({0, 0, 0, 0, 5, 0}, kLengths);
  EXPECT_TRUE(load().ok());
  with({0, 0, 0, 5, 0, 0}, kLengths);
  expect_refusal("'words' [2, 3], row 1: has the token 5, and the input 'words' takes 0 to 4");
  with(kTokens, {2, 4});
  expect_refusal("'lengths' [2], row 1: has the length 4; 1 to 3 positions are possible");
  with(kTokens, {0, 1});
  expect_refusal("row 0: has the length 0");
}

// Files to predict have inputs alone.
TEST_F(NamedArrays, InputsAlone) {
  put({array_of("picture", NpyType::kUint8, {2, 2, 2}, kPictures),
       array_of("vector", NpyType::kFloat, {2, 2}, kVectors)});
  TableSchema schema;
  schema.inputs = options_.table.inputs;
  schema.inputs[1].columns = {{.name = "1"}, {.name = "2", .mean = 3, .deviation = 2}};
  const auto set = read_named_inputs(folder_ / "a.npz", schema, {});
  ASSERT_TRUE(set.ok()) << set.error().message;
  EXPECT_EQ(set->count, 2);
  EXPECT_EQ(set->numbers<int16_t>("vector"), (std::vector<int16_t>{0, kUnit, 2 * kUnit, kUnit}));
}

// All pictures of an example are flipped and shifted alike.
TEST_F(NamedArrays, PicturesOfAnExampleAreAugmentedAlike) {
  ExampleSet set{.count = 4};
  std::vector<uint8_t> pixels(4 * 64);
  std::iota(pixels.begin(), pixels.end(), uint8_t{0});
  set.tensors.push_back({"a", Shape{8, 8, 1}, pixels});
  set.tensors.push_back({"b", Shape{8, 8, 1}, pixels});
  const Examples examples = examples_of(set, {.shift = 2, .flip = 1}, 7);
  std::vector<std::byte> a(64), b(64);
  std::byte* const places[] = {a.data(), b.data()};
  bool changed = false;
  for (uint32_t i = 0; i < 4; ++i) {
    examples.write(1, i, places);
    EXPECT_EQ(a, b);
    changed = changed || !std::equal(a.begin(), a.end(),
                                     std::as_bytes(std::span(pixels)).begin() + 64 * i);
  }
  EXPECT_TRUE(changed);
}

// Labels of pixels move with the pictures; those from outside are ignored.
TEST_F(NamedArrays, LabelsOfPixelsMoveWithThePictures) {
  std::vector<uint8_t> pixels(20 * 64);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(1 + i % 64);
  ExampleSet set{.count = 20};
  set.tensors.push_back({"a", Shape{8, 8, 1}, pixels});
  set.tensors.push_back(
      {kLabelTensor, Shape{8, 8}, std::vector<Label>(pixels.begin(), pixels.end())});
  const Examples examples = examples_of(set, {.shift = 2, .flip = 1}, 7);
  std::vector<uint8_t> a(64);
  std::vector<int32_t> labels(64);
  std::byte* const places[] = {reinterpret_cast<std::byte*>(a.data()),
                               reinterpret_cast<std::byte*>(labels.data())};
  int64_t ignored = 0, moved = 0;
  for (uint32_t i = 0; i < 20; ++i) {
    examples.write(1, i, places);
    for (size_t at = 0; at < 64; ++at) {
      EXPECT_EQ(labels[at], a[at] == 0 ? kIgnoredLabel : a[at]);
      ignored += labels[at] == kIgnoredLabel;
      moved += labels[at] != static_cast<int32_t>(1 + at);
    }
  }
  EXPECT_GT(ignored, 20);
  EXPECT_GT(moved, 20 * 32);
  EXPECT_EQ(inputs_of(set).specs.size(), 1u);
}

}  // namespace
}  // namespace mantissa

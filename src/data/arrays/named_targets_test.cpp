// Targets of several outputs, from arrays and columns of their names.
#include <gtest/gtest.h>

#include <fstream>

#include "base/test_folder.h"
#include "data/arrays/test_arrays.h"
#include "data/batches/examples.h"
#include "data/datasets/dataset.h"
#include "formats/arrays/npz.h"
#include "tensor/table_numbers.h"

namespace mantissa {
namespace {

constexpr int16_t kOne = 1 << -kTargetExponent;

const std::vector<float> kRows = {0, 5, 2, 5};    // [2, 2]
const std::vector<float> kAges = {30, 50};           // mean 40, deviation 10
const std::vector<float> kPlaces = {1, 0, 3, 0.5};   // [2, 2]
const std::vector<int64_t> kKinds = {7, 3};          // of the classes "3" and "7"
const std::vector<uint8_t> kTags = {1, 0, 0, 1};     // [2, 2]

class NamedTargets : public testing::Test {
 protected:
  NamedTargets() {
    options_.table.inputs = {
        {.name = "vector", .kind = ArrayKind::kNumbers, .shape = Shape{2}}};
    options_.table.outputs = {{"kind", false}, {"age", true}};
  }
  // The arrays of both splits, and more.
  void put(std::vector<NpyView> more = {}) {
    std::vector<NpyView> arrays = {
        array_of("vector", NpyType::kFloat, {2, 2}, kRows),
        array_of("kind", NpyType::kInt64, {2}, kKinds),
        array_of("Age", NpyType::kFloat, {2}, kAges),
        array_of("vector_test", NpyType::kFloat, {2, 2}, kRows),
        array_of("kind_test", NpyType::kInt64, {2}, kKinds),
        array_of("test-age", NpyType::kFloat, {2}, kAges)};
    arrays.insert(arrays.end(), more.begin(), more.end());
    ASSERT_TRUE(write_npz(folder_ / "a.npz", arrays).ok());
  }
  void put_table(const std::string& text) { std::ofstream(folder_ / "a.csv") << text; }
  Result<Dataset> load(const char* file = "a.npz") {
    return load_dataset(folder_ / file, true, true, options_);
  }
  void expect_refusal(const std::string& part, const char* file = "a.npz") {
    const auto data = load(file);
    const std::string message = data.ok() ? "accepted" : data.error().message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }

  TestFolder folder_;
  DataOptions options_;
};

TEST_F(NamedTargets, AreTensorsOfTheOutputsNames) {
  put({array_of("y", NpyType::kInt64, {2}, kKinds)});
  const auto data = load();
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_EQ(data->train.numbers<Label>("kind"), (std::vector<Label>{1, 0}));
  EXPECT_EQ(data->train.numbers<int16_t>("age"), (std::vector<int16_t>{-kOne, kOne}));
  EXPECT_EQ(data->test.numbers<Label>("kind"), (std::vector<Label>{1, 0}));
  EXPECT_EQ(data->train.find(kLabelTensor), nullptr);
  EXPECT_EQ(data->info.notes[0],
            "the array 'y' is not read: no input or output of the network is called so");
  const Target& target = data->info.target;
  ASSERT_EQ(target.kind, TargetKind::kSeveral);
  ASSERT_EQ(target.parts.size(), 2u);
  EXPECT_EQ(target.parts[0].output, "kind");
  EXPECT_EQ(target.parts[0].names, (std::vector<std::string>{"3", "7"}));
  EXPECT_EQ(target.parts[1].numbers[0].column, "age");
  EXPECT_EQ(target.parts[1].numbers[0].mean, 40);
  EXPECT_EQ(target.parts[1].numbers[0].deviation, 10);
  // Networks do not read them.
  EXPECT_EQ(inputs_of(data->train).specs.size(), 1u);
  EXPECT_EQ(examples_of(data->train).specs.size(), 3u);
}

TEST_F(NamedTargets, MayBeSeveralNumbersOrLabels) {
  options_.table.outputs = {{"place", true}, {"tags", false}};
  put({array_of("place", NpyType::kFloat, {2, 2}, kPlaces),
       array_of("tags", NpyType::kUint8, {2, 2}, kTags),
       array_of("place_test", NpyType::kFloat, {2, 2}, kPlaces),
       array_of("tags_test", NpyType::kUint8, {2, 2}, kTags)});
  const auto data = load();
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_EQ(data->train.numbers<int16_t>("place"),
            (std::vector<int16_t>{-kOne, -kOne, kOne, kOne}));
  EXPECT_EQ(data->train.find("place")->shape, Shape{2});
  EXPECT_EQ(data->train.numbers<Label>("tags"), (std::vector<Label>{1, 0, 0, 1}));
  EXPECT_EQ(data->train.find("tags")->shape, Shape{2});
  EXPECT_EQ(data->info.target.parts[0].numbers[1].column, "place2");
  EXPECT_TRUE(data->info.target.parts[1].has_labels());
}

// The schema remembers them, and reads the same again.
TEST_F(NamedTargets, AreWholeAsJson) {
  put();
  const auto data = load();
  ASSERT_TRUE(data.ok()) << data.error().message;
  const std::string json = to_json(*data->info.table);
  const auto schema = parse_table_schema(json);
  ASSERT_TRUE(schema.ok()) << schema.error().message;
  EXPECT_EQ(to_json(*schema), json);
  EXPECT_EQ(schema->target_names(), "kind and age");
  options_ = {.schema = *schema};
  const auto again = load();
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(data_sha256(*again), data_sha256(*data));
  for (const char* key : {"\"name\":\"age\"", "\"mean\":40.0", "\"outputs\":"}) {
    std::string damaged = json;
    const size_t at = damaged.rfind(key);
    ASSERT_NE(at, std::string::npos) << json;
    damaged.replace(at, 3, "\"x");
    EXPECT_FALSE(parse_table_schema(damaged).ok()) << damaged;
  }
}

// Sets that are divided keep the marks of targets.
TEST_F(NamedTargets, StayTargetsInAPartOfASet) {
  put();
  auto data = load();
  ASSERT_TRUE(data.ok()) << data.error().message;
  const auto part = split_off(data->train, 1, 1);
  ASSERT_TRUE(part.ok());
  EXPECT_EQ(part->count, 1);
  EXPECT_EQ(inputs_of(*part).specs.size(), 1u);
}

TEST_F(NamedTargets, AreNamedWhereTheyLack) {
  options_.table.outputs.push_back({"size", true});
  put();
  expect_refusal("there is no array training for the output 'size'");
  expect_refusal("call it size, or size_train and size_test");
  options_.table.outputs.pop_back();
  put({array_of("AGE", NpyType::kFloat, {2}, kAges)});
  expect_refusal("'Age' and 'AGE' are named as the same");
}

TEST_F(NamedTargets, AreColumnsOfATable) {
  options_.table.inputs = {};
  std::string rows = "age,a,kind\n";
  for (int i = 0; i < 20; ++i) {
    rows += std::to_string(20 + 2 * i) + "," + std::to_string(i) + (i % 2 ? ",fir\n" : ",ash\n");
  }
  put_table(rows);
  const auto data = load("a.csv");
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_EQ(data->info.specs[0].shape, Shape{1});  // the other column alone is an input
  EXPECT_EQ(data->train.numbers<Label>("kind").size(), static_cast<size_t>(data->train.count));
  EXPECT_EQ(data->train.numbers<int16_t>("age").size(), static_cast<size_t>(data->train.count));
  EXPECT_EQ(data->info.target.parts[0].names, (std::vector<std::string>{"ash", "fir"}));
  options_.table.target = "age,kind";  // in the order of the outputs: texts are no numbers
  expect_refusal("the target 'kind' is not of numbers", "a.csv");
  options_.table.target = "kind,age,a";
  expect_refusal("names 3 columns, and the network has the outputs kind,age", "a.csv");
  options_.table.target = "";
  put_table("age,a,sort\n1,2,fir\n2,3,ash\n");
  expect_refusal("there is no column 'kind'", "a.csv");
  put_table(rows + ",5,ash\n");
  expect_refusal("has no value of the target 'age'", "a.csv");
}

}  // namespace
}  // namespace mantissa

// Data sets of NumPy's arrays.
#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "data/datasets/dataset.h"
#include "formats/arrays/npz.h"
#include "tensor/table_numbers.h"

namespace mantissa {
namespace {

template <typename T>
NpyView view(const char* name, NpyType type, std::vector<int64_t> shape,
             const std::vector<T>& numbers) {
  return {name, type, std::move(shape), std::as_bytes(std::span(numbers))};
}

class Arrays : public testing::Test {
 protected:
  void put(const std::vector<NpyView>& arrays) {
    const Status status = write_npz(folder_ / "a.npz", arrays);
    ASSERT_TRUE(status.ok()) << status.error().message;
  }
  Result<Dataset> load(const DataOptions& options = {}) {
    return load_dataset(folder_ / "a.npz", true, true, options);
  }
  std::string refusal() {
    const auto data = load();
    return data.ok() ? "accepted" : data.error().message;
  }

  TestFolder folder_;
};

const std::vector<uint8_t> kPixels = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
const std::vector<int64_t> kThree = {2, 0, 1};

TEST_F(Arrays, Pictures) {
  const std::vector<uint8_t> more = {20, 21, 22, 23};
  const std::vector<int32_t> one = {1};
  put({view("train_images", NpyType::kUint8, {3, 2, 2}, kPixels),
       view("train_labels", NpyType::kInt64, {3, 1}, kThree),
       view("X_test", NpyType::kUint8, {1, 2, 2, 1}, more),
       view("y_test", NpyType::kInt32, {1}, one), view("note", NpyType::kInt32, {1}, one)});
  const auto data = load();
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_EQ(data->info.kind, "NumPy arrays");
  EXPECT_FALSE(data->info.table);
  EXPECT_EQ(data->info.target.classes, 3);
  EXPECT_EQ(data->train.pixels(), kPixels);
  EXPECT_EQ(data->train.labels(), (std::vector<Label>{2, 0, 1}));
  EXPECT_EQ(data->test.pixels(), more);
  EXPECT_EQ(data->info.notes[0], "the array 'note' is not read: it is named as no input or target");
  const auto resized = load({.size = {4, 4}});
  ASSERT_TRUE(resized.ok());
  EXPECT_EQ(resized->train.pixels().size(), 3u * 16);
}

// One of five is for testing, and each picture keeps its label.
TEST_F(Arrays, PicturesAreDivided) {
  std::vector<uint8_t> pixels, labels;
  for (int i = 0; i < 100; ++i) {
    pixels.push_back(static_cast<uint8_t>(i));
    labels.push_back(static_cast<uint8_t>(i % 7));
  }
  put({view("data", NpyType::kUint8, {100, 1, 1}, pixels),
       view("target", NpyType::kUint8, {100}, labels)});
  const auto data = load();
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_EQ(data->train.count, 80);
  EXPECT_EQ(data->test.count, 20);
  for (const ExampleSet* set : {&data->train, &data->test}) {
    for (int64_t i = 0; i < set->count; ++i) EXPECT_EQ(set->labels()[i], set->pixels()[i] % 7);
  }
}

TEST_F(Arrays, Tables) {
  const std::vector<float> x = {0, 5, 2, 5, 0, 5, 2, 5};
  const std::vector<double> y = {1, 2, 3, 4};
  put({view("x_train", NpyType::kFloat, {4, 2}, x), view("y_train", NpyType::kDouble, {4}, y),
       view("xtest", NpyType::kFloat, {4, 2}, x), view("ytest", NpyType::kDouble, {4}, y)});
  const auto data = load();
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_TRUE(data->info.target.is_number());
  constexpr int16_t kOne = 1 << -kFeatureExponent;
  EXPECT_EQ(data->train.numbers<int16_t>(kNumberTensor),
            (std::vector<int16_t>{-kOne, 0, kOne, 0, -kOne, 0, kOne, 0}));
  DataOptions options;
  options.table.task = TableTask::kClassification;
  const auto classes = load(options);
  ASSERT_TRUE(classes.ok()) << classes.error().message;
  EXPECT_EQ(classes->info.target.names, (std::vector<std::string>{"1", "2", "3", "4"}));
}

TEST_F(Arrays, NpyFiles) {
  const auto put_npy = [&](const std::string& name, const NpyView& array) {
    const auto header = npy_header(array);
    ASSERT_TRUE(header.ok());
    put_file(folder_ / name, *header + std::string(reinterpret_cast<const char*>(array.data.data()),
                                                   array.data.size()));
  };
  std::vector<int16_t> x, y;
  for (int i = 0; i < 10; ++i) x.push_back(static_cast<int16_t>(i)), y.push_back(i % 2);
  put_npy("x.npy", view("", NpyType::kInt16, {10, 1}, x));
  put_npy("y.npy", view("", NpyType::kInt16, {10}, y));
  for (const std::filesystem::path& path : {folder_.path(), folder_ / "x.npy"}) {
    const auto data = load_dataset(path, true, true);
    ASSERT_TRUE(data.ok()) << data.error().message;
    EXPECT_EQ(data->info.target.classes, 2);
    EXPECT_EQ(data->train.count, 8);
  }
}

TEST_F(Arrays, Errors) {
  const auto expect = [&](const std::string& part) {
    EXPECT_NE(refusal().find(part), std::string::npos) << refusal();
  };
  put({view("x", NpyType::kUint8, {3, 2, 2}, kPixels)});
  expect("there are no training targets among its arrays (x)");
  put({view("x", NpyType::kUint8, {3, 2, 2}, kPixels), view("data", NpyType::kInt64, {3}, kThree)});
  expect("'x' and 'data' are named as the same");
  put({view("x", NpyType::kUint8, {2, 6}, kPixels), view("y", NpyType::kInt64, {3}, kThree)});
  expect("'x' [2, 6] and 'y' [3] do not have as many rows");
  put({view("x", NpyType::kUint8, {2, 3, 2}, kPixels), view("y", NpyType::kInt64, {3}, kThree)});
  expect("'x' has 2 pictures, and there are 3 labels");
  put({view("x", NpyType::kUint8, {3, 2, 1, 2}, kPixels), view("y", NpyType::kInt64, {3}, kThree)});
  expect("with 1 or 3 channels");
  const std::vector<double> halves = {0.5, 1, 2};
  put({view("x", NpyType::kUint8, {3, 2, 2}, kPixels), view("y", NpyType::kDouble, {3}, halves)});
  expect("must be a whole number from 0");
  put({view("x", NpyType::kUint8, {3, 4}, kPixels), view("y", NpyType::kInt64, {1, 3}, kThree)});
  expect("do not have as many rows");
  put_file(folder_ / "a.npz", std::string("no archive"));
  expect("a.npz");
}

}  // namespace
}  // namespace mantissa

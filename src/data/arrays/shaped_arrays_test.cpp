// Arrays of positions with channels, of pictures of numbers, and labels of pixels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/test_folder.h"
#include "data/batches/examples.h"
#include "data/batches/no_label.h"
#include "data/datasets/dataset.h"
#include "formats/arrays/npz.h"
#include "tensor/table_numbers.h"

namespace mantissa {
namespace {

template <typename T>
NpyView array(const char* name, NpyType type, std::vector<int64_t> shape,
              const std::vector<T>& numbers) {
  return {name, type, std::move(shape), std::as_bytes(std::span(numbers))};
}

class ShapedArrays : public testing::Test {
 protected:
  void put(const std::vector<NpyView>& arrays) {
    const Status status = write_npz(folder_ / "a.npz", arrays);
    ASSERT_TRUE(status.ok()) << status.error().message;
  }
  Result<Dataset> load(const DataOptions& options) {
    return load_dataset(folder_ / "a.npz", true, true, options);
  }
  static DataOptions shaped(Shape shape, ChannelAxis axis = ChannelAxis::kByShape) {
    DataOptions options;
    options.table.shape = shape;
    options.table.channel_axis = axis;
    return options;
  }
  std::string refusal(const DataOptions& options) {
    const auto data = load(options);
    return data.ok() ? "accepted" : data.error().message;
  }
  TestFolder folder_;
};

// Four examples of 3 positions with 2 channels: the first counts, the second is 10 or 30.
std::vector<float> numbers_of(bool channels_first) {
  std::vector<float> numbers;
  for (int n = 0; n < 4; ++n) {
    for (int i = 0; i < 6; ++i) {
      const int c = channels_first ? i / 3 : i % 2, t = channels_first ? i % 3 : i / 2;
      numbers.push_back(static_cast<float>(c == 0 ? n * 3 + t : n % 2 == 0 ? 10 : 30));
    }
  }
  return numbers;
}

TEST_F(ShapedArrays, EachChannelIsStandardisedWhereverItIs) {
  const std::vector<int32_t> y = {0, 1, 0, 1};
  const auto last = numbers_of(false), first = numbers_of(true);
  std::vector<int16_t> expected;
  for (const bool is_first : {false, true}) {
    const std::vector<int64_t> dims =
        is_first ? std::vector<int64_t>{4, 2, 3} : std::vector<int64_t>{4, 3, 2};
    put({array("x_train", NpyType::kFloat, dims, is_first ? first : last),
         array("y_train", NpyType::kInt32, {4}, y),
         array("x_test", NpyType::kFloat, dims, is_first ? first : last),
         array("y_test", NpyType::kInt32, {4}, y)});
    const auto data = load(shaped(Shape{3, 2}));
    ASSERT_TRUE(data.ok()) << data.error().message;
    const TableSchema& schema = *data->info.table;
    EXPECT_EQ(schema.channels_first, is_first);
    ASSERT_EQ(schema.columns.size(), 2u);
    EXPECT_EQ(schema.columns[0].mean, 5.5);
    EXPECT_EQ(schema.columns[1].mean, 20);
    EXPECT_EQ(schema.columns[1].deviation, 10);
    EXPECT_EQ(data->info.find(kNumberTensor)->shape, (Shape{3, 2}));
    EXPECT_EQ(data->info.target.classes, 2);
    const auto& mantissas = data->train.numbers<int16_t>(kNumberTensor);
    ASSERT_EQ(mantissas.size(), 24u);
    EXPECT_EQ(mantissas[1], -4096);
    EXPECT_EQ(mantissas[7], 4096);
    EXPECT_EQ(data->train.labels(), (std::vector<Label>{0, 1, 0, 1}));
    EXPECT_EQ(mantissas, is_first ? expected : mantissas);
    expected = mantissas;
    // The same numbers for a frozen network, which brings its schema.
    const auto again = load({.schema = parse_table_schema(to_json(schema)).ok()
                                           ? std::optional(*parse_table_schema(to_json(schema)))
                                           : std::nullopt});
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(again->test.numbers<int16_t>(kNumberTensor), expected);
  }
}

TEST_F(ShapedArrays, OtherShapesAreRefused) {
  const auto x = numbers_of(false);
  const std::vector<int32_t> y = {0, 1, 0, 1}, five = {0, 1, 0, 1, 1};
  put({array("x", NpyType::kFloat, {4, 3, 2}, x), array("y", NpyType::kInt32, {4}, y)});
  EXPECT_NE(refusal(shaped(Shape{2, 2})).find("has not the examples that the network takes, "
                                              "[N, 2, 2] or with the channels first [N, 2, 2]"),
            std::string::npos);
  EXPECT_NE(refusal(shaped(Shape{3, 2}, ChannelAxis::kFirst)).find("--channels names the other"),
            std::string::npos);
  put({array("x", NpyType::kFloat, {6, 2, 2}, x),
       array("y", NpyType::kInt32, {6}, std::vector<int32_t>{0, 1, 0, 1, 0, 1})});
  EXPECT_NE(refusal(shaped(Shape{2, 2})).find("--channels first, or --channels last"),
            std::string::npos);
  put({array("x", NpyType::kFloat, {4, 3, 2}, x), array("y", NpyType::kInt32, {5}, five)});
  EXPECT_NE(refusal(shaped(Shape{3, 2})).find("has not as many examples as 'x'"),
            std::string::npos);
  put({array("x", NpyType::kFloat, {4, 3, 2}, x),
       array("y", NpyType::kInt32, {4, 2}, std::vector<int32_t>{0, 1, 0, 1, 0, 1, 0, 1})});
  EXPECT_NE(refusal(shaped(Shape{3, 2})).find("nor one for each of its places, [N, 3]"),
            std::string::npos);
}

// NaN counts as the mean, with a message; infinite numbers are errors in every split.
TEST_F(ShapedArrays, NumbersThatAreNoNumbersAreTold) {
  const std::vector<int32_t> y = {0, 1, 0, 1};
  const auto good = numbers_of(false);
  auto some = good, infinite = good;
  some[2] = some[5] = NAN;
  infinite[3] = INFINITY;
  const std::vector<float> none(good.size(), NAN);
  const auto put_both = [&](const std::vector<float>& train, const std::vector<float>& test) {
    put({array("x_train", NpyType::kFloat, {4, 3, 2}, train),
         array("y_train", NpyType::kInt32, {4}, y),
         array("x_test", NpyType::kFloat, {4, 3, 2}, test),
         array("y_test", NpyType::kInt32, {4}, y)});
  };
  put_both(some, good);
  const auto data = load(shaped(Shape{3, 2}));
  ASSERT_TRUE(data.ok()) << data.error().message;
  ASSERT_FALSE(data->info.notes.empty());
  EXPECT_EQ(data->info.notes.back(),
            "2 numbers of 'x_train' are NaN: they are missing, and count as the mean of their "
            "channel");
  EXPECT_EQ(data->train.numbers<int16_t>(kNumberTensor)[2], 0);
  put_both(none, good);
  EXPECT_NE(refusal(shaped(Shape{3, 2})).find("has no number: all are NaN"), std::string::npos);
  put_both(infinite, good);
  EXPECT_NE(refusal(shaped(Shape{3, 2})).find("'x_train' [4, 3, 2] has infinite numbers"),
            std::string::npos);
  put_both(good, infinite);
  EXPECT_NE(refusal(shaped(Shape{3, 2})).find("'x_test' [4, 3, 2] has infinite numbers"),
            std::string::npos);
}

// Pictures of five channels, uint8, with a class for each pixel.
TEST_F(ShapedArrays, PicturesOfManyChannelsWithLabelsOfPixels) {
  std::vector<uint8_t> x(10 * 2 * 3 * 5), y(10 * 2 * 3);
  std::iota(x.begin(), x.end(), uint8_t{0});
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<uint8_t>(i % 3);
  put({array("images", NpyType::kUint8, {10, 2, 3, 5}, x),
       array("labels", NpyType::kUint8, {10, 2, 3}, y)});
  const auto data = load(shaped(Shape{2, 3, 5}));
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_EQ(data->info.find(kLabelTensor)->shape, (Shape{2, 3}));
  EXPECT_EQ(data->info.target.classes, 3);
  EXPECT_EQ(data->train.count + data->test.count, 10);
  EXPECT_EQ(std::ssize(data->train.labels()), data->train.count * 6);
  EXPECT_NE(refusal({}).find("a network whose input 'numbers' is [height, width, channels]"),
            std::string::npos);
}

// Ordinary pictures with a class for each pixel.
TEST_F(ShapedArrays, LabelsOfPixels) {
  std::vector<uint8_t> x(20 * 2 * 2), y(20 * 2 * 2);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint8_t>(i), y[i] = x[i] % 4;
  put({array("x", NpyType::kUint8, {20, 2, 2}, x), array("y", NpyType::kUint8, {20, 2, 2}, y)});
  const auto data = load({});
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_EQ(data->info.find(kLabelTensor)->shape, (Shape{2, 2}));
  EXPECT_EQ(data->info.target.classes, 4);
  EXPECT_EQ(data->train.count, 16);
  for (const ExampleSet* set : {&data->train, &data->test}) {
    ASSERT_EQ(set->labels().size(), set->pixels().size());
    for (size_t i = 0; i < set->labels().size(); ++i) {
      EXPECT_EQ(set->labels()[i], set->pixels()[i] % 4);
    }
  }
  EXPECT_NE(refusal({.size = {4, 4}}).find("neither --input-size nor other channels"),
            std::string::npos);
}

// Places of -1 have no label: they make no class, and batches have -1 again.
TEST_F(ShapedArrays, PlacesMayHaveNoLabel) {
  std::vector<int32_t> y = {0, 1, -1, -1, 2, 0, 1, -1, 1, 0, 0, 2};
  const std::vector<uint8_t> pixels = {10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120};
  const auto examples_have = [&](const ExampleSet& set, const Augmentation& augmentation) {
    const Examples examples = examples_of(set, augmentation, 7);
    const bool is_label_first = examples.specs[0].name == kLabelTensor;
    for (uint32_t n = 0; n < set.count; ++n) {
      std::vector<int32_t> labels(3, 77);
      std::vector<int16_t> inputs(6);
      std::byte* const places[] = {
          reinterpret_cast<std::byte*>(is_label_first ? static_cast<void*>(labels.data())
                                                      : static_cast<void*>(inputs.data())),
          reinterpret_cast<std::byte*>(is_label_first ? static_cast<void*>(inputs.data())
                                                      : static_cast<void*>(labels.data()))};
      examples.write(0, n, places);
      std::vector<int32_t> wanted(y.begin() + n * 3, y.begin() + n * 3 + 3);
      std::sort(labels.begin(), labels.end());
      std::sort(wanted.begin(), wanted.end());
      EXPECT_EQ(labels, wanted);
    }
  };
  for (const bool are_pictures : {false, true}) {
    const std::vector<float> numbers = numbers_of(false);
    const auto x = [&](const char* name) {
      return are_pictures ? array(name, NpyType::kUint8, {4, 1, 3}, pixels)
                          : array(name, NpyType::kFloat, {4, 3, 2}, numbers);
    };
    const std::vector<int64_t> dims =
        are_pictures ? std::vector<int64_t>{4, 1, 3} : std::vector<int64_t>{4, 3};
    const auto put_labels = [&] {
      put({x("x_train"), array("y_train", NpyType::kInt32, dims, y), x("x_test"),
           array("y_test", NpyType::kInt32, dims, y)});
    };
    const DataOptions options = are_pictures ? DataOptions() : shaped(Shape{3, 2});
    put_labels();
    const auto data = load(options);
    ASSERT_TRUE(data.ok()) << data.error().message;
    EXPECT_EQ(data->info.target.classes, 3);
    EXPECT_TRUE(std::any_of(data->info.notes.begin(), data->info.notes.end(), [](auto& note) {
      return note.find("3 labels are -1 and count nothing") != std::string::npos;
    }));
    EXPECT_EQ(std::ranges::count(data->train.labels(), kNoLabel), 3);
    examples_have(data->train, {});
    if (are_pictures) examples_have(data->train, {.flip = 1});
    std::swap(y[0], y[2]);
    y[0] = -2;
    put_labels();
    EXPECT_NE(refusal(options).find("no whole number from -1 to 65534"), std::string::npos);
    y[0] = 0, y[2] = -1;
  }
}

}  // namespace
}  // namespace mantissa

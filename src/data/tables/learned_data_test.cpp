// The columns and classes of the network that training starts from, in other data.
#include "data/tables/learned_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/test_folder.h"
#include "data/datasets/dataset.h"
#include "formats/pictures/png.h"
#include "tensor/table_numbers.h"

namespace mantissa {
namespace {

using Texts = std::vector<std::string>;

TableSchema learned_schema() {
  return {.columns = {{.name = "a", .mean = 2, .deviation = 4},
                      {.name = "colour", .categories = {"blue", "red"}},
                      {.name = "b", .mean = -1, .deviation = 0.5}},
          .target = {.name = "y", .categories = {"high", "low", "mid"}}};
}

bool has_line(const Texts& lines, const std::string& line) {
  return std::find(lines.begin(), lines.end(), line) != lines.end();
}

// A CSV file whose rows a network knows already.
class LearnedTable : public testing::Test {
 protected:
  // The rows stand there ten times, so that texts are categories.
  Result<Dataset> load(const std::string& rows, bool is_exact = false) {
    const size_t names = rows.find('\n') + 1;
    std::string train = rows.substr(0, names);
    for (int i = 0; i < 10; ++i) train += rows.substr(names);
    put_file(folder_ / "train.csv", train);
    put_file(folder_ / "test.csv", train);
    DataOptions options;
    options.learned = LearnedData{.source = "runs/a", .table = learned_, .is_exact = is_exact};
    return load_dataset(folder_.path(), true, true, options);
  }
  std::string refusal(const std::string& train, bool is_exact = false) {
    const auto data = load(train, is_exact);
    return data.ok() ? "accepted" : data.error().message;
  }
  TableSchema learned_ = learned_schema();
  TestFolder folder_;
};

TEST_F(LearnedTable, HasTheKnownOrderMeansAndTexts) {
  auto data = load("b,colour,a,y\n-0.5,red,6,low\n-1.5,blue,2,high\n-1,red,2,mid\n");
  ASSERT_TRUE(data.ok()) << data.error().message;
  Dataset known = std::move(*data);
  constexpr int16_t kOne = 1 << -kFeatureExponent;
  std::vector<int16_t> numbers = known.train.tensors[0].as<int16_t>();
  ASSERT_EQ(numbers.size(), size_t{10 * 12});
  numbers.resize(12);
  EXPECT_EQ(numbers, (std::vector<int16_t>{kOne, 0, kOne, kOne, 0, kOne, 0, -kOne, 0, 0, kOne, 0}));
  EXPECT_TRUE(has_line(known.info.notes,
                       "columns, means and deviations are those of runs/a: the columns are 'a', "
                       "'colour' and 'b' there, and 'b', 'colour' and 'a' here"));
}

TEST_F(LearnedTable, NeedsTheKnownColumns) {
  const std::string of_three = "a,colour,c,y\n1,red,2,low\n2,blue,3,high\n3,red,5,mid\n";
  EXPECT_NE(refusal(of_three).find("from: runs/a reads the columns 'a', 'colour' and 'b', and the "
                                   "data have no input 'b'"),
            std::string::npos);
  // A network that is built for other columns, of another number, begins with layers of its own.
  const auto others = load("a,c,y\n1,2,low\n2,3,high\n3,5,mid\n");
  ASSERT_TRUE(others.ok()) << others.error().message;
  EXPECT_EQ(others->info.table->columns[0].mean, 2);
  EXPECT_EQ(others->info.table->columns[1].name, "c");
}

TEST_F(LearnedTable, LeavesOutColumnsThatAnExactNetworkDoesNotRead) {
  const auto data = load("c,b,colour,a,y\n1,-0.5,red,6,low\n2,-1.5,blue,2,high\n", true);
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_EQ(data->info.table->features(), 4);
  EXPECT_EQ(data->info.target.names, (Texts{"high", "low", "mid"})) << "with those that are missing";
  EXPECT_EQ(data->train.labels()[0], 1);
  EXPECT_EQ(data->train.labels()[1], 0);
  EXPECT_TRUE(has_line(data->info.notes, "the columns 'c' are left out: runs/a does not read them"));
}

TEST_F(LearnedTable, OtherTargetsAreLearnedAnewOrRefused) {
  const std::string other = "a,colour,b,y\n1,red,2,tall\n2,blue,3,small\n";
  const auto data = load(other);
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_EQ(data->info.target.names, (Texts{"small", "tall"}));
  EXPECT_EQ(data->info.table->columns[2].mean, -1);
  EXPECT_NE(refusal(other, true).find("runs/a has no class 'small' and 'tall', and the data have"),
            std::string::npos);
  EXPECT_NE(refusal("a,colour,b,y\n1,red,2,1.5\n2,blue,3,2.5\n3,red,5,4.25\n", true)
                .find("runs/a predicts the classes of y, and the data have the numbers of y"),
            std::string::npos);
}

TEST_F(LearnedTable, PredictedNumbersHaveTheKnownUnits) {
  learned_.target = {.name = "y", .mean = 10, .deviation = 2};
  const auto data = load("a,colour,b,y\n1,red,2,12\n2,blue,3,8.5\n3,red,5,14\n");
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_EQ(data->info.target.numbers[0].mean, 10);
  EXPECT_EQ(data->info.target.numbers[0].deviation, 2);
}

TEST(LearnedClasses, AreMatchedByName) {
  TestFolder folder;
  uint8_t value = 1;
  for (const char* name : {"train/cat/1.png", "train/dog/1.png", "test/cat/1.png"}) {
    std::filesystem::create_directories((folder / name).parent_path());
    ASSERT_TRUE(write_png(folder / name, Image{2, 2, 1, std::vector<uint8_t>(4, value++)}).ok());
  }
  const auto load = [&](const Texts& classes, bool is_exact) {
    DataOptions options;
    options.learned = LearnedData{.source = "a", .classes = classes, .is_exact = is_exact};
    return load_dataset(folder.path(), true, true, options);
  };
  const auto swapped = load({"dog", "cat"}, false);
  ASSERT_TRUE(swapped.ok()) << swapped.error().message;
  EXPECT_EQ(swapped->train.labels(), (std::vector<Label>{1, 0}));
  EXPECT_EQ(swapped->info.target.names, (Texts{"dog", "cat"}));
  EXPECT_EQ(load({"cow", "dog", "cat"}, false)->info.target.classes, 2) << "they are learned anew";
  const auto fewer = load({"cow", "dog", "cat"}, true);
  ASSERT_TRUE(fewer.ok()) << fewer.error().message;
  EXPECT_EQ(fewer->train.labels(), (std::vector<Label>{2, 1}));
  EXPECT_EQ(fewer->info.target.classes, 3);
  EXPECT_EQ(load({"cat", "hen"}, false)->train.labels(), (std::vector<Label>{0, 1}));
  const auto others = load({"cat", "hen"}, true);
  ASSERT_FALSE(others.ok());
  EXPECT_NE(others.error().message.find("a tells 'cat' and 'hen' apart"), std::string::npos);
}

TEST(LearnedData, TheFirstDifferenceIsNamed) {
  TableSchema other = learned_schema();
  EXPECT_EQ(differing_columns(learned_schema(), other), "");
  other.columns[2].deviation = 2;
  EXPECT_EQ(differing_columns(learned_schema(), other),
            "the column 'b' has the deviation 0.5 there, and 2 here");
  other.columns[1].categories = {"red"};
  EXPECT_EQ(differing_columns(learned_schema(), other),
            "the column 'colour' has other texts there than here");
  EXPECT_EQ(differing_classes({"0", "1"}, {"cat", "dog"}), "") << "numbers tell nothing";
  EXPECT_EQ(differing_classes({"dog", "cat"}, {"cat", "dog"}),
            "the classes are 'dog' and 'cat' there, and 'cat' and 'dog' here");
}

}  // namespace
}  // namespace mantissa

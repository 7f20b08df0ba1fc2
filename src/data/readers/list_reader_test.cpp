// Pictures in one folder, with lists of their splits and classes.
#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "data/datasets/dataset.h"
#include "formats/pictures/png.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

class Lists : public testing::Test {
 protected:
  // A picture of one pixel, whose value says which it is.
  void put_picture(const std::string& name, uint8_t value) {
    fs::create_directories((folder_ / name).parent_path());
    const Status status = write_png(folder_ / name, {1, 1, 1, {value}});
    ASSERT_TRUE(status.ok()) << status.error().message;
  }
  void SetUp() override {
    for (int i = 0; i < 8; ++i) {
      put_picture("p/" + std::to_string(i) + ".png", static_cast<uint8_t>(i));
    }
  }
  void put(const std::string& name, const std::string& text) { put_file(folder_ / name, text); }
  Dataset load() {
    auto data = load_dataset(folder_.path(), true, true);
    EXPECT_TRUE(data.ok()) << data.error().message;
    return data.ok() ? std::move(*data) : Dataset();
  }
  std::string refusal() {
    const auto data = load_dataset(folder_.path(), true, true);
    return data.ok() ? "accepted" : data.error().message;
  }

  TestFolder folder_;
};

using Pixels = std::vector<uint8_t>;
using Labels = std::vector<Label>;

TEST_F(Lists, OneFileWithSplitsAndClasses) {
  put("labels.csv",
      "split,label,image\ntrain,dog,p/0.png\ntest,cat,p/1.png\ntrain,cat,p/2.png\n"
      "valid,dog,p/3.png\n");
  const Dataset data = load();
  EXPECT_EQ(data.info.kind, "lists of pictures");
  EXPECT_EQ(data.info.target.names, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(data.train.pixels(), (Pixels{0, 2}));
  EXPECT_EQ(data.train.labels(), (Labels{1, 0}));
  EXPECT_EQ(data.validation.pixels(), (Pixels{3}));
  EXPECT_EQ(data.test.pixels(), (Pixels{1}));
  EXPECT_EQ(data.test.labels(), (Labels{0}));
}

TEST_F(Lists, WithoutNames) {
  put("all.txt", "p/0.png,train,10\np/1.png,dev,9\np/2.png,train,9\np/3.png,holdout,10\n");
  const Dataset data = load();
  EXPECT_EQ(data.info.target.names, (std::vector<std::string>{"9", "10"}));
  EXPECT_EQ(data.train.labels(), (Labels{1, 0}));
  EXPECT_EQ(data.validation.count, 1);
  EXPECT_EQ(data.test.pixels(), (Pixels{3}));
}

TEST_F(Lists, AListForEachSplit) {
  put("train.txt", "p/0.png 0\np/1.png 1\n");
  put("test.txt", "p/2.png 1\n");
  const Dataset data = load();
  EXPECT_EQ(data.train.labels(), (Labels{0, 1}));
  EXPECT_EQ(data.test.labels(), (Labels{1}));
}

TEST_F(Lists, ClassesFromFoldersAndShortenedPaths) {
  put_picture("images/cat/1.png", 7);
  put_picture("images/dog/2.png", 9);
  put("train.txt", "cat/1\ndog/2\n");
  put("test.txt", "dog/2\n");
  const Dataset data = load();
  EXPECT_EQ(data.info.target.names, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(data.train.pixels(), (Pixels{7, 9}));
  EXPECT_EQ(data.test.labels(), (Labels{1}));
}

TEST_F(Lists, WithoutTestPicturesSomeAreKept) {
  std::string rows = "path,category\n";
  for (int i = 0; i < 8; ++i)
    rows += "p/" + std::to_string(i) + ".png," + (i < 4 ? "a" : "b") + "\n";
  put("labels.csv", rows);
  const Dataset data = load();
  EXPECT_EQ(data.train.count, 6);
  EXPECT_EQ(data.test.labels(), (Labels{0, 1}));
}

TEST_F(Lists, Errors) {
  const auto expect = [&](const std::string& part) {
    EXPECT_NE(refusal().find(part), std::string::npos) << refusal();
  };
  put("labels.csv", "file,split,class\np/0.png,train,a\np/1.png,later,a\n");
  expect("line 3: 'later' is no split");
  put("labels.csv", "file,split,class\np/0.png,train,a\np/1.png,test,\n");
  expect("line 3: there is no class");
  put("labels.csv", "file,split,class\np/0.png,train,a\np/1.png,test,b\n");
  expect("is of the class 'b', of which there are no training pictures");
  put("labels.csv", "file,split,class\np/0.png,train,a\np/nothing.png,test,a\n");
  expect("nothing.png");
}

// A file beside folders of classes is a list only if it says more than they do.
TEST_F(Lists, OtherFilesArePassedOver) {
  put("names.txt", "p/0.png\np/1.png\n");
  put_picture("q/8.png", 8);
  EXPECT_EQ(load().info.kind, "folders of pictures");
}

}  // namespace
}  // namespace mantissa

#include "data/datasets/dataset.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "base/hash.h"
#include "base/test_folder.h"
#include "data/datasets/readers.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

using Bytes = std::vector<uint8_t>;
using Labels = std::vector<Label>;

constexpr const char* kInstalled = "/usr/share/datasets/fashion-mnist";

void put_idx(const fs::path& path, const std::vector<uint32_t>& dims, const Bytes& data) {
  Bytes file = {0, 0, 8, static_cast<uint8_t>(dims.size())};
  for (const uint32_t dim : dims) {
    for (const int shift : {24, 16, 8, 0}) file.push_back(static_cast<uint8_t>(dim >> shift));
  }
  file.insert(file.end(), data.begin(), data.end());
  put_file(path, file);
}

Bytes counting(size_t size) {
  Bytes bytes(size);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  return bytes;
}

// A folder with 4 train and 2 test pictures of 2 x 3, which tests then spoil.
class DatasetFolder : public testing::Test {
 protected:
  DatasetFolder() {
    put_idx(train_images(), {4, 2, 3}, counting(24));
    put_idx(train_labels(), {4}, {0, 2, 1, 2});
    put_idx(test_images(), {2, 2, 3}, counting(12));
    put_idx(test_labels(), {2}, {1, 0});
  }
  fs::path train_images() const { return folder_ / "train-images-idx3-ubyte"; }
  fs::path train_labels() const { return folder_ / "train-labels-idx1-ubyte"; }
  fs::path test_images() const { return folder_ / "t10k-images-idx3-ubyte"; }
  fs::path test_labels() const { return folder_ / "t10k-labels-idx1-ubyte"; }

  // The error of inspecting, which must name both files.
  void expect_refusal(const std::string& part, const fs::path& a, const fs::path& b) {
    const auto info = inspect_dataset(folder_.path().string());
    ASSERT_FALSE(info.ok());
    for (const std::string& text : {part, a.string(), b.string()}) {
      EXPECT_NE(info.error().message.find(text), std::string::npos) << info.error().message;
    }
    EXPECT_FALSE(load_dataset(folder_.path().string(), true, true).ok());
  }
  TestFolder folder_;
};

TEST_F(DatasetFolder, IsDescribedFromItsHeaders) {
  const auto info = inspect_dataset(folder_.path().string());
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_EQ(info->name, folder_.path().string());
  EXPECT_EQ(info->specs[0].shape, (Shape{2, 3, 1}));
  EXPECT_EQ(info->target.classes, 3);
  EXPECT_EQ(info->train_count, 4);
  EXPECT_EQ(info->test_count, 2);
  EXPECT_EQ(info->target.names, (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(info->bytes, 6 * (6 + 2));  // labels take two bytes
}

TEST_F(DatasetFolder, LoadsTheSplitsThatAreWanted) {
  const auto both = load_dataset(folder_.path().string(), true, true);
  ASSERT_TRUE(both.ok()) << both.error().message;
  EXPECT_EQ(both->train.count, 4);
  EXPECT_EQ(both->train.picture_form().bytes(), 6);
  EXPECT_EQ(both->train.pixels(), counting(24));
  EXPECT_EQ(both->train.labels(), (Labels{0, 2, 1, 2}));
  EXPECT_EQ(both->test.pixels(), counting(12));
  EXPECT_EQ(both->test.labels(), (Labels{1, 0}));
  EXPECT_EQ(both->info.test_count, 2);
  const auto test = load_dataset(folder_.path().string(), false, true);
  ASSERT_TRUE(test.ok());
  EXPECT_EQ(test->train.count, 0);
  EXPECT_TRUE(test->train.pixels().empty());
  EXPECT_EQ(test->test.count, 2);
  EXPECT_EQ(test->info.train_count, 4);
}

TEST_F(DatasetFolder, MayHaveColour) {
  put_idx(train_images(), {4, 1, 2, 3}, counting(24));
  put_idx(test_images(), {2, 1, 2, 3}, counting(12));
  const auto set = load_dataset(folder_.path().string(), true, false);
  ASSERT_TRUE(set.ok()) << set.error().message;
  EXPECT_EQ(set->train.picture_form().channels, 3);
  EXPECT_EQ(channel_means(set->train).at(kPixelTensor),
            (std::vector<int>{11, 12, 13}));  // 10.5, 11.5, 12.5
}

TEST_F(DatasetFolder, MustBeConsistent) {
  put_idx(train_labels(), {3}, {0, 1, 2});
  expect_refusal("4 pictures and 3 labels", train_images(), train_labels());
  put_idx(train_labels(), {4}, {0, 1, 1, 0});
  put_idx(test_labels(), {2}, {1, 2});
  expect_refusal("largest label is 1 in train and 2 in test", train_labels(), test_labels());
  put_idx(test_labels(), {2}, {1, 1});
  put_idx(test_images(), {2, 3, 2}, counting(12));
  expect_refusal("differ in size", train_images(), test_images());
}

TEST_F(DatasetFolder, MustHaveUsablePictures) {
  put_idx(test_images(), {0, 2, 3}, {});
  put_idx(test_labels(), {0}, {});
  expect_refusal("there are no pictures", test_images(), test_images());
  put_idx(test_images(), {2, 6}, counting(12));
  expect_refusal("3 or 4 dimensions", test_images(), test_images());
  put_idx(test_images(), {2, 1, 3, 2}, counting(12));
  expect_refusal("1 or 3 channels", test_images(), test_images());
  put_idx(test_images(), {2, 2, 3}, counting(11));
  expect_refusal("cut short", test_images(), test_images());
  put_idx(test_images(), {2, 2, 3}, counting(12));
  put_idx(test_labels(), {2, 1}, {0, 0});
  expect_refusal("1 dimension", test_labels(), test_labels());
}

TEST_F(DatasetFolder, MustHaveAllFiles) {
  fs::remove(test_labels());
  expect_refusal("neither", test_labels(), test_labels().string() + ".gz");
}

TEST_F(DatasetFolder, MayHaveNamesWithADot) {
  const auto expected = load_dataset(folder_.path().string(), true, true);
  for (const fs::path& path : {train_images(), train_labels(), test_images(), test_labels()}) {
    std::string name = path.filename().string();
    name.replace(name.find("-idx"), 4, ".idx");
    fs::rename(path, folder_ / name);
    fs::create_directory(path);  // as in an archive that has both
  }
  const auto set = load_dataset(folder_.path().string(), true, true);
  ASSERT_TRUE(set.ok()) << set.error().message;
  EXPECT_EQ(data_sha256(*set), data_sha256(*expected));
  fs::remove(folder_ / "train-labels.idx1-ubyte");
  const auto info = inspect_dataset(folder_.path().string());
  ASSERT_FALSE(info.ok());
  EXPECT_NE(info.error().message.find("train-labels.idx1-ubyte"), std::string::npos)
      << info.error().message;
}

TEST_F(DatasetFolder, IsBroughtToAnotherForm) {
  DataOptions options;
  options.size = {4, 6};
  options.channels = 3;
  options.classes = 5;
  const auto set = load_dataset(folder_.path().string(), true, true, options);
  ASSERT_TRUE(set.ok()) << set.error().message;
  EXPECT_EQ(set->info.kind, "IDX files");
  EXPECT_EQ(set->info.specs[0].shape, (Shape{4, 6, 3}));
  EXPECT_EQ(set->info.target.names, (std::vector<std::string>{"0", "1", "2", "3", "4"}));
  EXPECT_EQ(set->info.bytes, 6 * (4 * 6 * 3 + 2));
  EXPECT_EQ(set->train.labels(), (Labels{0, 2, 1, 2}));
  Bytes picture(72);
  fit_picture(counting(12).data() + 6, {2, 3, 1}, {4, 6, 3}, picture.data());
  EXPECT_EQ(Bytes(set->test.pixels().begin() + 72, set->test.pixels().end()), picture);
  options.classes = 2;
  const auto refused = inspect_dataset(folder_.path().string(), options);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("has 3 classes"), std::string::npos);
}

TEST_F(DatasetFolder, SaysWhichClassesASplitLacks) {
  const auto info = inspect_dataset(folder_.path().string());
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->notes, (std::vector<std::string>{"the test examples lack 1 of 3 classes: 2"}));
}

TEST(Dataset, SaysWhatItUnderstands) {
  const TestFolder folder;
  const auto info = inspect_dataset(folder.path().string());
  ASSERT_FALSE(info.ok());
  for (const char* kind : {"IDX files", "CIFAR-10", "CIFAR-100", "folders of pictures"}) {
    EXPECT_NE(info.error().message.find(kind), std::string::npos) << info.error().message;
  }
}

TEST(Dataset, SaysWhereElseOneLies) {
  const TestFolder folder;
  fs::create_directories(folder / "a/b");
  put_file(folder / "a/b/data_batch_1.bin", std::string("x"));
  const auto refusal = [](const fs::path& path) {
    const auto info = inspect_dataset(path.string());
    return info.ok() ? "accepted" : info.error().message;
  };
  const std::string b = "'" + (folder / "a/b").string() + "'";
  EXPECT_NE(refusal(folder.path()).find(b + " holds CIFAR-10, binary: give that"),
            std::string::npos)
      << refusal(folder.path());
  EXPECT_NE(refusal(folder / "a/b/data_batch_1.bin").find("give the folder that holds it, " + b),
            std::string::npos)
      << refusal(folder / "a/b/data_batch_1.bin");
}

TEST(Dataset, SaysWhereItLooked) {
  EXPECT_NE(inspect_dataset("fashion").error().message.find("or a folder with IDX files"),
            std::string::npos);
  const auto info = inspect_dataset("fashion-mnist");
  ASSERT_EQ(info.ok(), fs::exists(kInstalled));
  if (!info.ok()) {
    EXPECT_NE(info.error().message.find("package dataset-fashion-mnist"), std::string::npos);
  }
}

TEST(Dataset, LooksInMantissaDataFirst) {
  const TestFolder folder;
  fs::create_directory(folder / "fashion-mnist");
  setenv("MANTISSA_DATA", folder.path().c_str(), 1);
  const auto info = inspect_dataset("fashion-mnist");
  unsetenv("MANTISSA_DATA");
  ASSERT_FALSE(info.ok());
  EXPECT_NE(info.error().message.find(folder.path().string()), std::string::npos);
}

TEST(Dataset, SaysWhichPicturesFindNoMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers end the process where memory is refused";
#endif
  for (const int64_t count : {int64_t{1} << 40, int64_t{1} << 62}) {
    const auto set = empty_set(count, {28, 28, 1});
    ASSERT_FALSE(set.ok());
    EXPECT_EQ(set.error().code, ErrorCode::kFailed);
    const std::string start = "no memory for " + std::to_string(count) + " pictures of 28x28x1: ";
    EXPECT_EQ(set.error().message.find(start), 0u) << set.error().message;
  }
}

TEST(ChannelMeans, OfAnEmptySetAreZero) {
  EXPECT_EQ(channel_means(picture_set({0, 0, 3}, {}, {})).at(kPixelTensor),
            (std::vector<int>{0, 0, 0}));
  EXPECT_TRUE(channel_means({}).empty());
}

// A line such as "VmHWM:  1234 kB" of this process's status, in bytes.
int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    int64_t kibibytes = 0;
    if (word == key + ":" && status >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

TEST(FashionMnist, LoadsWithoutASecondCopy) {
  if (!fs::exists(kInstalled)) GTEST_SKIP() << "needs Debian's package dataset-fashion-mnist";
  const auto info = inspect_dataset("fashion-mnist");
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_EQ(info->train_count, 60'000);
  EXPECT_EQ(info->test_count, 10'000);
  EXPECT_EQ(info->target.classes, 10);
  EXPECT_EQ(info->target.names[9], "Ankle boot");
  EXPECT_EQ(info->bytes, 70'000 * 786);

  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak restarts from here
  const int64_t before = status_bytes("VmRSS");
  const auto set = load_dataset("fashion-mnist", true, true);
  ASSERT_TRUE(set.ok()) << set.error().message;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(status_bytes("VmHWM") - before, info->bytes + (int64_t{2} << 20));
#else
  EXPECT_GT(before, 0);
#endif
  EXPECT_EQ(std::accumulate(set->train.labels().begin(), set->train.labels().end(), 0), 270'000);
  EXPECT_EQ(channel_means(set->train).at(kPixelTensor), (std::vector<int>{73}));  // 72.94
}

TEST(DataSha256, IsOfSizesPixelsAndLabels) {
  const PictureForm form = {1, 2, 1};
  const Dataset data{.info = {},
                     .train = picture_set(form, {1, 2, 3, 4}, {0, 1}),
                     .test = picture_set(form, {5, 6}, {1})};
  const std::string expected =
      sha256_hex(std::string_view("2x1x2x1\n\1\2\3\4\0\1"
                                  "1x1x2x1\n\5\6\1",
                                  25));
  EXPECT_EQ(data_sha256(data), expected);
  Dataset other = data;
  other.test = picture_set(form, {5, 6}, {0});
  EXPECT_NE(data_sha256(other), expected);
  other = data;
  other.train = picture_set({2, 1, 1}, {1, 2, 3, 4}, {0, 1});
  EXPECT_NE(data_sha256(other), expected);
  other = data;
  other.validation = data.test;
  EXPECT_NE(data_sha256(other), expected);
  // The upper bytes of labels count only where there are any.
  other = data;
  other.train = picture_set(form, {1, 2, 3, 4}, {256, 1});
  EXPECT_EQ(data_sha256(other), sha256_hex(std::string_view("2x1x2x1\n\1\2\3\4\0\1"
                                                            "upper bytes of labels\n\1\0"
                                                            "1x1x2x1\n\5\6\1",
                                                            49)));
}

}  // namespace
}  // namespace mantissa

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/system/test_threads.h"
#include "base/test_folder.h"
#include "data/datasets/dataset.h"
#include "formats/pictures/png.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

using Bytes = std::vector<uint8_t>;
using Labels = std::vector<Label>;

class PictureFolder : public testing::Test {
 protected:
  // A picture all of one value.
  void put(const std::string& name, uint8_t value, int64_t height = 4, int64_t width = 4,
           int64_t channels = 1) {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    const Image image{height, width, channels,
                      Bytes(static_cast<size_t>(height * width * channels), value)};
    ASSERT_TRUE(write_png(path, image).ok());
  }
  void put_text(const std::string& name) {
    fs::create_directories((folder_ / name).parent_path());
    put_file(folder_ / name, std::string("no picture"));
  }
  Result<Dataset> load(const DataOptions& options = {}) {
    return load_dataset(folder_.path().string(), true, true, options);
  }
  std::string refusal() {
    const auto set = load();
    return set.ok() ? "accepted" : set.error().message;
  }
  TestFolder folder_;
};

// The first byte of each picture.
Bytes first_bytes(const ExampleSet& set) {
  Bytes bytes;
  for (int64_t i = 0; i < set.count; ++i) {
    bytes.push_back(set.pixels()[static_cast<size_t>(i * set.picture_form().bytes())]);
  }
  return bytes;
}

bool has_note(const DatasetInfo& info, const std::string& part) {
  return std::any_of(info.notes.begin(), info.notes.end(),
                     [&](const auto& note) { return note.find(part) != std::string::npos; });
}

TEST_F(PictureFolder, IsReadByTheThreadsThereAre) {
  for (const char* name : {"a/1.png", "a/2.png", "b/1.png", "b/2.png"}) put(name, 7);
  const ThreadLimit limit(1);
  const auto set = load({.size = {}, .threads = 4});
  ASSERT_TRUE(set.ok()) << set.error().message;
  EXPECT_EQ(set->train.count + set->test.count, 4);
  EXPECT_TRUE(has_note(set->info, "reading pictures: only 2 of 4 threads"));
}

TEST_F(PictureFolder, HasAFolderForEachClass) {
  put("train/dog/b.png", 2);
  put("train/dog/a.png", 1);
  put("train/cat/deep/er/z.PNG", 5);
  put("train/cat/a.png", 4);
  put("val/dog/x.png", 9);
  put_text("train/cat/notes.txt");
  put_text("train/cat/.hidden.png");
  put_text("train/loose.png");
  fs::create_directories(folder_ / "train/empty");
  const auto set = load();
  ASSERT_TRUE(set.ok()) << set.error().message;
  EXPECT_EQ(set->info.kind, "folders of pictures");
  EXPECT_EQ(set->info.target.names, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(set->train.picture_form().channels, 1);
  EXPECT_EQ(set->train.labels(), (Labels{0, 0, 1, 1}));
  EXPECT_EQ(first_bytes(set->train), (Bytes{4, 5, 1, 2}));
  EXPECT_EQ(set->test.labels(), (Labels{1}));
  EXPECT_EQ(first_bytes(set->test), (Bytes{9}));
  EXPECT_TRUE(has_note(set->info, "notes.txt"));
  EXPECT_TRUE(has_note(set->info, "no classes: "));
  EXPECT_TRUE(has_note(set->info, "the test examples lack 1 of 2 classes: cat"));
}

TEST_F(PictureFolder, WithoutATestFolderKeepsATenthOfEachClass) {
  for (int i = 0; i < 30; ++i) put("cat/" + std::to_string(i) + ".png", static_cast<uint8_t>(i));
  for (int i = 0; i < 3; ++i) put("dog/" + std::to_string(i) + ".png", static_cast<uint8_t>(i));
  put("fox/only.png", 77);
  const auto set = load();
  ASSERT_TRUE(set.ok()) << set.error().message;
  const auto count = [](const ExampleSet& images, uint8_t label) {
    return std::count(images.labels().begin(), images.labels().end(), label);
  };
  EXPECT_EQ(count(set->train, 0), 27);
  EXPECT_EQ(count(set->test, 0), 3);
  EXPECT_EQ(count(set->train, 1), 2);
  EXPECT_EQ(count(set->test, 1), 1);
  EXPECT_EQ(count(set->train, 2), 1);
  EXPECT_EQ(count(set->test, 2), 0);
  EXPECT_TRUE(has_note(set->info, "there is no test folder"));
  // A function of the names: another picture leaves the others where they were, but for one.
  const Bytes before = first_bytes(set->test);
  put("cat/another.png", 200);
  const auto again = load();
  ASSERT_TRUE(again.ok());
  Bytes after = first_bytes(again->test), common;
  after.resize(3), after.shrink_to_fit();
  std::set_intersection(before.begin(), before.begin() + 3, after.begin(), after.end(),
                        std::back_inserter(common));
  EXPECT_GE(common.size(), 2u);
}

TEST_F(PictureFolder, MayHaveValidationPictures) {
  put("train/a/1.png", 1);
  put("train/b/1.png", 2);
  put("val/b/1.png", 3, 4, 4, 3);
  put("test/a/1.png", 4);
  const auto set = load();
  ASSERT_TRUE(set.ok()) << set.error().message;
  EXPECT_EQ(set->info.train_count, 2);
  EXPECT_EQ(set->info.validation_count, 1);
  EXPECT_EQ(set->info.test_count, 1);
  EXPECT_EQ(set->train.picture_form().channels, 3) << "those of validation count, too";
  EXPECT_EQ(set->info.bytes, 4 * (4 * 4 * 3 + 2));
  EXPECT_EQ(set->validation.labels(), (Labels{1}));
  EXPECT_EQ(first_bytes(set->validation), (Bytes{3}));
  const auto test = load_dataset(folder_.path().string(), false, true);
  ASSERT_TRUE(test.ok());
  EXPECT_EQ(test->validation.count, 0);
  put("val/c/1.png", 5);
  EXPECT_NE(refusal().find("val/c': there is no such class"), std::string::npos) << refusal();
}

TEST_F(PictureFolder, MixesSizesAndColours) {
  put("train/a/grey.png", 10, 3, 9);
  put("train/b/colour.png", 20, 90, 70, 3);
  put("test/a/grey.png", 30, 64, 64);
  const auto set = load();
  ASSERT_TRUE(set.ok()) << set.error().message;
  EXPECT_EQ(set->info.specs[0].shape, (Shape{64, 64, 3}));
  EXPECT_GT(set->info.loading_bytes, 90 * 70 * 3);
  EXPECT_TRUE(has_note(set->info, "3x9 to 90x70"));
  EXPECT_EQ(Bytes(set->train.pixels().begin(), set->train.pixels().begin() + 64 * 64 * 3),
            Bytes(64 * 64 * 3, 10));
  DataOptions options;
  options.size = {5, 6};
  options.channels = 1;
  const auto small = load(options);
  ASSERT_TRUE(small.ok());
  EXPECT_EQ(small->train.picture_form().bytes(), 30);
}

TEST_F(PictureFolder, IsTheSameForAnyNumberOfThreads) {
  for (int i = 0; i < 40; ++i) {
    put("train/" + std::to_string(i % 3) + "/" + std::to_string(i) + ".png",
        static_cast<uint8_t>(6 * i), 5 + i % 7, 4 + i % 5, i % 2 == 0 ? 1 : 3);
  }
  put("test/0/a.png", 1);
  const auto one = load();
  ASSERT_TRUE(one.ok());
  for (const int threads : {2, 7}) {
    DataOptions options;
    options.threads = threads;
    const auto many = load(options);
    ASSERT_TRUE(many.ok());
    EXPECT_EQ(many->train.pixels(), one->train.pixels());
    EXPECT_EQ(many->train.labels(), one->train.labels());
  }
}

TEST_F(PictureFolder, DamagedPicturesAreNamed) {
  put("train/a/good.png", 1);
  put("train/b/good.png", 2);
  put("test/a/good.png", 3);
  put_text("train/a/bad.png");
  EXPECT_NE(refusal().find("train/a/bad.png"), std::string::npos) << refusal();
  put_text("train/b/bad.jpg");
  EXPECT_NE(refusal().find("and 1 more"), std::string::npos) << refusal();
  fs::remove(folder_ / "train/a/bad.png");
  // No file at all, and none that can be read.
  fs::create_symlink("nowhere", folder_ / "train/b/lost.png");
  EXPECT_NE(refusal().find("and 1 more"), std::string::npos) << refusal();
  fs::remove(folder_ / "train/b/lost.png");
  // The header is right, the rest is missing.
  const std::string whole = get_file(folder_ / "train/a/good.png");
  put_file(folder_ / "train/b/bad.jpg", whole.substr(0, whole.size() - 15));
  EXPECT_NE(refusal().find("train/b/bad.jpg"), std::string::npos) << refusal();
}

TEST_F(PictureFolder, MustHaveClassesThatMatch) {
  put("train/a/1.png", 1);
  EXPECT_NE(refusal().find("no test pictures"), std::string::npos) << refusal();
  put("test/b/1.png", 1);
  EXPECT_NE(refusal().find("no such class"), std::string::npos) << refusal();
  fs::remove_all(folder_ / "train");
  fs::create_directories(folder_ / "train/a");
  EXPECT_NE(refusal().find("no training pictures in class folders"), std::string::npos)
      << refusal();
  fs::remove_all(folder_ / "test");
  EXPECT_NE(refusal().find("no pictures in its folders"), std::string::npos) << refusal();
}

// The number of a class does not fit a byte.
TEST_F(PictureFolder, MayHaveHundredsOfClasses) {
  constexpr int kClasses = 300;
  const auto name = [](int i) { return "class" + std::to_string(1000 + i); };
  for (int i = 0; i < kClasses; ++i) {
    put("train/" + name(i) + "/1.png", static_cast<uint8_t>(i % 251), 1, 1);
  }
  put("test/" + name(299) + "/1.png", 5, 1, 1);
  const auto set = load();
  ASSERT_TRUE(set.ok()) << set.error().message;
  EXPECT_EQ(set->info.target.classes, kClasses);
  EXPECT_EQ(set->info.target.names.back(), name(299));
  EXPECT_EQ(set->info.bytes, (kClasses + 1) * (1 + 2));
  ASSERT_EQ(set->train.count, kClasses);
  for (int i = 0; i < kClasses; ++i) {
    EXPECT_EQ(set->train.labels()[static_cast<size_t>(i)], i);
    EXPECT_EQ(set->train.pixels()[static_cast<size_t>(i)], i % 251);
  }
  EXPECT_EQ(set->test.labels(), Labels{299});
}

// While one lives, nobody may list the folder, not even root, who else may all.
class Unlistable {
 public:
  explicit Unlistable(fs::path folder) : folder_(std::move(folder)) {
    fs::permissions(folder_, fs::perms::owner_exec);
    if (is_root_) {
      EXPECT_EQ(seteuid(65534), 0);
    }
  }
  ~Unlistable() {
    if (is_root_) {
      EXPECT_EQ(seteuid(0), 0);
    }
    fs::permissions(folder_, fs::perms::owner_all);
  }
  Unlistable(const Unlistable&) = delete;
  Unlistable& operator=(const Unlistable&) = delete;

 private:
  fs::path folder_;
  bool is_root_ = geteuid() == 0;
};

TEST_F(PictureFolder, ThatCannotBeListedIsNotTakenForEmpty) {
  put("train/a/1.png", 1);
  put("test/a/1.png", 1);
  fs::permissions(folder_.path(), fs::perms::others_exec, fs::perm_options::add);
  for (const char* folder : {".", "train", "test"}) {
    const Unlistable unlistable(folder_ / folder);
    EXPECT_NE(refusal().find("Permission denied"), std::string::npos) << folder << refusal();
  }
  EXPECT_EQ(refusal(), "accepted");
}

RC_GTEST_PROP(PictureFolderOfAnything, IsADataSetOrAnError, ()) {
  const TestFolder folder;
  std::string valid;
  for (const char* name : {"a/1.png", "a/2.png", "b/1.png", "b/2.png"}) {
    fs::create_directories((folder / name).parent_path());
    RC_ASSERT(write_png(folder / name, {3, 3, 1, Bytes(9, 7)}).ok());
    valid = get_file(folder / name);
  }
  std::string damaged = valid;
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
    damaged[*rc::gen::inRange<size_t>(0, damaged.size())] = *rc::gen::arbitrary<char>();
  }
  damaged.resize(*rc::gen::inRange<size_t>(0, damaged.size() + 1));
  put_file(folder / "b/2.png", damaged);
  const auto set = load_dataset(folder.path().string(), true, true);
  if (set.ok()) {
    RC_ASSERT(set->train.count == 2 && set->test.count == 2);
  } else {
    RC_ASSERT(set.error().message.find("b/2.png") != std::string::npos);
  }
}

}  // namespace
}  // namespace mantissa

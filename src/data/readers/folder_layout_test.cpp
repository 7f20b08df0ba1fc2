#include "data/readers/folder_layout.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "base/test_folder.h"
#include "data/datasets/dataset.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

// Only names count here: the files are empty.
class Layout : public testing::Test {
 protected:
  void touch(const Names& names) {
    for (const std::string& name : names) {
      fs::create_directories((folder_ / name).parent_path());
      std::ofstream(folder_ / name).put('x');
    }
  }
  FolderLayout found(const std::string& below = "") {
    auto layout = find_layout(folder_.path() / below);
    EXPECT_TRUE(layout.ok()) << layout.error().message;
    return layout.ok() ? std::move(*layout) : FolderLayout{};
  }
  std::string refusal(const std::string& below = "") {
    const auto layout = find_layout(folder_.path() / below);
    return layout.ok() ? "accepted" : layout.error().message;
  }
  std::string path(const std::string& name) const { return "'" + (folder_ / name).string() + "'"; }
  TestFolder folder_;
};

bool has_note(const FolderLayout& layout, const std::string& part) {
  return std::any_of(layout.notes.begin(), layout.notes.end(),
                     [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

Names class_names(const ClassFolders& folders) {
  Names names;
  for (const ClassFiles& one : folders.classes) names.push_back(one.name);
  return names;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(SplitOf, KnowsTheUsualNames) {
  for (const char* name : {"train", "Train", "TRAINING", "training_set", "train-images",
                           "Training Data", "trainset"}) {
    EXPECT_EQ(split_of(name), Split::kTrain) << name;
  }
  for (const char* name : {"test", "Test", "testing", "Test_Set", "test.images"}) {
    EXPECT_EQ(split_of(name), Split::kTest) << name;
  }
  for (const char* name : {"val", "Valid", "VALIDATION", "validation_set", "val-pictures"}) {
    EXPECT_EQ(split_of(name), Split::kValidation) << name;
  }
  for (const char* name : {"", "trains", "strain", "steam train", "tests", "invalid", "value",
                           "train2", "été", "set", "images"}) {
    EXPECT_EQ(split_of(name), std::nullopt) << name;
  }
}

TEST(CheckClasses, RefusesMoreThanLabelsCanNumber) {
  ClassFolders folders;
  folders.root = "pictures";
  for (int i = 0; i < kMaxClasses; ++i) folders.classes.push_back({std::to_string(i), {"1.png"}});
  std::vector<std::string> notes;
  EXPECT_TRUE(check_classes(folders, notes).ok());
  folders.classes.push_back({"one more", {"1.png"}});
  const Status status = check_classes(folders, notes);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("65537 classes"), std::string::npos);
  EXPECT_NE(status.error().message.find("at most 65536"), std::string::npos);
}

TEST_F(Layout, SplitsHaveTheUsualNames) {
  for (const auto& [train, validation, test] :
       {std::tuple("train", "val", "test"), std::tuple("Train", "Valid", "Test"),
        std::tuple("training_set", "VALIDATION", "testing")}) {
    fs::remove_all(folder_ / "set");
    touch({std::string("set/") + train + "/a/1.png", std::string("set/") + train + "/b/1.png",
           std::string("set/") + validation + "/a/2.png", std::string("set/") + test + "/b/3.png"});
    const FolderLayout layout = found("set");
    EXPECT_EQ(class_names(layout.train), (Names{"a", "b"}));
    EXPECT_EQ(class_names(layout.validation), (Names{"a"}));
    EXPECT_EQ(class_names(layout.test), (Names{"b"}));
    EXPECT_TRUE(has_note(layout, "holds the validation pictures"));
  }
}

TEST_F(Layout, WithoutTestPicturesThoseOfValidationAreTaken) {
  touch({"train/a/1.png", "train/b/1.png", "validation/a/2.png"});
  const FolderLayout layout = found();
  EXPECT_EQ(class_names(layout.test), (Names{"a"}));
  EXPECT_TRUE(layout.validation.root.empty());
  EXPECT_TRUE(has_note(layout, path("validation") + " is taken for it, not for validation"));
}

TEST_F(Layout, TestPicturesWithoutLabelsAreNamed) {
  touch({"train/a/1.png", "train/b/1.png", "test/1.png", "test/2.jpg"});
  const FolderLayout layout = found();
  EXPECT_TRUE(layout.test.root.empty());
  EXPECT_TRUE(has_note(layout,
                       "passed over 2 pictures that lie in no class folder: they have no "
                       "label: " +
                           path("test/1.png")));
}

TEST_F(Layout, ASplitHasOneFolder) {
  touch({"train/a/1.png", "Training/a/1.png"});
  EXPECT_TRUE(has(refusal(), path("Training") + " and " + path("train") +
                                 " are both named as training pictures"))
      << refusal();
}

TEST_F(Layout, TestFoldersWithoutTrainingPicturesAreNoClasses) {
  touch({"cat/1.png", "dog/1.png", "Test/1.png"});
  EXPECT_TRUE(has(refusal(), path("Test") + " is named as test pictures")) << refusal();
  fs::rename(folder_ / "Test", folder_ / "valid");
  EXPECT_TRUE(has(refusal(), path("valid") + " is named as validation pictures")) << refusal();
  fs::rename(folder_ / "valid", folder_ / "vat");
  EXPECT_EQ(class_names(found().train), (Names{"cat", "dog", "vat"}));
}

TEST_F(Layout, TrainsAreAClassBesideOthers) {
  touch({"bus/1.png", "train/1.png"});
  EXPECT_TRUE(has(refusal(), path("train") + ": 1 pictures lie in no class folder")) << refusal();
  touch({"car/1.png"});
  EXPECT_EQ(class_names(found().train), (Names{"bus", "car", "train"}));
  EXPECT_TRUE(has_note(found(), path("train") + " is taken for a class"));
}

TEST_F(Layout, WhatIsNotReadIsCountedAndNamed) {
  touch({"train/a/1.png", "train/b/1.JPG", "train/b/deep/2.jpeg", "test/a/1.png", "train/loose.png",
         "train/a/.hidden.png", "train/a/.git/1.png", "train/a/x.webp", "train/a/notes.txt",
         "train/b/x.heic", "train/b/y.gif", "other/1.png", "readme.md", "loose.jpg"});
  fs::create_directories(folder_ / "train/empty");
  fs::create_symlink("nowhere", folder_ / "train/lost");
  fs::create_symlink("loop", folder_ / "train/a/loop");
  fs::create_directory_symlink(folder_ / "test/a", folder_ / "train/a/linked");
  fs::create_directory_symlink(folder_ / "test/a", folder_ / "train/c");
  const FolderLayout layout = found();
  EXPECT_EQ(class_names(layout.train), (Names{"a", "b", "c"}));
  EXPECT_EQ(layout.train.classes[0].files, (Names{"1.png"}));
  EXPECT_EQ(layout.train.classes[1].files, (Names{"1.JPG", "deep/2.jpeg"}));
  for (const std::string& note :
       {"passed over 5 not named as PNG or JPEG pictures: " + path("readme.md") + ", " +
            path("train/a/notes.txt") + ", " + path("train/a/x.webp") + ", ...",
        "passed over 2 links that lead nowhere: " + path("train/a/loop") + ", " +
            path("train/lost"),
        "classes only: " + path("train/a/linked"),
        "no label: " + path("loose.jpg") + ", " + path("train/loose.png"),
        "without pictures, which are no classes: " + path("train/empty"),
        "passed over 1 folders beside those that are read: " + path("other")}) {
    EXPECT_TRUE(has_note(layout, note)) << note;
  }
  EXPECT_EQ(layout.notes.size(), 6u);
}

// Whatever is named as a picture is read or an error, never passed over.
TEST_F(Layout, WhatIsNamedAsAPictureIsOne) {
  touch({"a/1.png", "b/1.png"});
  fs::create_symlink("nowhere", folder_ / "a/lost.png");
  ASSERT_EQ(mkfifo((folder_ / "b/pipe.jpg").c_str(), 0600), 0);
  const FolderLayout layout = found();
  EXPECT_EQ(layout.train.classes[0].files, (Names{"1.png", "lost.png"}));
  EXPECT_EQ(layout.train.classes[1].files, (Names{"1.png", "pipe.jpg"}));
}

TEST_F(Layout, OneLevelTooHighSaysWhatToGive) {
  touch({"p/set/train/a/1.png", "p/set/train/b/1.png", "p/set/test/a/1.png"});
  EXPECT_TRUE(has(refusal("p"), "give " + path("p/set") + " instead of " + path("p")));
  touch({"p/cats/1.png"});
  EXPECT_TRUE(has(refusal("p"), "give " + path("p/set"))) << refusal("p");
  EXPECT_TRUE(has(refusal(), "give " + path("p/set"))) << refusal();
  touch({"q/deep/set/cat/1.png", "q/deep/set/dog/1.png"});
  EXPECT_TRUE(has(refusal("q"), "give " + path("q/deep/set"))) << refusal("q");
  EXPECT_EQ(class_names(found("q/deep/set").train), (Names{"cat", "dog"}));
  touch({"s/set/train/cat/1.png", "s/set/train/dog/1.png"});
  EXPECT_TRUE(has(refusal("s"), "give " + path("s/set/train"))) << refusal("s");
  touch({"t/vehicles/train/steam/1.png", "t/vehicles/train/diesel/1.png", "t/animals/1.png"});
  EXPECT_EQ(class_names(found("t").train), (Names{"animals", "vehicles"}));
  touch({"r/train/set/cat/1.png", "r/train/set/dog/1.png", "r/test/set/cat/1.png"});
  EXPECT_TRUE(has(refusal("r"), "give " + path("r/train/set"))) << refusal("r");
}

TEST_F(Layout, OneLevelTooLowSaysWhatToGive) {
  touch({"train/a/1.png", "train/b/1.png", "test/a/1.png", "flat/a/1.png", "flat/b/1.png"});
  EXPECT_TRUE(has(refusal("train/a"), "such as in '" + folder_.path().string() + "'"))
      << refusal("train/a");
  EXPECT_TRUE(has(refusal("flat/b"), "such as in " + path("flat"))) << refusal("flat/b");
  EXPECT_TRUE(has_note(found("train"), path("test") +
                                           " lies beside this folder: to use both, give '" +
                                           folder_.path().string() + "'"));
}

TEST_F(Layout, FilesMayLieDeeperButThatIsSaid) {
  touch({"a/x/1.png", "a/y/1.png", "b/x/1.png"});
  const FolderLayout layout = found();
  EXPECT_EQ(class_names(layout.train), (Names{"a", "b"}));
  EXPECT_TRUE(has_note(layout, "no picture lies in a class folder itself"));
  touch({"b/2.png"});
  EXPECT_FALSE(has_note(found(), "no picture lies in a class folder itself"));
  fs::remove_all(folder_ / "a");
  EXPECT_TRUE(has_note(found(), "one class only, 'b'"));
}

}  // namespace
}  // namespace mantissa

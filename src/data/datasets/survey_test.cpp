#include "data/datasets/survey.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/test_folder.h"
#include "formats/pictures/png.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

using Bytes = std::vector<uint8_t>;

void put(const fs::path& path, const Image& image) {
  fs::create_directories(path.parent_path());
  ASSERT_TRUE(write_png(path, image).ok());
}

TEST(Survey, CountsAndFindsWhatIsOdd) {
  const TestFolder folder;
  for (uint8_t i = 0; i < 10; ++i) {
    put(folder / ("train/many/" + std::to_string(i) + ".png"), {2, 1, 1, {i, 0}});
  }
  put(folder / "train/few/1.png", {2, 1, 1, {100, 200}});
  put(folder / "test/many/1.png", {2, 1, 1, {3, 0}});
  put(folder / "test/many/2.png", {2, 1, 1, {3, 1}});
  put_file(folder / "train/few/bad.png", std::string("bad"));
  const std::string whole = get_file(folder / "test/many/1.png");
  put_file(folder / "test/many/cut.png", whole.substr(0, whole.size() - 14));
  Dataset pictures;
  const auto survey = survey_dataset(folder.path().string(), {}, pictures);
  ASSERT_TRUE(survey.ok()) << survey.error().message;
  EXPECT_EQ(survey->train_counts, (std::vector<int64_t>{1, 10}));
  EXPECT_EQ(survey->test_counts, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(survey->info.test_count, 2);
  EXPECT_EQ(survey->largest, (PictureSize{2, 1}));
  EXPECT_DOUBLE_EQ(survey->mean[0], 345.0 / 22);
  EXPECT_NEAR(survey->deviation[0], 45.164, 0.001);
  EXPECT_EQ(survey->duplicates, 1);
  ASSERT_EQ(survey->unreadable.size(), 2u);
  EXPECT_NE(survey->unreadable[0].find("few/bad.png"), std::string::npos);
  EXPECT_NE(survey->unreadable[1].find("many/cut.png"), std::string::npos);
  for (const char* part : {"unbalanced: 10 training examples of many, 1 of few",
                           "1 test pictures are training pictures", "lack 1 of 2 classes: few",
                           "2 files are no readable pictures"}) {
    const auto& notes = survey->info.notes;
    EXPECT_TRUE(std::any_of(notes.begin(), notes.end(), [&](const auto& note) {
      return note.find(part) != std::string::npos;
    })) << part;
  }
  EXPECT_EQ(pictures.train.count, 11);
  EXPECT_NE(survey->refusal.find("few/bad.png'"), std::string::npos) << survey->refusal;
  EXPECT_NE(survey->refusal.find("and 1 more"), std::string::npos) << survey->refusal;
}

TEST(Survey, CountsValidationPictures) {
  const TestFolder folder;
  put(folder / "Train/a/1.png", {1, 1, 1, {1}});
  put(folder / "Train/b/1.png", {1, 1, 1, {2}});
  put(folder / "Valid/a/1.png", {1, 1, 1, {1}});
  put(folder / "Test/a/1.png", {1, 1, 1, {3}});
  Dataset pictures;
  const auto survey = survey_dataset(folder.path().string(), {}, pictures);
  ASSERT_TRUE(survey.ok()) << survey.error().message;
  EXPECT_EQ(survey->refusal, "");
  EXPECT_EQ(survey->info.validation_count, 1);
  EXPECT_EQ(survey->validation_counts, (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(survey->duplicates, 0);
  const auto& notes = survey->info.notes;
  EXPECT_TRUE(std::any_of(notes.begin(), notes.end(), [](const std::string& note) {
    return note == "1 validation pictures are training pictures, too";
  }));
}

// A data set that training refuses for want of pictures is described all the same.
TEST(Survey, SaysThatASplitIsEmpty) {
  const TestFolder folder;
  put(folder / "a/1.png", {1, 1, 1, {7}});
  Dataset pictures;
  const auto survey = survey_dataset(folder.path().string(), {}, pictures);
  ASSERT_TRUE(survey.ok()) << survey.error().message;
  EXPECT_EQ(survey->info.train_count, 1);
  EXPECT_NE(survey->refusal.find("there are no test pictures"), std::string::npos);
}

TEST(ContactSheet, HasARowForEachClass) {
  const ExampleSet images = picture_set({1, 1, 1}, {10, 20, 30, 40}, {1, 0, 1, 1});
  const Image sheet = contact_sheet(images, 2, 2);
  // Pixels are not enlarged.
  EXPECT_EQ(sheet.height, 8);
  EXPECT_EQ(sheet.width, 8);
  const auto at = [&](int64_t y, int64_t x) {
    return sheet.pixels[static_cast<size_t>(y * 8 + x)];
  };
  EXPECT_EQ(at(2, 2), 20);
  EXPECT_EQ(at(5, 2), 10);
  EXPECT_EQ(at(5, 5), 30);
  EXPECT_EQ(at(2, 5), 96);
}

TEST(ContactSheet, StaysWithinWhatPngHolds) {
  const ExampleSet images = picture_set({200, 100, 3}, Bytes(60000, 7), {255});
  const Image sheet = contact_sheet(images, 256, 10);
  const TestFolder folder;
  EXPECT_TRUE(write_png(folder / "a.png", sheet).ok()) << sheet.height << " x " << sheet.width;
}

// Classes that are left out have no place in the picture.
TEST(ContactSheet, OfVeryManyClassesShowsTheFirst) {
  const ExampleSet images = picture_set({20, 20, 1}, Bytes(800, 7), {0, 65535});
  const Image sheet = contact_sheet(images, kMaxClasses, 10);
  EXPECT_EQ(std::count(sheet.pixels.begin(), sheet.pixels.end(), 7), 16 * 16);
  const TestFolder folder;
  EXPECT_TRUE(write_png(folder / "a.png", sheet).ok()) << sheet.height << " x " << sheet.width;
}

}  // namespace
}  // namespace mantissa

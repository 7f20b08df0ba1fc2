// The same pictures give the same weights, whatever files they come from.
#include "tests/training/picture_datasets.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "mantissa/mantissa.h"
#include "tests/harness.h"

namespace mantissa::testing {
namespace {

class PictureDatasets : public ::testing::Test {
 protected:
  // Trains a few steps; the hash of the weights, and the accuracy.
  std::pair<std::string, double> train_on(const std::string& data, Settings settings) {
    settings.insert({{"data", (folder_ / data).string()},
                     {"batch-size", "20"},
                     {"steps", "12"},
                     {"out", (folder_ / ("run-" + data)).string()}});
    const Outcome<TrainedRun> run = train(settings);
    EXPECT_EQ(run.error(), "");
    if (!run.ok()) return {};
    const auto summary = nlohmann::json::parse(run->summary_json);
    return {summary["weights_sha256"], summary["test_accuracy"]};
  }
  TestFolder folder_;
};

TEST_F(PictureDatasets, OfGreyPictures) {
  Dataset data;
  data.train = by_class(fashion_mnist().train, 200);
  data.test = by_class(fashion_mnist().test, 60);
  put_idx_dataset(folder_ / "idx", data);
  put_folder_dataset(folder_ / "png", data, false);
  const Settings settings = {{"model", "mlp"}, {"augment", "shift,flip"}};
  const auto idx = train_on("idx", settings);
  EXPECT_EQ(train_on("png", settings), idx);
}

TEST_F(PictureDatasets, OfColouredPicturesResized) {
  Dataset data;
  data.train = coloured(by_class(fashion_mnist().train, 200));
  data.test = coloured(by_class(fashion_mnist().test, 60));
  put_idx_dataset(folder_ / "idx", data);
  put_cifar_dataset(folder_ / "cifar", data);
  put_folder_dataset(folder_ / "png", data, false);
  Settings settings = {{"model", "resnet8"},
                       {"width", "0.25"},
                       {"input-size", "20x24"},
                       {"classes", "12"},
                       {"augment", "flip,crop,jitter,cutout=6"}};
  const auto idx = train_on("idx", settings);
  EXPECT_EQ(train_on("cifar", settings), idx);
  settings["threads"] = "3";
  EXPECT_EQ(train_on("png", settings), idx);
}

}  // namespace
}  // namespace mantissa::testing

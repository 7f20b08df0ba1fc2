// Data from files, as programs get them.
#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "formats/pictures/png.h"
#include "mantissa/data.h"

namespace mantissa {
namespace {

std::string flowers(const char* target) {
  std::string rows = "size,colour,kind\n";
  for (int i = 0; i < 60; ++i) {
    const bool large = i % 3 == 0;
    rows += std::to_string((large ? 40 : 10) + i % 7) + (i % 2 == 0 ? ",red," : ",blue,") +
            (*target == 'n' ? std::to_string(i) + ".5"
             : large        ? "rose"
                            : "iris") +
            "\n";
  }
  return rows;
}

TEST(LoadData, TablesOfClasses) {
  const TestFolder folder;
  put_file(folder / "flowers.csv", flowers("class"));
  const auto data = load_data({{"data", folder / "flowers.csv"}});
  ASSERT_TRUE(data.ok()) << data.error();
  EXPECT_EQ(data->class_names, (std::vector<std::string>{"iris", "rose"}));
  EXPECT_EQ(data->train.count, 48);
  EXPECT_EQ(data->test.count, 12);
  EXPECT_EQ(data->validation.count, 0);
  ASSERT_EQ(data->train.arrays.size(), 2u);
  EXPECT_EQ(data->train.arrays[0].name, "numbers");
  EXPECT_EQ(data->train.arrays[0].dims, (Dims{3}));
  EXPECT_EQ(data->number_exponent, -12);
  EXPECT_EQ(data->train.arrays[1].name, "labels");
  EXPECT_NE(data->table_json.find("\"categories\":[\"blue\",\"red\"]"), std::string::npos)
      << data->table_json;
}

TEST(LoadData, TablesOfNumbers) {
  const TestFolder folder;
  put_file(folder / "flowers.csv", flowers("number"));
  const auto data = load_data({{"data", folder / "flowers.csv"}, {"ignore", "colour"}});
  ASSERT_TRUE(data.ok()) << data.error();
  EXPECT_TRUE(data->class_names.empty());
  EXPECT_EQ(data->train.arrays[0].dims, (Dims{1}));
  EXPECT_EQ(data->train.arrays[1].name, "targets");
  EXPECT_GT(data->target_deviation, 10);
  EXPECT_FALSE(load_data({{"data", folder / "flowers.csv"}, {"ignore", "smell"}}).ok());
}

// The arrays live as long as the data, or a copy.
TEST(LoadData, TrainsAsTheCommandLineDoes) {
  const TestFolder folder;
  put_file(folder / "flowers.csv", flowers("class"));
  const Settings common = {{"batch-size", "8"}, {"epochs", "4"}, {"seed", "3"}};
  Settings settings = common;
  settings.insert({{"model", "mlp"},
                   {"hidden", "16"},
                   {"learning-rate", "0.05"},
                   {"data", folder / "flowers.csv"},
                   {"out", folder / "run"}});
  const Outcome<TrainedRun> run = train(settings);
  ASSERT_EQ(run.error(), "");

  const auto network = describe_network({{"path", folder / "run"}});
  ASSERT_EQ(network.error(), "");
  const auto read = Network::from_json(network->json);
  ASSERT_TRUE(read.ok()) << read.error();
  auto trainer =
      Trainer::create(*read, {{"batch-size", "8"}, {"seed", "3"}, {"learning-rate", "0.05"}});
  ASSERT_TRUE(trainer.ok()) << trainer.error();
  const LoadedData data = *load_data({{"data", folder / "flowers.csv"}});
  ASSERT_TRUE(trainer->fit(data.train, {.epochs = 4}).ok());
  EXPECT_NE(run->summary_json.find(trainer->weights_sha256()), std::string::npos);
}

TEST(LoadData, Pictures) {
  const TestFolder folder;
  for (const char* name : {"cat", "dog"}) {
    std::filesystem::create_directories(folder / name);
    for (int i = 0; i < 3; ++i) {
      const auto file = folder / name / (std::to_string(i) + ".png");
      ASSERT_TRUE(write_png(file, {2, 1, 1, {7, static_cast<uint8_t>(i)}}).ok());
    }
  }
  const auto data = load_data({{"data", folder.path()}});
  ASSERT_TRUE(data.ok()) << data.error();
  EXPECT_EQ(data->train.count, 4);
  EXPECT_EQ(data->train.arrays[0].dims, (Dims{2, 1, 1}));
  EXPECT_EQ(static_cast<const int32_t*>(data->train.arrays[1].data)[3], 1);
  EXPECT_EQ(data->table_json, "");
}

}  // namespace
}  // namespace mantissa

// Exported networks of rows of numbers that were trained on arrays, without a table's columns:
// numbers enter as the arrays have them. tests/cli/export_tables_test.sh has tables.
#include <cstring>

#include "api/commands/test_exported_sequences.h"

namespace mantissa::testing {
namespace {

class ExportedNumbers : public ExportedSequencesTest {};

TEST_F(ExportedNumbers, OfArraysEnterAsTheyAre) {
  NetworkBuilder b("rows");
  const Var input = b.numbers("numbers", {kChannels}, -12);
  const Var hidden = b.relu(b.linear(16, input));
  const Var sum = b.sum(hidden, b.linear(16, hidden));
  const Var logits = b.linear(kClasses, sum, "classifier");
  b.cross_entropy(logits, "labels");
  const auto network = b.finish({logits});
  ASSERT_TRUE(network.ok()) << network.error();

  Numbers random;
  std::vector<float> rows;  // some between two steps of 1/4096, and beyond the largest number
  for (int64_t i = 0; i < kExamples * kChannels; ++i) {
    rows.push_back(static_cast<float>(random.below(1 << 17) - (1 << 16)) / 8192);
  }
  const Examples labels({}, false);
  ArraySet set = {kExamples,
                  {{"numbers", Elements::kFloat, {kChannels}, rows.data()},
                   {"labels", Elements::kInt32, {}, labels.labels.data()}}};
  auto trainer = Trainer::create(*network, {{"format", "bfp8"}, {"batch-size", "8"}});
  ASSERT_TRUE(trainer.ok()) << trainer.error();
  const auto model = trainer->freeze(set);
  ASSERT_TRUE(model.ok()) << model.error();
  ASSERT_EQ(exported(*model).error(), "");
  const std::vector<double> wanted = (*model->predict(set))[0];

  const auto file = onnx::read_model(folder_ / "net.onnx");
  ASSERT_TRUE(file.ok()) << file.error().message;
  ThreadPool pool(1);
  const onnx::TensorData columns = {"columns",
                                    ElementType::kFloat,
                                    {kExamples, kChannels},
                                    std::as_bytes(std::span(rows)),
                                    nullptr};
  const auto outputs = onnx::evaluate(*file, {{"columns", columns}}, pool);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  std::vector<float> found(wanted.size());
  ASSERT_EQ((*outputs)[0].bytes.size(), found.size() * sizeof(float));
  std::memcpy(found.data(), (*outputs)[0].bytes.data(), found.size() * sizeof(float));
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], wanted[i]) << i;
}

// Places of rows are inputs of the file: exact after a convolution, near in a network of rows. Some
// are none, and some rows have one place.
TEST_F(ExportedNumbers, PlacesOfRowsAreInputs) {
  constexpr int64_t kTaken = 4, kPut = 5;
  for (const bool is_exact : {true, false}) {
    NetworkBuilder b("places");
    const Var input = b.numbers("numbers", {kSteps, kChannels}, -12);
    const Var first = is_exact ? b.convolution({.channels = 6, .kernel = 3, .bias = true}, input)
                               : b.linear(6, input);
    const Var taken = b.add("gather_rows", {b.relu(first), b.indices("from", {kTaken})});
    const Var put = b.add("scatter_rows", {taken, b.indices("to", {kTaken})},
                          {{"positions", kPut}});
    const Var flat = b.add("reshape", {put}, {{"channels", kPut * 6}});
    const Var logits = b.linear(kClasses, flat, "classifier");
    b.cross_entropy(logits, "labels");
    const auto network = b.finish({logits});
    ASSERT_TRUE(network.ok()) << network.error();

    Numbers random;
    std::vector<float> rows;
    for (int64_t i = 0; i < kExamples * kSteps * kChannels; ++i) {
      rows.push_back(static_cast<float>(random.below(4096) - 2048) / 1024);
    }
    std::vector<int32_t> places[2];
    std::vector<int64_t> of_file[2];
    for (int64_t i = 0; i < kExamples * kTaken; ++i) {
      places[0].push_back(random.below(kSteps + 3) - 2);
      places[1].push_back(random.below(kPut + 2) - 1);
    }
    for (int k : {0, 1}) of_file[k].assign(places[k].begin(), places[k].end());
    const Examples labels({}, false);
    const ArraySet set = {kExamples,
                          {{"numbers", Elements::kFloat, {kSteps, kChannels}, rows.data()},
                           {"from", Elements::kInt32, {kTaken}, places[0].data()},
                           {"to", Elements::kInt32, {kTaken}, places[1].data()},
                           {"labels", Elements::kInt32, {}, labels.labels.data()}}};
    auto trainer = Trainer::create(*network, {{"format", "bfp8"}, {"batch-size", "8"}});
    ASSERT_TRUE(trainer.ok()) << trainer.error();
    const auto model = trainer->freeze(set);
    ASSERT_TRUE(model.ok()) << model.error();
    ASSERT_EQ(exported(*model).error(), "");
    const std::vector<double> wanted = (*model->predict(set))[0];

    const auto file = onnx::read_model(folder_ / "net.onnx");
    ASSERT_TRUE(file.ok()) << file.error().message;
    ThreadPool pool(1);
    const auto tensor = [](const char* name, ElementType type, std::vector<int64_t> dims,
                           std::span<const std::byte> bytes) {
      return onnx::TensorData{name, type, std::move(dims), bytes, nullptr};
    };
    const std::vector<int64_t> dims = {kExamples, is_exact ? kChannels : kSteps,
                                       is_exact ? kSteps : kChannels};
    std::vector<float> turned = rows;  // convolutions read [N, C, T]
    for (int64_t i = 0; is_exact && i < std::ssize(rows); ++i) {
      const int64_t n = i / (kSteps * kChannels), t = i / kChannels % kSteps, c = i % kChannels;
      turned[static_cast<size_t>((n * kChannels + c) * kSteps + t)] = rows[static_cast<size_t>(i)];
    }
    onnx::Tensors inputs;
    inputs["numbers"] = tensor("numbers", ElementType::kFloat, dims,
                               std::as_bytes(std::span(turned)));
    inputs["from"] = tensor("from", ElementType::kInt64, {kExamples, kTaken},
                            std::as_bytes(std::span(of_file[0])));
    inputs["to"] = tensor("to", ElementType::kInt64, {kExamples, kTaken},
                          std::as_bytes(std::span(of_file[1])));
    const auto outputs = onnx::evaluate(*file, inputs, pool);
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    std::vector<float> found(wanted.size());
    ASSERT_EQ((*outputs)[0].bytes.size(), found.size() * sizeof(float));
    std::memcpy(found.data(), (*outputs)[0].bytes.data(), (*outputs)[0].bytes.size());
    double most = 0;
    for (const double logit : wanted) most = std::max(most, std::abs(logit));
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i], wanted[i], is_exact ? 0 : 0.05 * most) << i;
    }
  }
}

}  // namespace
}  // namespace mantissa::testing

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

}  // namespace
}  // namespace mantissa::testing

// Language models of files: in fp32 against transformers, in integers against fp32, of all families.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/test_folder.h"
#include "infer/freeze.h"
#include "networks/language/model_file.h"
#include "networks/language/test_model.h"
#include "plan/passes/network_format.h"
#include "tests/onnx/imported.h"

namespace mantissa {
namespace {

// The logits of transformers 5.24 in float64, for the same weights: of some positions, the tokens
// 0, 101, 200 and 259, and the likeliest token.
struct Expected {
  int64_t position;
  std::array<double, 4> logits;
  int64_t likeliest;
};
constexpr Expected kExpected[] = {{0, {0.9320222, -2.5524446, 3.0368249, 4.2244870}, 171},
                                  {1, {-0.1339465, 1.8857311, 1.9332816, 5.7343919}, 76},
                                  {7, {-1.3181474, 2.9597780, -1.9265936, -3.5654288}, 40},
                                  {11, {0.2582194, 4.4116971, 0.3338588, -1.2952779}, 174}};

const std::vector<int32_t> kSomeTokens = {72, 101, 108, 108, 111, 44, 32, 119, 258, 256, 5, 259};

Result<onnx::ImportedNetwork> small_model(const std::string& family = "llama") {
  const TestFolder folder;
  put_file(folder / "model.gguf", TestModel::of(family).bytes());
  MANTISSA_ASSIGN(const LanguageModelFile file, read_language_model(folder / "model.gguf"));
  return import_language_model(file, std::ssize(kSomeTokens));
}

TEST(LlamaModels, HaveTheLogitsOfTransformers) {
  const std::vector<int32_t>& tokens = kSomeTokens;
  const auto network = small_model();
  ASSERT_TRUE(network.ok()) << network.error().message;
  const auto run = testing::ImportedRun::create(*network, 1, false);
  ASSERT_TRUE(run.ok()) << run.error().message;
  const auto logits = (*run)->logits(tokens);
  ASSERT_TRUE(logits.ok()) << logits.error().message;
  constexpr auto kTokens = static_cast<int64_t>(TestModel::kTokens);
  ASSERT_EQ(std::ssize(*logits), std::ssize(tokens) * kTokens);
  constexpr double kTolerance = 2e-5;  // the largest is 8.8
  for (const Expected& expected : kExpected) {
    const float* row = logits->data() + expected.position * kTokens;
    constexpr std::array<int64_t, 4> kPlaces = {0, 101, 200, 259};
    for (size_t i = 0; i < kPlaces.size(); ++i) {
      EXPECT_NEAR(row[kPlaces[i]], expected.logits[i], kTolerance)
          << "position " << expected.position << ", token " << kPlaces[i];
    }
    EXPECT_EQ(std::max_element(row, row + kTokens) - row, expected.likeliest);
  }
}

// The logits of the frozen network in a format with an exponent for each token.
std::vector<double> integer_logits(const onnx::ImportedNetwork& network, int threads, Isa isa) {
  const Format format = *parse_format("bfp:block=channel,blocks=token");
  const Graph graph = freeze_graph(in_format(network.graph, format));
  State state = std::move(*State::create(frozen_layout(graph, format)));
  EXPECT_TRUE(take_named_parameters(graph, format, named_parameters(network), state).ok());
  const kernels::KernelTable table = kernels::select_kernels(isa);
  const auto program = compile(graph,
                               {.kind = ProgramKind::kInference,
                                .with_loss = false,
                                .exponents = ExponentMode::kFixed,
                                .format = format},
                               {&table, threads});
  EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().message);
  if (!program.ok()) return {};
  const AlignedMemory arena = std::move(*AlignedMemory::create(program->arena_bytes));
  ThreadPool pool(threads);
  Executor executor(graph, *program, state, arena.span(), pool, isa);
  const std::vector<const void*> inputs(graph.inputs.size(), kSomeTokens.data());
  EXPECT_TRUE(executor.infer(inputs).ok());
  const Tensor output = executor.output(0);
  std::vector<double> logits;
  for (int64_t i = 0; i < output.count(); ++i) {
    const int exponent = output.row_exponent(i / output.shape.last());
    logits.push_back(std::ldexp(output.as<int32_t>()[i], exponent));
  }
  return logits;
}

TEST(LlamaModels, KeepTheirLogitsInIntegers) {
  for (const char* family : {"llama", "qwen3", "gpt2"}) {
    const auto network = small_model(family);
    ASSERT_TRUE(network.ok()) << network.error().message;
    const auto run = testing::ImportedRun::create(*network, 1, false);
    ASSERT_TRUE(run.ok()) << run.error().message;
    const std::vector<float> wanted = *(*run)->logits(kSomeTokens);
    const std::vector<double> found = integer_logits(*network, 2, best_isa());
    ASSERT_EQ(found.size(), wanted.size());
    double error = 0, all = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      error += (found[i] - wanted[i]) * (found[i] - wanted[i]);
      all += double{wanted[i]} * wanted[i];
    }
    EXPECT_LT(std::sqrt(error / all), 0.04) << family;  // 0.032 seen
    EXPECT_EQ(integer_logits(*network, 1, Isa::kScalar), found) << family;
  }
}

}  // namespace
}  // namespace mantissa

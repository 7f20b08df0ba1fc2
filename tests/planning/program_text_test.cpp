// The text of a program leaves nothing out, and stays as it is on record.
#include "plan/programs/program_text.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

#include "tests/harness.h"
#include "tests/planning/parse_program.h"

namespace mantissa::testing {
namespace {

struct TextNetwork {
  const char* model;
  const char* format = "bfp8";
  ModelOptions sizes = {};
  // Without format and exponents.
  ProgramOptions options = {.micro_batch_size = 2};
  uint64_t retention_key = 0;  // which values are computed again; 0: none
  bool by_rows = false;
};

void PrintTo(const TextNetwork& network, std::ostream* out) { *out << network.model; }

// Between them they have gradients by rows, values computed again, several micro-batches, exponents
// of rows, and the norm of all gradients.
const TextNetwork kOnRecord[] = {
    {.model = "mlp", .by_rows = true},
    {.model = "lenet5", .retention_key = 3},
    {.model = "resnet8", .options = {.micro_batch_size = 2, .micro_batches = 2}},
    {.model = "transformer_lm",
     .format = "bfp:block=channel,blocks=token",
     .sizes = {.classes = 32, .width_multiplier = 0.25, .sequence = 8},
     .options = {.micro_batch_size = 2, .optimizer = OptimizerKind::kAdam, .clips = true}},
};

struct TextProgram {
  Graph graph;
  Program program;
};

// For kernels and threads that every machine has: scratch depends on both.
TextProgram text_program(const TextNetwork& network) {
  const kernels::KernelTable kernels = kernels::select_kernels(Isa::kScalar);
  const PlanningContext planning{&kernels, 2};
  TextProgram made;
  ProgramOptions options = network.options;
  options.format = *parse_format(network.format);
  options.exponents = training_exponents(options.format);
  made.graph = in_format(*build_model(network.model, network.sizes), options.format);
  if (network.retention_key != 0) {
    options.retention = drawn_retention(made.graph, network.retention_key);
  }
  if (network.by_rows) {
    const auto rows = row_choices(made.graph, options, planning, {}, 0);
    options.by_rows = by_rows(made.graph, rows, rows.size());
  }
  auto program = compile(made.graph, options, planning);
  EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().message);
  if (program.ok()) made.program = std::move(*program);
  EXPECT_TRUE(verify(made.graph, made.program).ok()) << network.model;
  return made;
}

void expect_the_same_when_read(const TextNetwork& network) {
  const auto [graph, program] = text_program(network);
  const std::string text = to_string(graph, program);
  const auto parsed = parse_program(graph, text);
  ASSERT_TRUE(parsed.ok()) << network.model << ": " << parsed.error().message;
  EXPECT_EQ(parsed->options, program.options);
  EXPECT_EQ(parsed->buffers, program.buffers);
  EXPECT_EQ(parsed->exponents, program.exponents);
  EXPECT_EQ(parsed->instructions, program.instructions);
  EXPECT_EQ(parsed->segments, program.segments);
  EXPECT_EQ(parsed->schedule, program.schedule);
  EXPECT_TRUE(*parsed == program) << network.model;
  EXPECT_EQ(to_string(graph, *parsed), text);
}

// Three steps on numbers drawn at random, and the state after them.
std::string state_after_steps(const Graph& graph, const Program& program) {
  const ProgramOptions& options = program.options;
  const int64_t examples = options.micro_batch_size * options.micro_batches;
  auto state = State::create(training_layout(graph, options.format, options.optimizer));
  auto arena = AlignedMemory::create(program.arena_bytes);
  EXPECT_TRUE(state.ok() && arena.ok());
  initialise(graph, options.format, 1, *state);
  ThreadPool pool(2);
  Executor executor(graph, program, *state, arena->span(), pool, Isa::kScalar);
  for (int64_t step = 1; step <= 3; ++step) {
    std::vector<std::vector<int32_t>> batch;  // bytes of pixels, too
    std::vector<const void*> inputs;
    for (const int input : graph.inputs) {
      auto& numbers = batch.emplace_back(examples * graph.values[input].shape.count());
      for (size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] = static_cast<int32_t>(
            uniform_below(random_bits(step, RandomStream::kShuffle, input, i), 10));
      }
      inputs.push_back(numbers.data());
    }
    const auto result = executor.train_step(inputs, {.learning_rate = 0.01,
                                                     .momentum = 0.9,
                                                     .gradient_scale = 1.0 / examples,
                                                     .clip_norm = options.clips ? 0.5 : 0,
                                                     .seed = 1,
                                                     .step = step});
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  }
  return state->sha256(StateGroup::kPredictor);
}

std::filesystem::path record_of(const TextNetwork& network) {
  return std::filesystem::path(MANTISSA_SOURCE_FOLDER) / "tests/planning/programs" /
         (std::string(network.model) + ".txt");
}

class ProgramText : public ::testing::TestWithParam<TextNetwork> {};

TEST_P(ProgramText, IsOnRecord) {
  const auto [graph, program] = text_program(GetParam());
  const std::string text = to_string(graph, program);
  if (std::getenv("MANTISSA_RENEW_PROGRAMS") != nullptr)
    std::ofstream(record_of(GetParam())) << text;
  std::ifstream file(record_of(GetParam()));
  const std::string record{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(first_difference(text, record), "")
      << "If the program is meant to change: MANTISSA_RENEW_PROGRAMS=1 end_to_end_test "
         "--gtest_filter='*ProgramText.IsOnRecord*', and look at the differences in tests/planning/"
         "programs.";
}

TEST_P(ProgramText, IsReadBackToTheSameProgram) { expect_the_same_when_read(GetParam()); }

TEST_P(ProgramText, ProgramsThatWereReadRunToTheSameBits) {
  const auto [graph, program] = text_program(GetParam());
  const auto parsed = parse_program(graph, to_string(graph, program));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(state_after_steps(graph, *parsed), state_after_steps(graph, program));
}

INSTANTIATE_TEST_SUITE_P(OnRecord, ProgramText, ::testing::ValuesIn(kOnRecord),
                         [](const auto& network) { return std::string(network.param.model); });

// Every operator of the built-in networks, every family of formats, sums that are measured.
TEST(ProgramTexts, OfAllNetworksAreReadBack) {
  for (const ModelInfo& model : models()) expect_the_same_when_read({.model = model.name});
  for (const char* format :
       {"fp32", "dfp8", "bfp:g=8,gr=stochastic", "bfp:block=channel,exponents=exact"}) {
    expect_the_same_when_read({.model = "resnet8", .format = format});
  }
  expect_the_same_when_read({.model = "vgg8b", .options = {.micro_batch_size = 128}});
}

// A program for inference, of a part of the network, with a value that the caller gives.
TEST(ProgramTexts, OfPartsAreReadBack) {
  const Graph graph = *build_model("lenet5", {});
  const int given = graph.nodes[2].outputs[0];
  expect_the_same_when_read({.model = "lenet5",
                             .options = {.kind = ProgramKind::kInference,
                                         .micro_batch_size = 3,
                                         .with_loss = false,
                                         .results = graph.outputs,
                                         .given = {given},
                                         .arena_limit_bytes = 1 << 30}});
}

// A loss with its logits in slices.
TEST(ProgramTexts, OfSlicesAreReadBack) {
  const ModelOptions sizes = {.classes = 32, .width_multiplier = 0.25, .sequence = 8};
  const Graph graph = *build_model("transformer_lm", sizes);
  expect_the_same_when_read({.model = "transformer_lm",
                             .sizes = sizes,
                             .options = {.kind = ProgramKind::kInference,
                                         .micro_batch_size = 2,
                                         .results = graph.nodes[graph.losses[0]].outputs,
                                         .logit_rows = 3}});
}

// The text with another one in the place of the first of its lines that has it.
void expect_refusal(const std::string& what, const std::string& instead, const std::string& error) {
  const auto [graph, program] = text_program({.model = "mlp"});
  std::string text = to_string(graph, program);
  const size_t place = text.find(what);
  ASSERT_NE(place, std::string::npos) << what;
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<int64_t>(place), '\n');
  text.replace(place, what.size(), instead);
  const auto parsed = parse_program(graph, text);
  ASSERT_FALSE(parsed.ok()) << what;
  EXPECT_EQ(parsed.error().message.find("line " + std::to_string(line) + ": " + error), 0)
      << parsed.error().message << ", wanted " << line << " " << error;
}

TEST(ProgramTexts, DamagedOnesAreRefused) {
  expect_refusal("program of mlp", "program of lenet5", "'program of lenet5' in the place of");
  expect_refusal("bfp8", "bfp7", "");
  expect_refusal("momentum", "momentums", "'momentums' is not known here");
  expect_refusal("micro_batches     1", "micro_batches     x", "'x' is no number");
  expect_refusal("gradients ", "grudients ", "'grudients' is not known here");
  expect_refusal("headroom", "footroom", "'footroom' is not known here");
  expect_refusal("linear                grad_weights", "lanear                grad_weights",
                 "'lanear' is no operator");
  expect_refusal("linear                grad_weights", "linear                statistics",
                 "the operator has no row 'statistics'");
  expect_refusal("{channels=", "{canals=", "'");
  expect_refusal("layer=2 ", "layer=999999 ", "'999999' is no number");
  expect_refusal("reads       arena", "dreams      arena", "'dreams' is not known here");
  expect_refusal("every_micro_batch", "every_batch", "'every batch' is not known here");
}

TEST(ProgramTexts, MissingLinesAreRefused) {
  const auto [graph, program] = text_program({.model = "mlp"});
  const std::string text = to_string(graph, program);
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', end + 1)) {
    if (end + 1 == text.size()) break;
    const auto parsed = parse_program(graph, text.substr(0, end + 1));
    ASSERT_FALSE(parsed.ok());
    EXPECT_TRUE(parsed.error().message.starts_with("line ")) << parsed.error().message;
  }
}

}  // namespace
}  // namespace mantissa::testing

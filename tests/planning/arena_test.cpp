// The arena: live buffers do not overlap, lifetimes are true, and the content of dead memory does
// not matter.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>

#include "ops/ops.h"
#include "plan/programs/verify.h"
#include "plan/retention/compile_training.h"
#include "plan/retention/gradient_rows.h"
#include "tests/harness.h"

namespace mantissa::testing {
namespace {

// The steps of Harness, on a program that the test may change.
class SteppedProgram {
 public:
  SteppedProgram(const Graph& graph, const Program& program, int threads = 2)
      : graph_(graph), program_(program), pool_(threads) {
    auto state = State::create(training_layout(graph, Format{}, OptimizerKind::kMomentum));
    state_.emplace(std::move(*state));
    initialise(graph, Format{}, 1, *state_);
    auto arena = AlignedMemory::create(program_.arena_bytes);
    arena_.emplace(std::move(*arena));
    std::memset(arena_->data(), 0xA5, static_cast<size_t>(program_.arena_bytes));
    renew_executor();
    const int64_t bytes = graph.values[graph.inputs[0]].shape.count();
    const int64_t batch = program.options.micro_batch_size * program.options.micro_batches;
    pixels_.resize(static_cast<size_t>(batch * bytes));
    labels_.resize(static_cast<size_t>(batch));
  }

  void renew_executor() {
    executor_.emplace(graph_, program_, *state_, arena_->span(), pool_, best_isa());
  }

  // Steps with keyed noise as pictures; micro-batches in another order if `reversed`.
  void steps(int first, int last, bool reversed = false) {
    const int64_t micro = program_.options.micro_batch_size, parts = program_.options.micro_batches;
    const int64_t bytes = static_cast<int64_t>(pixels_.size() / labels_.size());
    for (int s = first; s < last; ++s) {
      for (int64_t i = 0; i < static_cast<int64_t>(labels_.size()); ++i) {
        const int64_t part = reversed ? parts - 1 - i / micro : i / micro;
        const int64_t at = part * micro + i % micro;
        const uint64_t label = random_bits(9, RandomStream::kShuffle, s, i) % 10;
        labels_[at] = static_cast<int32_t>(label);
        for (int64_t b = 0; b < bytes; ++b) {
          const uint64_t bits = random_bits(9, RandomStream::kAugment, s, i * bytes + b);
          pixels_[at * bytes + b] = static_cast<uint8_t>(bits % (20 * (label + 1)));
        }
      }
      const auto result = executor_->train_step(
          inputs(pixels_, labels_), {.learning_rate = 0.02,
                                     .momentum = 0.9,
                                     .weight_decay = 5e-4,
                                     .gradient_scale = 1 / static_cast<double>(labels_.size())});
      ASSERT_TRUE(result.ok()) << result.error().message;
    }
  }

  std::string hash(StateGroup group = StateGroup::kPredictor) const {
    return state_->sha256(group);
  }
  State& state() { return *state_; }
  Executor& executor() { return *executor_; }
  std::byte* arena() { return arena_->data(); }

 private:
  const Graph& graph_;
  const Program& program_;
  ThreadPool pool_;
  std::optional<State> state_;
  std::optional<AlignedMemory> arena_;
  std::optional<Executor> executor_;
  std::vector<uint8_t> pixels_;
  std::vector<int32_t> labels_;
};

Graph model(const std::string& name) {
  ModelOptions options;
  options.channel_means = {73};
  options.width_multiplier = name == "vgg8b" ? 1.0 / 32 : name == "inception_small" ? 1.0 / 8 : 1;
  auto graph = build_model(name, options);
  EXPECT_TRUE(graph.ok());
  return std::move(*graph);
}

Program compiled(const Graph& graph, ProgramOptions options, Isa isa = best_isa()) {
  const kernels::KernelTable table = kernels::select_kernels(isa);
  auto program = compile(graph, options, {&table, 2});
  EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().message);
  return std::move(*program);
}

void expect_packed(const std::vector<Buffer>& buffers, int64_t arena_bytes) {
  for (const Buffer& a : buffers) {
    EXPECT_GE(a.offset, 0) << a.name;
    EXPECT_EQ(a.offset % 64, 0) << a.name;
    EXPECT_LE(a.offset + a.bytes, arena_bytes) << a.name;
    for (const Buffer& b : buffers) {
      if (&a == &b || a.bytes == 0 || b.bytes == 0) continue;
      const bool together = a.first <= b.last && b.first <= a.last;
      const bool apart = a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
      EXPECT_TRUE(!together || apart) << a.name << " and " << b.name;
    }
  }
}

std::vector<ProgramOptions> ways(const Graph& graph) {
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  const auto rows = row_choices(graph, {.micro_batch_size = 8}, {&table, 2}, {}, 0);
  return {{.micro_batch_size = 8, .micro_batches = 1},
          {.micro_batch_size = 8, .by_rows = by_rows(graph, rows, rows.size())},
          {.micro_batch_size = 4, .micro_batches = 3},
          {.micro_batch_size = 4, .micro_batches = 1, .optimizer = OptimizerKind::kSgd},
          {.kind = ProgramKind::kInference, .micro_batch_size = 5},
          {.kind = ProgramKind::kInference, .micro_batch_size = 5, .with_loss = false}};
}

TEST(Arena, NothingAliveOverlapsInAnyProgram) {
  for (const ModelInfo& info : models()) {
    const Graph graph = model(info.name);
    for (const ProgramOptions& options : ways(graph)) {
      for (const Isa isa : {Isa::kScalar, best_isa()}) {
        const Program program = compiled(graph, options, isa);
        SCOPED_TRACE(info.name);
        const Status status = verify(graph, program);
        EXPECT_TRUE(status.ok()) << status.error().message;
        EXPECT_GE(program.arena_bytes, program.live_bytes);
      }
    }
  }
}

// A program with one fault, whatever that is.
TEST(Arena, FaultsOfAProgramAreFound) {
  const Graph graph = model("resnet8");
  const Program good = compiled(graph, {.micro_batch_size = 4});
  const auto message = [&](const std::function<void(Program&)>& damage) {
    Program program = good;
    damage(program);
    const Status status = verify(graph, program);
    return status.ok() ? std::string("accepted") : status.error().message;
  };
  EXPECT_EQ(message([](Program&) {}), "accepted");
  const auto found = [&](const char* what, const std::function<void(Program&)>& damage) {
    EXPECT_NE(message(damage).find(what), std::string::npos) << what << ": " << message(damage);
  };
  found("overlap", [](Program& p) {
    for (Buffer& buffer : p.buffers) buffer.offset = 0;
  });
  found("does not lie in the arena", [](Program& p) { p.arena_bytes /= 2; });
  found("beyond its life", [](Program& p) {
    for (Buffer& buffer : p.buffers) buffer.last = buffer.first;
  });
  found("too small", [](Program& p) { p.buffers[p.instructions[2].output().index].bytes = 1; });
  const auto without = [](Instruction& instruction, Role role) {
    std::erase_if(instruction.operands, [&](const Operand& each) { return each.role == role; });
  };
  const auto operand_of = [](Instruction& instruction, Role role) -> Operand& {
    return *std::ranges::find(instruction.operands, role, &Operand::role);
  };
  found("before it is written",
        [&](Program& p) { operand_of(p.instructions[1], Role::kOutput).access = Access::kReads; });
  found("input that does not exist",
        [&](Program& p) { operand_of(p.instructions[0], Role::kInput).index = 5; });
  found("exponent that does not exist", [](Program& p) { p.exponents.resize(1); });
  found("segment that does not exist", [](Program& p) { p.schedule[0].segments[0] = 999; });
  found("leaves the instructions' order",
        [](Program& p) { std::swap(p.schedule[0].segments[0], p.schedule[0].segments[1]); });
  found("leaves out an instruction", [](Program& p) { p.schedule.back().segments.pop_back(); });
  found("wrong part of the step", [](Program& p) { p.schedule[0].every_micro_batch = false; });
  found("parameter that does not exist",
        [&](Program& p) { operand_of(p.instructions[1], Role::kParameter).index = 99; });
  const auto first_of = [](Program& p, SegmentKind kind) -> Instruction& {
    return *std::ranges::find_if(p.instructions,
                                 [&](const Instruction& each) { return kind_of(each) == kind; });
  };
  found("writes an operand 'in'",
        [&](Program& p) { operand_of(p.instructions[1], Role::kInput).access = Access::kWrites; });
  found("order of their roles", [](Program& p) {
    std::swap(p.instructions[1].operands.front(), p.instructions[1].operands.back());
  });
  found("computes something again that is no value",
        [&](Program& p) { first_of(p, SegmentKind::kGradInput).again = true; });
  found("has no parameter",
        [&](Program& p) { without(first_of(p, SegmentKind::kUpdate), Role::kParameter); });
  found("computes rows of a gradient", [&](Program& p) {
    first_of(p, SegmentKind::kGradWeights).gradient_rows = ops::kLinear.gradient_rows;
  });
  found("would run once in a step", [](Program& p) {
    for (Instruction& i : p.instructions) i.once_per_step = true;
    for (Stretch& stretch : p.schedule) stretch.every_micro_batch = false;
  });
  found("before it is written", [&](Program& p) {
    for (Instruction& i : p.instructions) {
      if (is_forward(i)) without(i, Role::kStatistics);
    }
  });
}

// METHODS section 4: little is lost between the buffers, with all values kept and with none.
TEST(Arena, IsHardlyLargerThanWhatLivesAtOnce) {
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  for (const ModelInfo& info : models()) {
    const std::string_view name = info.name;
    if (name == "resnet56" || name == "resnet110") continue;  // take seconds to plan
    for (const RecomputeMode mode : {RecomputeMode::kNone, RecomputeMode::kAll}) {
      const auto result =
          compile_training(*build_model(info.name, {}),
                           {.micro_batch_size = 8, .exponents = ExponentMode::kPredicted},
                           {&table, 2}, {.mode = mode});
      ASSERT_TRUE(result.ok());
      const Program& program = result->program;
      EXPECT_LE(program.arena_bytes, program.live_bytes + program.live_bytes / 20) << info.name;
    }
  }
}

TEST(Arena, RandomLifetimesArePacked) {
  int closer = 0;  // cases in which a limit makes it smaller
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<Buffer> buffers;
    const auto draw = [&](uint64_t bound) {
      return static_cast<int>(uniform_below(
          random_bits(seed, RandomStream::kShuffle, 1, buffers.size() * 8 + bound % 7), bound));
    };
    const int count = 1 + static_cast<int>(seed % 40);
    for (int i = 0; i < count; ++i) {
      const int first = draw(20);
      buffers.push_back({std::to_string(i), BufferKind::kWorkspace, draw(1000) - draw(3) * 300,
                         first, first + draw(9), -1});
      buffers.back().bytes = std::max<int64_t>(0, buffers.back().bytes);
    }
    const int64_t bytes = pack_arena(buffers);
    expect_packed(buffers, bytes);
    EXPECT_GE(bytes, largest_live_set(buffers));
    const int64_t within = pack_arena(buffers, largest_live_set(buffers));
    expect_packed(buffers, within);
    EXPECT_LE(within, bytes);
    closer += within < bytes;
  }
  EXPECT_GT(closer, 0);
}

// Every instruction of a program runs through here: memory that it must not rely on is overwritten.
struct Poison {
  const Program* original = nullptr;
  std::map<const OpContext*, int> index;  // of the instruction with this context
  std::byte* arena = nullptr;
  unsigned char garbage = 0x11;

  void fill(const Buffer& buffer) {
    std::memset(arena + buffer.offset, garbage += 37, static_cast<size_t>(buffer.bytes));
  }
  // Sums are cleared before their instruction runs, or first written by it; a step's buffers live
  // on to the next micro-batch.
  bool spared(const Buffer& buffer) const {
    return buffer.kind == BufferKind::kWeightGradient ||
           (buffer.kind == BufferKind::kStatistics && original->options.micro_batches > 1);
  }
};
Poison* g_poison = nullptr;

void poisoned(const OpContext& c) {
  Poison& p = *g_poison;
  const int i = p.index.at(&c);
  for (const Buffer& buffer : p.original->buffers) {
    if (buffer.first == i && !p.spared(buffer)) p.fill(buffer);
  }
  const Instruction& instruction = p.original->instructions[i];
  if (instruction.gradient_rows != nullptr) {
    p.fill(p.original->buffers[instruction.sums()[0].index]);
  }
  if (kind_of(instruction) == SegmentKind::kGradWeights && instruction.row->writes_first_gradient &&
      !c.parameters[0].gradient.empty() && !c.adds_gradients()) {
    p.fill(p.original->buffers[instruction.sums()[0].index]);
  }
  instruction.row->run(c);
  for (const Buffer& buffer : p.original->buffers) {
    if (buffer.last != i) continue;
    const bool sums = buffer.kind == BufferKind::kWeightGradient;
    if (sums ? instruction.once_per_step || p.original->options.micro_batches == 1
             : !p.spared(buffer)) {
      p.fill(buffer);
    }
  }
}

class ArenaOf : public ::testing::TestWithParam<std::string> {};

TEST_P(ArenaOf, DeadMemoryDoesNotMatter) {
  constexpr int kSteps = 4;
  const Graph graph = model(GetParam());
  for (const ProgramOptions& options : ways(graph)) {
    if (options.kind != ProgramKind::kTraining) continue;
    if (options.optimizer != OptimizerKind::kMomentum) continue;
    const Program program = compiled(graph, options);
    SteppedProgram plain(graph, program);
    plain.steps(0, kSteps);

    Program apart = program;  // no reuse at all
    apart.arena_bytes = 0;
    for (Buffer& buffer : apart.buffers) {
      buffer.offset = apart.arena_bytes;
      apart.arena_bytes += (buffer.bytes + 63) / 64 * 64;
    }
    SteppedProgram spread(graph, apart);
    spread.steps(0, kSteps);
    EXPECT_EQ(spread.hash(), plain.hash());

    Program wrapped = program;
    std::deque<OpRow> rows;
    for (Instruction& instruction : wrapped.instructions) {
      instruction.row =
          &rows.emplace_back(OpRow{.run = poisoned, .prepare = instruction.row->prepare});
    }
    SteppedProgram poisoned(graph, wrapped);
    Poison poison{&program, {}, poisoned.arena()};
    for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
      poison.index[&poisoned.executor().context(i)] = i;
    }
    g_poison = &poison;
    for (int s = 0; s < kSteps; ++s) {
      poisoned.steps(s, s + 1);
      std::memset(poisoned.arena(), 0x5A + s, static_cast<size_t>(program.arena_bytes));
    }
    g_poison = nullptr;
    EXPECT_EQ(poisoned.hash(), plain.hash());
  }
}

TEST_P(ArenaOf, TheExecutorHoldsNothingThatTheStateDoesNot) {
  const Graph graph = model(GetParam());
  const Program program = compiled(graph, {.micro_batch_size = 4, .micro_batches = 2});
  SteppedProgram one(graph, program), other(graph, program);
  one.steps(0, 6);
  for (int s = 0; s < 6; ++s) {
    other.steps(s, s + 1);
    other.renew_executor();
  }
  EXPECT_EQ(other.hash(), one.hash());
}

// Sums over micro-batches are exact. So their order matters to running statistics only.
TEST_P(ArenaOf, MicroBatchesMayComeInAnyOrder) {
  const Graph graph = model(GetParam());
  const Program program = compiled(graph, {.micro_batch_size = 4, .micro_batches = 3});
  SteppedProgram forwards(graph, program), backwards(graph, program);
  forwards.steps(0, 6);
  backwards.steps(0, 6, true);
  EXPECT_EQ(forwards.hash(StateGroup::kParameter), backwards.hash(StateGroup::kParameter));
}

INSTANTIATE_TEST_SUITE_P(Networks, ArenaOf,
                         ::testing::Values("mlp", "lenet5", "vgg8b", "resnet8", "inception_small"));

// The order of a node's two backward instructions.
struct BackwardOrder {
  int weights_first = 0, input_first = 0;

  explicit BackwardOrder(const Program& program) {
    for (size_t i = 1; i < program.instructions.size(); ++i) {
      const Instruction &before = program.instructions[i - 1], &after = program.instructions[i];
      if (before.node != after.node || after.node < 0) continue;
      const SegmentKind one = kind_of(before), two = kind_of(after);
      weights_first += one == SegmentKind::kGradWeights && two == SegmentKind::kGradInput;
      input_first += one == SegmentKind::kGradInput && two == SegmentKind::kGradWeights;
    }
  }
};

TEST(Arena, SumsOfManyWeightsWaitForTheGradientOfTheInput) {
  const BackwardOrder convolutions(compiled(model("resnet8"), {.micro_batch_size = 128}));
  EXPECT_GT(convolutions.weights_first, 8);
  EXPECT_EQ(convolutions.input_first, 0);
  const Graph graph = model("linear_blocks");
  const Program program = compiled(graph, {.micro_batch_size = 8});
  // The plain loops pack nothing that the sums could wait for.
  EXPECT_EQ(BackwardOrder(program).input_first > 0, best_isa() != Isa::kScalar);
  const ProgramOptions parts = {.micro_batch_size = 8, .micro_batches = 2};
  EXPECT_EQ(BackwardOrder(compiled(graph, parts)).input_first, 0) << "the sums are always there";

  // The other order, with room for everything at once.
  Program swapped = program;
  for (size_t i = 1; i < swapped.instructions.size(); ++i) {
    Instruction &before = swapped.instructions[i - 1], &after = swapped.instructions[i];
    if (before.node != after.node || kind_of(after) != SegmentKind::kGradWeights) continue;
    if (kind_of(before) == SegmentKind::kGradInput) std::swap(before, after);
  }
  swapped.arena_bytes = 0;
  for (Buffer& buffer : swapped.buffers) {
    buffer.offset = swapped.arena_bytes;
    swapped.arena_bytes = round_up<int64_t>(buffer.offset + buffer.bytes, 64);
  }
  EXPECT_EQ(BackwardOrder(swapped).input_first, 0);
  SteppedProgram one(graph, program), other(graph, swapped);
  one.steps(0, 3);
  other.steps(0, 3);
  EXPECT_EQ(one.hash(), other.hash());
  EXPECT_EQ(one.hash(StateGroup::kOptimizer), other.hash(StateGroup::kOptimizer));
}

}  // namespace
}  // namespace mantissa::testing

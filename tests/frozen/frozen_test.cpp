// The frozen network: as good as dynamic exponents, independent of the batch, the same from a file.
#include "tests/frozen/frozen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/checked.h"
#include "base/test_folder.h"
#include "ops/ops.h"

namespace mantissa::testing {
namespace {

constexpr int64_t kFrozenBatch = 128;

class Frozen : public ::testing::Test {
 protected:
  // A resnet8 after some steps, frozen on 1,280 training examples.
  explicit Frozen(int steps = 20)
      : harness_({.model = "resnet8",
                  .batch_size = kFrozenBatch,
                  .micro_batch_size = kFrozenBatch,
                  .threads = 2,
                  .learning_rate = 0.1}) {
    harness_.train_to_rest(steps);
    auto frozen = freeze_on(harness_, "resnet8", {}, kFrozenBatch, 1280);
    EXPECT_TRUE(frozen.ok());
    frozen_.emplace(std::move(*frozen));
  }

  Harness harness_;
  std::optional<FrozenNetwork> frozen_;
};

class FrozenAfterTraining : public Frozen {
 protected:
  FrozenAfterTraining() : Frozen(400) {}
};

// Before a batch norm the sums of training are rounded to 8 bits, and the sums here are not.
TEST_F(FrozenAfterTraining, IsWithinThreeQuartersOfAPointOfDynamicExponents) {
  ExampleSet test = fashion_mnist().test;
  test.count = test.count / kFrozenBatch * kFrozenBatch;
  const ClassificationEvaluation evaluation =
      evaluate_with(*frozen_, kFrozenBatch, 2, best_isa(), test);
  EXPECT_GT(evaluation.accuracy(), 0.75);
  EXPECT_NEAR(evaluation.accuracy(), evaluate_unfrozen(harness_, {}, kFrozenBatch, test).accuracy,
              0.0075);
}

// As in a run: in an arena that steps have used, beside the programs that compute it.
TEST_F(Frozen, LiesInAnArenaWithTheProgramsThatComputeIt) {
  const Program calibration = calibration_program(harness_.graph(), {}, kFrozenBatch, false);
  const StateLayout& layout = frozen_->state.layout();
  const auto front = static_cast<size_t>(round_up<int64_t>(layout.bytes, 64));
  auto arena = AlignedMemory::create(static_cast<int64_t>(front) + freeze_bytes(calibration));
  std::fill(arena->span().begin(), arena->span().end(), std::byte{0xa5});
  FrozenNetwork frozen{frozen_->description, frozen_->graph, State(layout, arena->span())};
  ASSERT_TRUE(fill(harness_, calibration, arena->span().subspan(front), 1280, frozen).ok());
  EXPECT_EQ(frozen.state.sha256(StateGroup::kPredictor),
            frozen_->state.sha256(StateGroup::kPredictor));
}

// With guarded channels there is more to count than the least arena holds at once.
TEST_F(Frozen, DoesNotDependOnHowManyValuesAreCountedAtATime) {
  const StateLayout& layout = harness_.state().layout();
  auto* guards = harness_.state().data<uint8_t>(layout.guards);
  const ExponentSlots& slots = layout.slots;
  const auto readers = readers_of(harness_.graph());
  for (int value = 0; value < slots.values; ++value) {
    guards[value] = is_guardable(harness_.graph(), readers, value) ? 1 : 0;
  }
  const Program calibration = calibration_program(harness_.graph(), {}, kFrozenBatch, false);
  std::set<std::string> found;
  for (const int64_t more : {0, 100'000, 10'000'000}) {
    auto arena = AlignedMemory::create(freeze_bytes(calibration) + more);
    auto state = State::create(frozen_->state.layout());
    FrozenNetwork frozen{frozen_->description, frozen_->graph, std::move(*state)};
    ASSERT_TRUE(fill(harness_, calibration, arena->span(), 3 * kFrozenBatch, frozen).ok());
    found.insert(frozen.state.sha256(StateGroup::kPredictor));
  }
  EXPECT_EQ(found.size(), 1u);
  // Guarded values lie within layers that have taken in the batch norms after them.
  EXPECT_EQ(*found.begin(), frozen_->state.sha256(StateGroup::kPredictor));
}

TEST_F(Frozen, DoesNotDependOnBatchSizeThreadsOrInstructionSet) {
  ExampleSet test = fashion_mnist().test;
  test.count = 301;  // with a smaller last batch
  const ClassificationEvaluation expected = evaluate_with(*frozen_, 301, 1, best_isa(), test);
  EXPECT_EQ(expected.examples, 301);
  for (const int64_t batch : {1, 7, 128}) {
    const ClassificationEvaluation evaluation = evaluate_with(*frozen_, batch, 2, best_isa(), test);
    EXPECT_EQ(evaluation.confusion, expected.confusion) << batch;
    EXPECT_EQ(evaluation.loss, expected.loss) << batch;
  }
  const ClassificationEvaluation scalar = evaluate_with(*frozen_, 64, 3, Isa::kScalar, test);
  EXPECT_EQ(scalar.loss, expected.loss);
}

TEST_F(Frozen, ComesBackFromItsFile) {
  const TestFolder folder;
  const auto path = folder / "frozen.safetensors";
  ASSERT_TRUE(save_frozen(path, *frozen_).ok());
  auto loaded = load_frozen(path);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->state.sha256(StateGroup::kPredictor),
            frozen_->state.sha256(StateGroup::kPredictor));
  ExampleSet test = fashion_mnist().test;
  test.count = 64;
  EXPECT_EQ(evaluate_with(*loaded, 64, 1, best_isa(), test).loss,
            evaluate_with(*frozen_, 64, 1, best_isa(), test).loss);
}

// A concatenation has the largest exponent of its inputs.
void expect_largest_exponents(FrozenNetwork& network) {
  const auto* exponents = network.state.data<int16_t>(network.state.layout().exponents);
  for (const Node& node : network.graph.nodes) {
    if (node.op != &ops::kConcat) continue;
    int16_t largest = INT16_MIN;
    for (const int input : node.inputs) largest = std::max(largest, exponents[input]);
    EXPECT_EQ(exponents[node.outputs[0]], largest) << node.name;
  }
}

// Concatenations and pools with padding have fixed exponents too.
TEST(FrozenFamilies, ComeBackAndDoNotDependOnTheBatch) {
  const TestFolder folder;
  const auto path = folder / "frozen.safetensors";
  ExampleSet test = fashion_mnist().test;
  test.count = 50;
  for (const char* model :
       {"inception_small", "squeezenet", "mobilenet_v2", "resnet50", "vgg16_bn"}) {
    SCOPED_TRACE(model);
    Harness harness({.model = model, .batch_size = 32, .micro_batch_size = 32, .width = 0.125});
    harness.train(5);
    auto frozen = freeze_on(harness, model, {}, kFrozenBatch, kFrozenBatch, 0.125);
    ASSERT_TRUE(frozen.ok());
    expect_largest_exponents(*frozen);
    ASSERT_TRUE(save_frozen(path, *frozen).ok());
    auto loaded = load_frozen(path);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    const ClassificationEvaluation expected = evaluate_with(*frozen, 50, 1, best_isa(), test);
    EXPECT_EQ(evaluate_with(*loaded, 7, 2, best_isa(), test).loss, expected.loss);
    EXPECT_EQ(evaluate_with(*loaded, 50, 3, Isa::kScalar, test).confusion, expected.confusion);
  }
}

}  // namespace
}  // namespace mantissa::testing

// AsyncPipeline [0002], [0040], [0046]: a layer is updated when its own gradients are complete. It
// waits for no other layer, not even of its own stage. The test looks from inside: while they work,
// layers look at each other's weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/ops.h"
#include "tests/harness.h"

namespace mantissa::testing {
namespace {

using pipeline::Mode;
using pipeline::Windows;

// The weights of the layers of one stage, by node: the part that every update changes.
using SavedWeights = std::map<int, std::string>;

// A layer of some stage begins the backward pass of a micro-batch, or the second half of it.
struct Look {
  int node = -1;
  SavedWeights weights;
};

// By stage, step and micro-batch, in the order of the stage's work.
using Looks = std::map<std::tuple<std::thread::id, int64_t, int>, std::vector<Look>>;

std::mutex looks_mutex;
Looks looks;
thread_local std::map<int, Tensor> accumulators;  // of this thread's layers, by node

// An update that has not moved a weight yet waits in the accumulator. So every update changes the
// accumulator.
void look_around(const OpContext& c) {
  accumulators[c.node.index] = c.parameters[0].accumulator;
  Look look = {.node = c.node.index, .weights = {}};
  for (const auto& [node, accumulator] : accumulators) {
    look.weights[node] = {accumulator.as<char>(), static_cast<size_t>(2 * accumulator.count())};
  }
  const std::lock_guard lock(looks_mutex);
  looks[{std::this_thread::get_id(), c.step.scalars->step, c.step.micro_batch}].push_back(
      std::move(look));
}

void watched_forward(const OpContext& c) {
  accumulators[c.node.index] = c.parameters[0].accumulator;
  ops::kLinear.integer.forward.run(c);
}
void watched_backward_input(const OpContext& c) {
  look_around(c);
  ops::kLinear.integer.grad_input.run(c);
}
void watched_backward_weights(const OpContext& c) {
  look_around(c);
  ops::kLinear.integer.grad_weights.run(c);
}

const Op& watched_linear() {
  static const Op op = [] {
    Op watched = ops::kLinear;
    watched.integer.forward.run = watched_forward;
    watched.integer.grad_input.run = watched_backward_input;
    watched.integer.grad_weights.run = watched_backward_weights;
    return watched;
  }();
  return op;
}

Graph watched_network() {
  GraphBuilder builder("watched", Shape{28, 28, 1});
  int value =
      builder.add(ops::kNormaliseInput, "normalise", {builder.input()}, {{"means", WholeList{73}}});
  value = builder.add(ops::kFlatten, "flatten", {value});
  for (int i = 1; i <= 5; ++i) {
    const std::string name = std::to_string(i);
    value = builder.add(watched_linear(), "linear" + name, {value}, {{"channels", 16}});
    value = builder.add(ops::kRelu, "relu" + name, {value});
  }
  value =
      builder.add(watched_linear(), "classifier", {value}, {{"channels", 10}, {"classifier", 1}});
  auto graph = builder.finish(value);
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
  return std::move(*graph);
}

// Layers of a stage that changed between two looks.
std::set<int> changed(const SavedWeights& before, const SavedWeights& after) {
  std::set<int> nodes;
  for (const auto& [node, weights] : before) {
    if (after.at(node) != weights) nodes.insert(node);
  }
  return nodes;
}

// Each layer looks at the beginning of its backward pass, and between the two halves of it. If this
// micro-batch completes the update, the layers after it have been updated. No other layer has.
void expect_updates_behind_each_layer(const std::vector<Look>& of_micro_batch, bool completes) {
  const SavedWeights& before = of_micro_batch.front().weights;
  for (const Look& look : of_micro_batch) {
    std::set<int> behind;
    for (const auto& [node, weights] : before) {
      if (completes && node > look.node) behind.insert(node);
    }
    EXPECT_EQ(changed(before, look.weights), behind) << "node " << look.node;
  }
}

Looks looks_of(const HarnessOptions& options, int steps) {
  looks.clear();
  {
    Harness run(options, watched_network());
    run.stretch(steps);
  }
  return std::exchange(looks, {});
}

HarnessOptions watched(Mode mode, int micro_batch_size) {
  return {.batch_size = 8,
          .micro_batch_size = micro_batch_size,
          .stages = 2,
          .pipeline = mode,
          .windows = mode == Mode::k2bw ? Windows::kLean : Windows::kFull};
}

TEST(AsyncPipeline, LayersOfAStageAreUpdatedOneAfterTheOther) {
  for (const Mode mode : {Mode::kAsync, Mode::kStash, Mode::k2bw}) {
    for (const int micro_batches : {1, 2, 4}) {
      for (const bool in_processes : {false, true}) {
        SCOPED_TRACE(std::string(pipeline::mode_name(mode)) + ", accumulate " +
                     std::to_string(micro_batches) + (in_processes ? ", processes" : ""));
        HarnessOptions options = watched(mode, 8 / micro_batches);
        options.replicas = in_processes ? 1 : 0;
        constexpr int kUpdates = 6;
        const Looks seen = looks_of(options, kUpdates);
        ASSERT_EQ(seen.size(), static_cast<size_t>(2 * kUpdates * micro_batches));
        for (const auto& [of, each] : seen) {
          EXPECT_GE(each.front().weights.size(), 2u) << "layers of a stage";
          expect_updates_behind_each_layer(each, std::get<2>(of) + 1 == micro_batches);
        }
      }
    }
  }
}

// The test above can fail: with a flush, or with updates after the whole backward pass, no layer
// sees another one change.
TEST(AsyncPipeline, UpdatesThatWaitForTheStageWouldBeSeen) {
  for (const bool flushes : {false, true}) {
    HarnessOptions options = watched(flushes ? Mode::kFlush : Mode::kAsync, 2);
    options.form = pipeline::FlushForm::k1F1B;
    options.updates_together = !flushes;
    const Looks seen = looks_of(options, 3);
    ASSERT_EQ(seen.size(), size_t{2 * 3 * 4});
    for (const auto& [of, each] : seen) {
      expect_updates_behind_each_layer(each, false);
    }
  }
}

// Nothing else reads the weights of a layer in between. So the bits are the same as with updates
// after the whole backward pass.
TEST(AsyncPipeline, UpdatesLayerByLayerHaveTheBitsOfUpdatesTogether) {
  struct Case {
    const char *model, *format;
    OptimizerKind optimizer = OptimizerKind::kMomentum;
    uint64_t retention_key = 0;
    bool predicts_weights = false;
  };
  for (const Case& c : {Case{"resnet8", "bfp8"}, Case{"resnet8", "bfp8", OptimizerKind::kAdam, 1},
                        Case{"resnet8", "dfp:warmup=3", OptimizerKind::kNesterov},
                        Case{"resnet8", "dfp:decide=pass,warmup=2"},
                        Case{"lenet5", "bfp:g=8,gr=stochastic", OptimizerKind::kMomentum, 0, true},
                        Case{"lenet5", "fp32", OptimizerKind::kAdamW, 2}}) {
    for (const Mode mode : {Mode::kAsync, Mode::kStash, Mode::k2bw}) {
      SCOPED_TRACE(std::string(c.model) + " " + c.format + " " +
                   std::string(pipeline::mode_name(mode)));
      HarnessOptions options = {.model = c.model,
                                .format = c.format,
                                .optimizer = c.optimizer,
                                .batch_size = 16,
                                .micro_batch_size = 4,
                                .retention_key = c.retention_key,
                                .stages = 2,
                                .pipeline = mode,
                                .predicts_weights = c.predicts_weights};
      Harness by_layer(options);
      options.updates_together = true;
      Harness together(options);
      const std::vector<StepResult> counts = by_layer.stretch(6), others = together.stretch(6);
      for (size_t i = 0; i < counts.size(); ++i) expect_same_counts(counts[i], others[i]);
      EXPECT_EQ(by_layer.state_sha256(), together.state_sha256());
    }
  }
}

}  // namespace
}  // namespace mantissa::testing

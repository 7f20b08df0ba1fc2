// Promises of docs/memory.md and docs/pipelines.md, on a few networks and settings.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "run/plan/run_plan.h"
#include "run/settings/run_config.h"
#include "tests/harness.h"

namespace mantissa::testing {
namespace {

RunPlan planned(const std::map<std::string, std::string>& settings) {
  auto plan = plan_run(*make_run_config(settings), fashion_mnist().info);
  EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message);
  return std::move(*plan);
}

// 1 byte for the weight that computes, 2 for the accumulator, 2 for the velocity.
TEST(MemoryPromises, WeightsWithMomentumTakeFiveBytesEach) {
  for (const char* model : {"mlp", "resnet8"}) {
    const RunPlan plan = planned({{"model", model}, {"batch-size", "8"}, {"threads", "1"}});
    for (size_t p = 0; p < plan.graph.parameters.size(); ++p) {
      if (plan.graph.parameters[p].storage != Storage::kWeights) continue;
      const ParameterState& tensors = plan.layout.parameters[p];
      const auto bytes = [&](int tensor) {
        return tensor < 0 ? 0 : plan.layout.tensors[tensor].bytes();
      };
      EXPECT_EQ(bytes(tensors.mantissa) + bytes(tensors.accumulator) +
                    bytes(tensors.moments[0].mantissa) + bytes(tensors.moments[1].mantissa),
                5 * plan.graph.parameters[p].shape.count())
          << plan.graph.parameters[p].name;
    }
  }
}

TEST(MemoryPromises, StagesShareTheThreads) {
  struct Shared {
    const char *threads, *stages;
    int each;
  };
  for (const Shared& shared : {Shared{"7", "3", 2}, Shared{"6", "2", 3}, Shared{"1", "3", 1}}) {
    const RunPlan plan = planned({{"model", "resnet8"},
                                  {"batch-size", "8"},
                                  {"accumulate", "4"},
                                  {"threads", shared.threads},
                                  {"stages", shared.stages}});
    ASSERT_TRUE(plan.staged);
    EXPECT_EQ(plan.staged->threads, shared.each) << shared.threads << " for " << shared.stages;
  }
}

}  // namespace
}  // namespace mantissa::testing

#include "run/logs/hash_log.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/test_folder.h"
#include "models/models.h"

namespace mantissa {
namespace {

State small_state() {
  const auto graph = build_model("mlp", {.height = 4, .width = 4, .channel_means = {0}});
  EXPECT_TRUE(graph.ok());
  auto state = State::create(training_layout(*graph, Format{}, OptimizerKind::kMomentum));
  EXPECT_TRUE(state.ok());
  initialise(*graph, Format{}, 1, *state);
  return std::move(*state);
}

// Stands for a step: changes the first tensor.
void change(State& state, int64_t step) { state.data<int8_t>(0)[step] ^= 1; }

void go_on(const std::filesystem::path& path, State& state, int64_t from, int64_t to) {
  auto log = HashLog::open(path, "a run", from, 1, 0, state);
  ASSERT_TRUE(log.ok());
  for (int64_t step = from + 1; step <= to; ++step) {
    change(state, step);
    ASSERT_TRUE(log->write(step, state).ok());
  }
}

TEST(HashLog, ResumedIsTheSameFileAsNeverStopped) {
  const TestFolder folder;
  State whole = small_state(), stopped = small_state();
  go_on(folder / "whole", whole, 0, 8);
  go_on(folder / "stopped", stopped, 0, 5);
  for (int64_t step = 5; step > 3; --step) change(stopped, step);  // back to the checkpoint
  put_file(folder / "stopped", get_file(folder / "stopped") + "{\"step\":6,\"dig");
  go_on(folder / "stopped", stopped, 3, 8);
  EXPECT_EQ(get_file(folder / "whole"), get_file(folder / "stopped"));
}

TEST(HashLog, OnlyTheChangedTensorHasAnotherDigest) {
  const TestFolder folder;
  State state = small_state();
  go_on(folder / "log", state, 0, 1);
  std::istringstream lines(get_file(folder / "log"));
  std::string first, second;
  std::getline(lines, first);
  std::getline(lines, second);
  const auto a = nlohmann::ordered_json::parse(first), b = nlohmann::ordered_json::parse(second);
  ASSERT_EQ(a["digests"].size(), state.layout().tensors.size());
  ASSERT_EQ(a["tensors"].size(), state.layout().tensors.size());
  EXPECT_EQ(a["tensors"][0], "linear1.weights");
  EXPECT_NE(a["digests"][0], b["digests"][0]);
  for (size_t i = 1; i < a["digests"].size(); ++i) EXPECT_EQ(a["digests"][i], b["digests"][i]);
  EXPECT_EQ(b["chain"], chain_hash(a["chain"], b));
}

TEST(HashLog, WithoutItsFileARunBeginsAnewWhereItIs) {
  const TestFolder folder;
  State state = small_state();
  go_on(folder / "log", state, 40, 41);
  const auto first = nlohmann::json::parse(
      get_file(folder / "log").substr(0, get_file(folder / "log").find('\n')));
  EXPECT_EQ(first["step"], 40);
  EXPECT_EQ(first["run_identity"], "a run");
}

}  // namespace
}  // namespace mantissa

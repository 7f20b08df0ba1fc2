// The events of validation that a program sees which embeds the library, and the effect of stopping
// there.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "base/test_folder.h"
#include "mantissa/mantissa.h"

namespace mantissa::testing {
namespace {

Settings settings(const TestFolder& folder, const std::string& run) {
  return {{"model", "mlp"}, {"data", "fashion-mnist"}, {"steps", "4"},   {"batch-size", "500"},
          {"seed", "1"},    {"validation", "59000"},   {"threads", "2"}, {"out", folder / run}};
}

std::string entry(const std::string& json, const std::string& name) {
  const size_t at = json.find('"' + name + '"');
  return at == std::string::npos ? "" : json.substr(at, json.find('\n', at) - at);
}

TEST(ValidationEvents, TellHowFarItIs) {
  const TestFolder folder;
  std::vector<int64_t> done;
  const auto outcome = train(settings(folder, "run"), [&](const Progress& progress) {
    if (progress.kind == Progress::Kind::kValidating) {
      EXPECT_EQ(progress.steps, 59000);
      done.push_back(progress.step);
    }
    return true;
  });
  ASSERT_EQ(outcome.error(), "");
  ASSERT_EQ(done.size(), 2 * 118) << "batches of 500, after each epoch of two steps";
  EXPECT_EQ(done.front(), 500);
  EXPECT_EQ(done.back(), 59000);
}

TEST(ValidationEvents, StoppingThereEndsTheValidationAndResumesToTheSameBits) {
  const TestFolder folder;
  const auto whole = train(settings(folder, "whole"));
  ASSERT_EQ(whole.error(), "");
  const auto stopped = train(settings(folder, "stopped"), [](const Progress& progress) {
    return progress.kind != Progress::Kind::kValidating;
  });
  EXPECT_EQ(stopped.failure().exit, Exit::kInterrupted) << stopped.error();
  EXPECT_NE(stopped.error().find("interrupted at step 2"), std::string::npos) << stopped.error();
  std::ifstream metrics(folder / "stopped" / "metrics.jsonl");
  const std::string lines{std::istreambuf_iterator<char>(metrics), {}};
  EXPECT_NE(lines.find("validation_loss"), std::string::npos) << lines;
  Settings resumed = settings(folder, "stopped");
  resumed["resume"] = "true";
  const auto ended = train(resumed);
  ASSERT_EQ(ended.error(), "");
  EXPECT_EQ(entry(ended->summary_json, "state_sha256"), entry(whole->summary_json, "state_sha256"));
  EXPECT_NE(entry(whole->summary_json, "state_sha256"), "");
}

}  // namespace
}  // namespace mantissa::testing

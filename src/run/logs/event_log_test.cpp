#include "run/logs/event_log.h"

#include <gtest/gtest.h>

#include <string>

#include "base/test_folder.h"

namespace mantissa {
namespace {

std::string line(const std::string& step) {
  return "{\"step\":" + step +
         ",\"epoch\":0.5,\"loss\":1,\"accuracy\":0.5,\"learning_rate\":0.1,"
         "\"examples_per_second\":1000,\"saturation_rate\":0}\n";
}

// Bytes of the events of these metrics.
uintmax_t bytes_of_events(const TestFolder& folder, const std::string& metrics) {
  put_file(folder / "metrics.jsonl", metrics);
  EXPECT_TRUE(write_events(folder / "metrics.jsonl", folder / "events/file", INT64_MAX, 1e9).ok());
  uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "events")) {
    bytes += entry.file_size();
  }
  return bytes;
}

// The metrics may be anybody's: what follows a step that is none is left out.
TEST(EventLog, StepsThatAreNoneEndTheMetrics) {
  const TestFolder folder;
  const uintmax_t none = bytes_of_events(folder, "");
  const uintmax_t one = bytes_of_events(folder, line("50"));
  EXPECT_GT(one, none);
  EXPECT_GT(bytes_of_events(folder, line("50") + line("9007199254740992")), one);
  for (const char* step : {"1e300", "-5", "50", "49", "9007199254740993", "\"x\"", "null"}) {
    EXPECT_EQ(bytes_of_events(folder, line("50") + line(step) + line("100")), one) << step;
  }
}

TEST(EventLog, EachRunHasAFolderOfItsOwn) {
  const TestFolder folder;
  const auto tb = folder / "tb", run = folder / "run";
  const auto file = event_file(tb, "run", run);
  EXPECT_EQ(file.parent_path(), tb / "run");
  EXPECT_EQ(event_file(tb, "run", folder / "./x/../run/"), event_file(tb, "run", run / ""));
  EXPECT_NE(event_file(tb, "run", folder / "other/run"), file);
  for (const char* name : {"", ".", ".."}) {
    EXPECT_EQ(event_file(tb, name, run).parent_path(), tb / "run") << name;
  }
  EXPECT_EQ(event_file(tb, "a/b", run).parent_path(), tb / "a_b");
  const std::string name(300, 'x');
  EXPECT_EQ(event_file(tb, name, run).parent_path(), tb / name.substr(45));

  EXPECT_TRUE(check_event_file(file).ok());
  ASSERT_TRUE(write_events(folder / "none", file, 1, 1e9).ok());
  EXPECT_TRUE(check_event_file(file).ok());
  EXPECT_TRUE(write_events(folder / "none", file, 1, 1e9).ok());
  const auto other = event_file(tb, "run", folder / "other/run");
  ASSERT_FALSE(check_event_file(other).ok());
  EXPECT_NE(check_event_file(other).error().message.find(file.string()), std::string::npos);
  EXPECT_FALSE(write_events(folder / "none", other, 1, 1e9).ok());
}

}  // namespace
}  // namespace mantissa

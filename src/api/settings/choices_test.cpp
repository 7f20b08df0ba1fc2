#include "mantissa/choices.h"

#include <gtest/gtest.h>

#include "api/settings/settings.h"
#include "base/system/cpu.h"

namespace mantissa {
namespace {

TEST(Choices, AreWhatTrainingTakes) {
  int checked = 0;
  for (const SettingInfo& info : settings_of("train")) {
    if (info.name == "data") continue;  // looked for only when it is loaded
    for (const std::string& value : choices_of(info.name).values) {
      const auto config = training_config({{info.name, value}});
      // An instruction set that this CPU lacks is refused, but known.
      const bool known = config.ok() || config.error().message.find("CPU") != std::string::npos;
      EXPECT_TRUE(known) << info.name << " " << value << ": "
                         << (config.ok() ? "" : config.error().message);
      ++checked;
    }
  }
  EXPECT_GT(checked, 15);
}

TEST(Choices, PathsAreSettings) {
  EXPECT_TRUE(choices_of("out").is_path);
  EXPECT_FALSE(choices_of("seed").is_path);
  EXPECT_TRUE(choices_of("seed").values.empty());
  EXPECT_EQ(choices_of("model").values.size(), built_in_models().size());
}

}  // namespace
}  // namespace mantissa

#include "api/settings/describe_settings.h"

#include "api/settings/commands.h"
#include "api/settings/settings.h"

namespace mantissa {
namespace {

constexpr SettingOf<DescribeConfig> kDataRows[] = {
    {"data", "data set, also without --data: a name, a folder or a file"},
    {"input-size", "size that pictures are brought to, as in train", "0"},
    {"contact-sheet", "PNG file to write, with a row of training pictures for each class", "",
     parse_text<&DescribeConfig::contact_sheet>},
    {kOfTraining},
    {"threads", kThreadsHelp, "0"}};
constexpr CommandOf<DescribeConfig> kDataCommand = {"data", kDataRows, traits::kInData};

}  // namespace

CommandInfo data_command() { return info_of<kDataCommand>(); }

Result<DescribeConfig> describe_config(const Settings& settings) {
  Settings training;
  MANTISSA_ASSIGN(DescribeConfig config, read_settings(kDataCommand, settings, &training));
  MANTISSA_ASSIGN(config.run, make_run_config(training));
  if (!settings.contains("data")) return invalid_input("name a data set or a folder");
  return config;
}

}  // namespace mantissa

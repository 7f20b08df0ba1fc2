// The public interface of profile, in terms of train/.
#include <nlohmann/json.hpp>

#include "api/outcome.h"
#include "api/settings/commands.h"
#include "api/settings/settings.h"
#include "api/target.h"
#include "base/files/atomic_file.h"
#include "base/files/file_system.h"
#include "formats/json_text.h"
#include "measure/measure_profile.h"
#include "run/settings/config_file.h"
#include "run/settings/profile_file.h"

namespace mantissa {
namespace {

struct ProfileConfig {
  std::string out;
};

constexpr SettingOf<ProfileConfig> kProfileRows[] = {
    {"out", "file to write (left out: where later runs look for it)", "",
     parse_text<&ProfileConfig::out>},
    {"threads", kThreadsHelp, "0"},
    {"isa", "instruction set: auto, scalar, avx2, avxvnni, avx512vnni, amx", "auto"}};
constexpr CommandOf<ProfileConfig> kProfileCommand = {"profile", kProfileRows};

Result<std::string> profile_path(const std::string& out) {
  if (!out.empty()) {
    MANTISSA_RETURN_IF_ERROR(check_target("out", out));
    return out;
  }
  const std::filesystem::path path = default_profile_path();
  if (path.empty()) {
    return invalid_input("out: neither XDG_CACHE_HOME nor HOME is set: name a file");
  }
  MANTISSA_RETURN_IF_ERROR(make_folder(path.parent_path()));
  return path.string();
}

}  // namespace

CommandInfo profile_command() { return info_of<kProfileCommand>(); }

Outcome<MeasuredProfile> profile(const Settings& settings, const Observer& observer) {
  Settings training;
  MANTISSA_ASSIGN(const ProfileConfig own, read_settings(kProfileCommand, settings, &training));
  training["profile"] = "builtin";
  MANTISSA_ASSIGN(const RunConfig config, make_run_config(training));
  MeasuredProfile profile;
  MANTISSA_ASSIGN(profile.path, profile_path(own.out));
  MANTISSA_ASSIGN(const MachineProfile measured,
                  measure_profile(config.threads, config.isa, forwarded(observer)));
  profile.text = to_toml(measured);
  MANTISSA_RETURN_IF_ERROR(write_text_atomically(profile.path, profile.text));
  MANTISSA_ASSIGN(const auto entries, read_entries(profile.path));
  nlohmann::ordered_json json = {{"path", profile.path}};
  for (const auto& [name, text] : entries) json[name] = parse_json(text);
  profile.json = json.dump(2);
  return profile;
}

}  // namespace mantissa

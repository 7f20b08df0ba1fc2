// The public interface of profile, in terms of train/.
#include <nlohmann/json.hpp>

#include "api/outcome.h"
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

Result<std::string> profile_path(const Settings& settings) {
  if (const auto out = settings.find("out"); out != settings.end() && !out->second.empty()) {
    MANTISSA_RETURN_IF_ERROR(check_target("out", out->second));
    return out->second;
  }
  const std::filesystem::path path = default_profile_path();
  if (path.empty()) {
    return invalid_input("out: neither XDG_CACHE_HOME nor HOME is set: name a file");
  }
  MANTISSA_RETURN_IF_ERROR(make_folder(path.parent_path()));
  return path.string();
}

Result<ProfileOutcome> run_profile(const Settings& settings, const Observer& observer) {
  Settings training = settings;
  training.erase("out");
  training["profile"] = "builtin";
  MANTISSA_ASSIGN(const RunConfig config, make_run_config(training));
  ProfileOutcome outcome;
  MANTISSA_ASSIGN(outcome.path, profile_path(settings));
  TrainObserver forward;
  if (observer != nullptr) {
    forward = [&](const TrainEvent& event) { return observer(progress_of(event)); };
  }
  MANTISSA_ASSIGN(const MachineProfile measured,
                  measure_profile(config.threads, config.isa, forward));
  outcome.text = to_toml(measured);
  MANTISSA_RETURN_IF_ERROR(write_text_atomically(outcome.path, outcome.text));
  MANTISSA_ASSIGN(const auto entries, read_entries(outcome.path));
  nlohmann::ordered_json json = {{"path", outcome.path}};
  for (const auto& [name, text] : entries) json[name] = parse_json(text);
  outcome.json = json.dump(2);
  return outcome;
}

}  // namespace

ProfileOutcome profile(const Settings& settings, const Observer& observer) {
  Result<ProfileOutcome> outcome = run_profile(settings, observer);
  return outcome.ok() ? std::move(*outcome) : refused<ProfileOutcome>(outcome.error());
}

}  // namespace mantissa

// The profile of a machine as a file: readable text, written by `mantissa profile`, which a person
// may change. It decides which values are kept and which are computed again, never a result.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "plan/retention/machine_profile.h"

namespace mantissa {

// The place where runs look for a profile: mantissa/profile.toml in the user's cache folder
// ($XDG_CACHE_HOME, else ~/.cache); empty if there is none.
std::filesystem::path default_profile_path();

// One line per rate and size. Missing entries have the built-in values. Unknown entries, and values
// that are no positive numbers, are errors that name the entry.
Result<MachineProfile> read_profile(const std::filesystem::path& path);
std::string to_toml(const MachineProfile& profile);

// The profile of `--profile`: a file; "builtin"; or "": the file at the default path if it exists.
Result<MachineProfile> find_profile(const std::string& setting);

}  // namespace mantissa

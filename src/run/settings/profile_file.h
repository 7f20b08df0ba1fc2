// The profile of a machine as a file: readable text, which `mantissa profile` writes and a person
// may change. It decides what is kept and what is computed again, never a result.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "plan/retention/machine_profile.h"

namespace mantissa {

// Where runs look for a profile: mantissa/profile.toml in the user's cache folder
// ($XDG_CACHE_HOME, else ~/.cache); empty where there is none.
std::filesystem::path default_profile_path();

// One line per rate and size. What a file leaves out is as built in; what is not a positive number,
// or not known, is an error that names it.
Result<MachineProfile> read_profile(const std::filesystem::path& path);
std::string to_toml(const MachineProfile& profile);

// The profile of `--profile`: a file; "builtin"; or "": the file at the default path if it exists.
Result<MachineProfile> find_profile(const std::string& setting);

}  // namespace mantissa

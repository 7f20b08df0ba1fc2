#include "run/settings/profile_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "base/files/file_system.h"
#include "base/real_text.h"
#include "run/settings/config_file.h"
#include "run/settings/run_config.h"

namespace mantissa {
namespace {

constexpr double kLargest = 1e15;

// A number of the profile: its name in files, and its meaning.
struct Field {
  const char* name;
  const char* comment;
  double (*get)(const MachineProfile&);
  void (*set)(MachineProfile&, double);
  double least = 1e-9;
};

template <size_t kTier>
double tier_bytes(const MachineProfile& p) {
  return static_cast<double>(p.tiers[kTier].bytes);
}
template <size_t kTier>
void set_tier_bytes(MachineProfile& p, double number) {
  p.tiers[kTier].bytes = static_cast<int64_t>(std::max(1.0, number));
}
template <size_t kTier>
double tier_rate(const MachineProfile& p) {
  return p.tiers[kTier].bytes_per_ns;
}
template <size_t kTier>
void set_tier_rate(MachineProfile& p, double number) {
  p.tiers[kTier].bytes_per_ns = number;
}
template <auto kMember>
double number(const MachineProfile& p) {
  return p.*kMember;
}
template <auto kMember>
void set_number(MachineProfile& p, double number) {
  p.*kMember = number;
}

constexpr std::array kFields = {
    Field{"near_cache_bytes", "of the cache that each core has, all cores together", tier_bytes<0>,
          set_tier_bytes<0>},
    Field{"near_cache_bytes_per_ns", "read and written, by all threads", tier_rate<0>,
          set_tier_rate<0>},
    Field{"far_cache_bytes", "of the last cache", tier_bytes<1>, set_tier_bytes<1>},
    Field{"far_cache_bytes_per_ns", "", tier_rate<1>, set_tier_rate<1>},
    Field{"memory_bytes_per_ns", "", tier_rate<2>, set_tier_rate<2>},
    Field{"on_chip_bytes", "that programs fill themselves; CPUs: 0",
          [](const MachineProfile& p) { return static_cast<double>(p.on_chip.bytes); },
          [](MachineProfile& p, double n) { p.on_chip.bytes = static_cast<int64_t>(n); }, 0},
    Field{"on_chip_bytes_per_ns", "",
          [](const MachineProfile& p) { return p.on_chip.bytes_per_ns; },
          [](MachineProfile& p, double n) { p.on_chip.bytes_per_ns = n; }},
    Field{"dense_macs_per_ns", "of one thread: convolution and linear, forward, 8 bits",
          number<&MachineProfile::dense_macs_per_ns>,
          set_number<&MachineProfile::dense_macs_per_ns>},
    Field{"depthwise_macs_per_ns", "one channel per group",
          number<&MachineProfile::depthwise_macs_per_ns>,
          set_number<&MachineProfile::depthwise_macs_per_ns>},
    Field{"wide_macs_per_ns", "of more than 8 bits", number<&MachineProfile::wide_macs_per_ns>,
          set_number<&MachineProfile::wide_macs_per_ns>},
    Field{"float_macs_per_ns", "fp32", number<&MachineProfile::float_macs_per_ns>,
          set_number<&MachineProfile::float_macs_per_ns>},
    Field{"norm_elements_per_ns", "batch norm", number<&MachineProfile::norm_elements_per_ns>,
          set_number<&MachineProfile::norm_elements_per_ns>},
    Field{"elements_per_ns", "what else is computed element by element",
          number<&MachineProfile::elements_per_ns>, set_number<&MachineProfile::elements_per_ns>}};

}  // namespace

std::filesystem::path default_profile_path() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path folder;
  if (cache != nullptr && *cache != '\0') {
    folder = cache;
  } else if (home != nullptr && *home != '\0') {
    folder = std::filesystem::path(home) / ".cache";
  } else {
    return {};
  }
  return folder / "mantissa" / "profile.toml";
}

Result<MachineProfile> read_profile(const std::filesystem::path& path) {
  MANTISSA_ASSIGN(const auto entries, read_entries(path));
  MachineProfile profile;
  for (const auto& [name, text] : entries) {
    const auto* field = std::find_if(kFields.begin(), kFields.end(),
                                     [&name = name](const Field& f) { return name == f.name; });
    if (field == kFields.end()) {
      return invalid_input(path.string() + ": '" + name + "' is not a number of a profile");
    }
    const auto value = parse_real(name, text, field->least, kLargest);
    if (!value.ok()) return invalid_input(path.string() + ": " + value.error().message);
    field->set(profile, *value);
  }
  return profile;
}

std::string to_toml(const MachineProfile& profile) {
  std::string text;
  for (const Field& field : kFields) {
    text += std::string(field.name) + " = " + real_text(field.get(profile));
    if (*field.comment != '\0') text += std::string("  # ") + field.comment;
    text += "\n";
  }
  return text;
}

Result<MachineProfile> find_profile(const std::string& setting) {
  if (setting == "builtin") return MachineProfile{};
  if (!setting.empty()) return read_profile(setting);
  const std::filesystem::path path = default_profile_path();
  if (path.empty()) return MachineProfile{};
  const auto there = is_there(path);
  // If another user owns the home folder (a switch of user kept HOME), its profile is not this
  // user's.
  if (there.ok() ? !*there : there.error().code == ErrorCode::kInvalidInput)
    return MachineProfile{};
  if (!there.ok()) return there.error();
  return read_profile(path);
}

}  // namespace mantissa

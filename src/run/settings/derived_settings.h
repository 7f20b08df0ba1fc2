// Settings that follow from others if nobody chose them.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "run/settings/run_config.h"

namespace mantissa {

struct DerivedSetting {
  const char* name;
  std::array<const char*, 2> from;  // the settings that it follows from; null: no more
  bool (*is_open)(const RunConfig& config);
  void (*derive)(RunConfig& config);

  bool follows_from(std::string_view setting) const;
};

std::span<const DerivedSetting> derived_settings();

}  // namespace mantissa

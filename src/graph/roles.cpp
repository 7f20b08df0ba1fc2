#include "graph/roles.h"

#include <array>

namespace mantissa {

std::string_view role_name(Role role) {
  constexpr std::array<std::string_view, kRoles> kNames = {
      "in",       "out",   "grad_out",   "grad_in", "parameter", "sums",
      "velocity", "saved", "statistics", "work",    "scratch",   "cache"};
  return kNames[static_cast<size_t>(role)];
}

std::string_view access_name(Access access) {
  constexpr std::array<std::string_view, 6> kNames = {"-",       "reads", "writes",
                                                      "updates", "adds",  "accumulates"};
  return kNames[static_cast<size_t>(access)];
}

}  // namespace mantissa

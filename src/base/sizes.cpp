#include "base/sizes.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <utility>

namespace mantissa {
namespace {

constexpr std::array<std::pair<std::string_view, int64_t>, 5> kUnits = {{{"TiB", int64_t{1} << 40},
                                                                         {"GiB", int64_t{1} << 30},
                                                                         {"MiB", int64_t{1} << 20},
                                                                         {"KiB", int64_t{1} << 10},
                                                                         {"B", 1}}};

}  // namespace

Result<int64_t> parse_bytes(std::string_view text) {
  const auto refuse = [&] {
    return invalid_input("'" + std::string(text) +
                         "' is not a size; write for example 1000000B, 512MiB or 2GiB");
  };
  for (const auto& [unit, factor] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const std::string_view digits = text.substr(0, text.size() - unit.size());
    double number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc{} || end != digits.data() + digits.size()) return refuse();
    const double bytes = number * static_cast<double>(factor);
    if (!(bytes >= 1) || bytes > 9e18) return refuse();
    return static_cast<int64_t>(bytes);
  }
  return refuse();
}

std::string format_bytes(int64_t bytes) {
  char text[32];
  for (const auto& [unit, factor] : kUnits) {
    if (factor == 1 || bytes < factor) continue;
    std::snprintf(text, sizeof text, "%.1f %.*s", static_cast<double>(bytes) / factor,
                  static_cast<int>(unit.size()), unit.data());
    return text;
  }
  return std::to_string(bytes) + " B";
}

Error out_of_memory(const std::string& thing, int64_t bytes, SourceLocation where) {
  return failed("no memory for " + thing + ": the system did not give " + format_bytes(bytes),
                where);
}

}  // namespace mantissa

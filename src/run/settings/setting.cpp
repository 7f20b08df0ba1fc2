#include "run/settings/setting.h"

#include <charconv>

namespace mantissa {

Result<int64_t> parse_integer(const std::string& name, const std::string& text, int64_t low,
                              int64_t high) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || value < low || value > high) {
    return invalid_input(name + ": '" + text + "' is not a whole number from " +
                         std::to_string(low) + " to " + std::to_string(high));
  }
  return value;
}

Result<double> parse_real(const std::string& name, const std::string& text, double low,
                          double high) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || !(value >= low) || !(value <= high)) {
    return invalid_input(name + ": '" + text + "' is not a number from " + real_text(low) + " to " +
                         real_text(high));
  }
  return value;
}

}  // namespace mantissa

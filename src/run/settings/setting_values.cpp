#include "run/settings/setting_values.h"

#include <algorithm>
#include <cmath>

#include "base/real_text.h"

namespace mantissa {

Status parse_switch(const std::string& name, const std::string& text, bool& field) {
  if (text != "true" && text != "false") {
    return invalid_input(name + ": '" + text + "' is neither true nor false");
  }
  field = text == "true";
  return {};
}

Result<std::vector<double>> parse_reals(const std::string& text) {
  std::vector<double> numbers;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    MANTISSA_ASSIGN(const double number,
                    parse_real("a number", text.substr(begin, end - begin), 0, 1e6));
    numbers.push_back(number);
    begin = end + 1;
  }
  return numbers;
}

Result<std::vector<int64_t>> parse_widths(const std::string& text) {
  std::vector<int64_t> widths;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    MANTISSA_ASSIGN(const int64_t width,
                    parse_integer("hidden", text.substr(begin, end - begin), 1, 65536));
    widths.push_back(width);
    begin = end + 1;
  }
  return widths;
}

std::string widths_text(const std::vector<int64_t>& widths) {
  std::string text;
  for (const int64_t width : widths) text += (text.empty() ? "" : ",") + std::to_string(width);
  return text;
}

Status parse_validation(const std::string& text, RunConfig& config) {
  MANTISSA_ASSIGN(const double value, parse_real("validation", text, 0, double{1 << 30}));
  if (value >= 1 && value != std::floor(value)) {
    return invalid_input("validation: '" + text +
                         "' is neither a fraction below 1 nor a number of examples");
  }
  config.validation = value;
  return {};
}

}  // namespace mantissa

#include "report/html.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "base/sizes.h"

namespace mantissa {
namespace {

// Length of the valid UTF-8 character that `text` begins with; 0: none.
size_t character_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const size_t length = first < 0x80   ? 1
                        : first < 0xC2 ? 0
                        : first < 0xE0 ? 2
                        : first < 0xF0 ? 3
                        : first < 0xF5 ? 4
                                       : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (first == 0xE0 && byte(1) < 0xA0) return 0;
  if (first == 0xED && byte(1) > 0x9F) return 0;
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  if (first == 0xF4 && byte(1) > 0x8F) return 0;
  return length;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string html;
  while (!text.empty()) {
    const size_t length = character_length(text);
    const char c = text[0];
    if (length == 0 || (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t')) {
      html += "\uFFFD";
    } else if (c == '&') {
      html += "&amp;";
    } else if (c == '<') {
      html += "&lt;";
    } else if (c == '>') {
      html += "&gt;";
    } else if (c == '"') {
      html += "&quot;";
    } else if (c == '\'') {
      html += "&#39;";
    } else {
      html += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(1, length));
  }
  return html;
}

std::string number_text(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  char text[64];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

std::string grouped_text(double value) {
  if (!std::isfinite(value) || std::abs(value) > 1e15) return "-";
  std::string digits = std::to_string(std::llround(value));
  for (int at = static_cast<int>(digits.size()) - 3; at > (value < 0 ? 1 : 0); at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return digits;
}

std::string bytes_text(double bytes) {
  if (!std::isfinite(bytes) || std::abs(bytes) > 1e18) return "-";
  return format_bytes(static_cast<int64_t>(bytes));
}

std::string percent_text(double fraction, int decimals) {
  if (!std::isfinite(fraction)) return "-";
  char text[400];
  std::snprintf(text, sizeof text, "%.*f %%", decimals, 100 * fraction);
  return text;
}

std::string png_uri(std::span<const std::byte> png) {
  return "data:image/png;base64," + to_base64(png);
}

std::string script_json(const nlohmann::json& json) {
  std::string text;
  for (const char c : json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)) {
    text += c == '<' ? "\\u003c" : c == '>' ? "\\u003e" : c == '&' ? "\\u0026" : std::string(1, c);
  }
  return text;
}

std::string table(const std::vector<std::string>& head,
                  const std::vector<std::vector<std::string>>& rows, const char* css_class) {
  std::string html = std::string("<div class=\"scroll\"><table class=\"") + css_class + "\">\n";
  if (!head.empty()) {
    html += "<thead><tr>";
    for (const std::string& cell : head) html += "<th scope=\"col\">" + cell + "</th>";
    html += "</tr></thead>\n";
  }
  html += "<tbody>\n";
  for (const auto& row : rows) {
    html += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) {
      html += i == 0 ? "<th scope=\"row\">" + row[i] + "</th>" : "<td>" + row[i] + "</td>";
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace mantissa

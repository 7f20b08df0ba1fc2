// Pieces of HTML. Everything that comes from a file goes through escaped().
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mantissa {

// Escapes text for elements and quoted attributes, so that no browser takes it for markup. Invalid
// UTF-8 and control characters become U+FFFD.
std::string escaped(std::string_view text);

// A number to `digits` significant digits, without trailing zeros; "-" if it is not finite.
std::string number_text(double value, int digits = 4);
// "12,345"; "61.2 MiB"; "84.51 %"; "-" if it is not finite.
std::string grouped_text(double value);
std::string bytes_text(double bytes);
std::string percent_text(double fraction, int decimals = 2);

// "data:image/png;base64,...".
std::string png_uri(std::span<const std::byte> png);

// JSON for a script element: it cannot end the element.
std::string script_json(const nlohmann::json& json);

// A table: `head` (may be empty) and rows; cells are HTML. The first cell of each row is its title.
std::string table(const std::vector<std::string>& head,
                  const std::vector<std::vector<std::string>>& rows, const char* css_class = "");

}  // namespace mantissa

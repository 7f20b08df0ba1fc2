// Base64 (RFC 4648): bytes as text, for places that take only text.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace mantissa {

// With padding, in one line.
std::string to_base64(std::span<const std::byte> bytes);

// The bytes of such a text; nothing for any other text. Different texts have different bytes.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace mantissa

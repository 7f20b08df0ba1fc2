// GPT-2's alphabet: a printable character for each byte, so that pieces of bytes can be written as
// text in vocabularies and lists of merges.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mantissa {

// The character of a byte, as UTF-8: itself if it is printable and no space, else one from U+0100
// on.
std::string character_of_byte(uint8_t byte);

// The bytes of a text in this alphabet; nothing if it has another character.
std::optional<std::string> bytes_of_alphabet(std::string_view text);

}  // namespace mantissa

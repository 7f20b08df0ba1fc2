#include "data/tokenizers/byte_bpe/byte_alphabet.h"

#include <array>

#include "data/tokenizers/common/code_point.h"

namespace mantissa {
namespace {

constexpr int kBytes = 256, kFirstMoved = 256, kMoved = 68;

constexpr bool stays(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// Code points of bytes, and bytes of code points from 256 on.
struct Alphabet {
  std::array<int32_t, kBytes> characters{};
  std::array<uint8_t, kMoved> moved{};
};
constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  int count = 0;
  for (int byte = 0; byte < kBytes; ++byte) {
    alphabet.characters[byte] = stays(byte) ? byte : kFirstMoved + count;
    if (!stays(byte)) alphabet.moved[count++] = static_cast<uint8_t>(byte);
  }
  return alphabet;
}
constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::string character_of_byte(uint8_t byte) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto length = utf8proc_encode_char(kAlphabet.characters[byte], bytes.data());
  return {reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(length)};
}

std::optional<std::string> bytes_of_alphabet(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    at += point.length;
    const int32_t c = point.number;
    if (c >= kFirstMoved && c < kFirstMoved + kMoved) {
      bytes += static_cast<char>(kAlphabet.moved[static_cast<size_t>(c - kFirstMoved)]);
    } else if (c >= 0 && c < kBytes && stays(c)) {
      bytes += static_cast<char>(c);
    } else {
      return std::nullopt;
    }
  }
  return bytes;
}

}  // namespace mantissa

#include "data/augment.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace mantissa {
namespace {

constexpr int kDefaultShift = 2;
constexpr int kMaxShift = 16;

// A uniform whole number in [-shift, shift] from 31 bits.
int64_t draw_shift(uint64_t bits, int shift) {
  const uint64_t choices = 2 * static_cast<uint64_t>(shift) + 1;
  return static_cast<int64_t>(((bits & 0x7fffffff) * choices) >> 31) - shift;
}

Error refuse(std::string_view text) {
  return invalid_input("'" + std::string(text) +
                       "' is not an augmentation; write none, shift, shift=1 to shift=16, flip, or "
                       "shift,flip");
}

// Reads one item into `augmentation`; false if it is unknown or there already.
bool parse_item(std::string_view item, Augmentation& augmentation) {
  if (item == "flip") return !std::exchange(augmentation.flip, true);
  if (!item.starts_with("shift") || augmentation.shift != 0) return false;
  item.remove_prefix(5);
  if (item.empty()) {
    augmentation.shift = kDefaultShift;
    return true;
  }
  int shift = 0;
  const auto [end, error] = std::from_chars(item.data() + 1, item.data() + item.size(), shift);
  if (item[0] != '=' || error != std::errc{} || end != item.data() + item.size()) return false;
  augmentation.shift = shift;
  return shift >= 1 && shift <= kMaxShift;
}

}  // namespace

Result<Augmentation> parse_augmentation(std::string_view text) {
  Augmentation augmentation;
  if (text == "none") return augmentation;
  for (std::string_view rest = text;;) {
    const size_t comma = rest.find(',');
    if (!parse_item(rest.substr(0, comma), augmentation)) return refuse(text);
    if (comma == std::string_view::npos) return augmentation;
    rest.remove_prefix(comma + 1);
  }
}

std::string to_string(const Augmentation& augmentation) {
  std::string text;
  if (augmentation.shift != 0) text = "shift=" + std::to_string(augmentation.shift);
  if (augmentation.flip) text += text.empty() ? "flip" : ",flip";
  return text.empty() ? "none" : text;
}

void augment_image(const uint8_t* in, int64_t height, int64_t width, int64_t channels,
                   const Augmentation& augmentation, uint64_t random_bits, uint8_t fill,
                   uint8_t* out) noexcept {
  const bool flip = augmentation.flip && (random_bits & 1) != 0;
  const int64_t down = draw_shift(random_bits >> 1, augmentation.shift);
  const int64_t right = draw_shift(random_bits >> 32, augmentation.shift);
  // The columns of `out` that come from inside the picture.
  const int64_t first = std::clamp<int64_t>(right, 0, width);
  const int64_t last = std::clamp<int64_t>(width + right, first, width);
  for (int64_t y = 0; y < height; ++y, out += width * channels) {
    const int64_t from_y = y - down;
    if (from_y < 0 || from_y >= height || first == last) {
      std::fill_n(out, width * channels, fill);
      continue;
    }
    const uint8_t* row = in + from_y * width * channels;
    std::fill_n(out, first * channels, fill);
    std::fill(out + last * channels, out + width * channels, fill);
    if (!flip) {
      std::copy_n(row + (first - right) * channels, (last - first) * channels,
                  out + first * channels);
      continue;
    }
    for (int64_t x = first; x < last; ++x) {
      std::copy_n(row + (width - 1 - (x - right)) * channels, channels, out + x * channels);
    }
  }
}

}  // namespace mantissa

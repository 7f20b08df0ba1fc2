#include "data/pictures/augment.h"

#include <algorithm>
#include <charconv>

#include "base/random.h"
#include "data/pictures/colour_jitter.h"

namespace mantissa {
namespace {

// One row per change, in the order in which they are written.
struct Item {
  std::string_view name;
  int Augmentation::*amount;
  int usual, most;  // most 1: it has no amount
};
constexpr Item kItems[] = {
    {"shift", &Augmentation::shift, 2, 16},     {"flip", &Augmentation::flip, 1, 1},
    {"crop", &Augmentation::crop, 4, 64},       {"jitter", &Augmentation::jitter, 20, 100},
    {"cutout", &Augmentation::cutout, 8, 4096},
};

// Reads one item into `augmentation`; false if it is unknown, there already or out of range.
bool parse_item(std::string_view text, Augmentation& augmentation) {
  const size_t equals = text.find('=');
  for (const Item& item : kItems) {
    if (text.substr(0, equals) != item.name || augmentation.*item.amount != 0) continue;
    int amount = item.usual;
    if (equals != std::string_view::npos) {
      const char* end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data() + equals + 1, end, amount);
      if (error != std::errc{} || stop != end || item.most == 1) return false;
    }
    augmentation.*item.amount = amount;
    return amount >= 1 && amount <= item.most;
  }
  return false;
}

// A uniform whole number in [-most, most] from 31 bits.
int64_t draw_offset(uint64_t bits, int most) {
  const uint64_t choices = 2 * static_cast<uint64_t>(most) + 1;
  return static_cast<int64_t>(((bits & 0x7fffffff) * choices) >> 31) - most;
}

// The sources of the pixels of one axis: first the window of `crop`, which sees the picture
// mirrored at its edge (the edge itself is not repeated), then the shift, which gives -1 outside.
struct AxisMove {
  int64_t size, shift, crop;

  // -1: from outside.
  int64_t source(int64_t at) const {
    int64_t place = at + crop;
    if (size == 1) place = 0;
    while (place < 0 || place >= size) place = place < 0 ? -place : 2 * (size - 1) - place;
    place -= shift;
    return place < 0 || place >= size ? -1 : place;
  }
};

// How the bits move a picture.
struct Move {
  AxisMove rows, columns;
  bool flip;

  Move(int64_t height, int64_t width, const Augmentation& augmentation, const AugmentBits& bits)
      : rows{height, draw_offset(bits.move >> 1, augmentation.shift),
             draw_offset(bits.crop, augmentation.crop)},
        columns{width, draw_offset(bits.move >> 32, augmentation.shift),
                draw_offset(bits.crop >> 31, augmentation.crop)},
        flip(augmentation.flip != 0 && (bits.move & 1) != 0) {}
};

// Flip, shift and crop at once: each pixel of `out` is one of `in` or `fill`.
template <typename In, typename Out>
void move_image(const In* in, const Move& move, int64_t channels, Out fill, Out* out) {
  const auto& [rows, columns, flip] = move;
  const int64_t width = columns.size;
  // The columns of `out` that come from inside the picture, if nothing is cropped.
  const int64_t first = std::clamp<int64_t>(columns.shift, 0, width);
  const int64_t last = std::clamp<int64_t>(width + columns.shift, first, width);
  const bool in_one_piece = !flip && columns.crop == 0;
  for (int64_t y = 0; y < rows.size; ++y, out += width * channels) {
    std::fill_n(out, width * channels, fill);
    const int64_t from_y = rows.source(y);
    if (from_y < 0) continue;
    const In* row = in + from_y * width * channels;
    if (in_one_piece) {
      std::copy_n(row + (first - columns.shift) * channels, (last - first) * channels,
                  out + first * channels);
      continue;
    }
    for (int64_t x = 0; x < width; ++x) {
      const int64_t from_x = columns.source(x);
      if (from_x < 0) continue;
      std::copy_n(row + (flip ? width - 1 - from_x : from_x) * channels, channels,
                  out + x * channels);
    }
  }
}

// The centre is uniform over the pixels; the part of the square outside is lost.
void cut_out(uint64_t bits, int side, int64_t height, int64_t width, int64_t channels, uint8_t fill,
             uint8_t* out) {
  const auto centre_y = static_cast<int64_t>(((bits & 0xffffffff) * height) >> 32);
  const auto centre_x = static_cast<int64_t>(((bits >> 32) * width) >> 32);
  const int64_t top = std::max<int64_t>(0, centre_y - side / 2),
                bottom = std::min(height, centre_y - side / 2 + side),
                left = std::max<int64_t>(0, centre_x - side / 2),
                right = std::min(width, centre_x - side / 2 + side);
  for (int64_t y = top; y < bottom; ++y) {
    std::fill_n(out + (y * width + left) * channels, (right - left) * channels, fill);
  }
}

}  // namespace

Result<Augmentation> parse_augmentation(std::string_view text) {
  Augmentation augmentation;
  if (text == "none") return augmentation;
  for (std::string_view rest = text;;) {
    const size_t comma = rest.find(',');
    if (!parse_item(rest.substr(0, comma), augmentation)) {
      return invalid_input("'" + std::string(text) +
                           "' is not an augmentation; write none, or several of " +
                           augmentation_choices() + ", with commas between them");
    }
    if (comma == std::string_view::npos) return augmentation;
    rest.remove_prefix(comma + 1);
  }
}

std::string augmentation_choices() {
  std::string text;
  for (const Item& item : kItems) {
    text += (text.empty() ? "" : ", ") + std::string(item.name);
    if (item.most == 1) continue;
    text += "[=" + std::to_string(item.usual) + "] (1 to " + std::to_string(item.most) + ")";
  }
  return text;
}

std::string to_string(const Augmentation& augmentation) {
  std::string text;
  for (const Item& item : kItems) {
    const int amount = augmentation.*item.amount;
    if (amount == 0) continue;
    text += (text.empty() ? "" : ",") + std::string(item.name);
    if (item.most != 1) text += "=" + std::to_string(amount);
  }
  return text.empty() ? "none" : text;
}

AugmentBits augment_bits(uint64_t seed, uint32_t epoch, uint32_t example) {
  // The upper half of the counter tells the draws of one example apart.
  const auto draw = [&](uint64_t number) {
    return random_bits(seed, RandomStream::kAugment, epoch, number << 32 | example);
  };
  return {draw(0), draw(1), draw(2), draw(3)};
}

void augment_image(const uint8_t* in, int64_t height, int64_t width, int64_t channels,
                   const Augmentation& augmentation, const AugmentBits& bits, uint8_t fill,
                   uint8_t* out) noexcept {
  move_image(in, Move(height, width, augmentation, bits), channels, fill, out);
  if (augmentation.jitter != 0) {
    jitter_colours(draw_jitter(bits.jitter, augmentation.jitter), height * width, channels, out);
  }
  if (augmentation.cutout != 0) {
    cut_out(bits.cutout, augmentation.cutout, height, width, channels, fill, out);
  }
}

void move_labels(const uint16_t* in, int64_t height, int64_t width,
                 const Augmentation& augmentation, const AugmentBits& bits, int32_t fill,
                 int32_t* out) noexcept {
  move_image(in, Move(height, width, augmentation, bits), 1, fill, out);
}

}  // namespace mantissa

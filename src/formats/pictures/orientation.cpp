#include "formats/pictures/orientation.h"

#include <algorithm>

namespace mantissa {
namespace {

constexpr int64_t kEntryBytes = 12;  // of TIFF's directories: tag, type, count, value
constexpr uint32_t kOrientationTag = 0x0112;
constexpr uint32_t kShort = 3;

// Numbers of a TIFF file; 0 beyond its end.
struct TiffReader {
  std::span<const uint8_t> bytes;
  bool little_endian;

  uint32_t number(int64_t at, int length) const {
    if (at < 0 || at + length > static_cast<int64_t>(bytes.size())) return 0;
    uint32_t value = 0;
    for (int i = 0; i < length; ++i) {
      value = value << 8 | bytes[static_cast<size_t>(at + (little_endian ? length - 1 - i : i))];
    }
    return value;
  }
};

}  // namespace

int exif_orientation(std::span<const uint8_t> exif) {
  const bool little_endian = !exif.empty() && exif[0] == 'I';
  const TiffReader tiff{exif, little_endian};
  if (tiff.number(0, 2) != (little_endian ? 0x4949 : 0x4d4d) || tiff.number(2, 2) != 42) return 1;
  const int64_t directory = tiff.number(4, 4);
  const int64_t entries = tiff.number(directory, 2);
  for (int64_t i = 0; i < entries; ++i) {
    const int64_t entry = directory + 2 + i * kEntryBytes;
    if (tiff.number(entry, 2) != kOrientationTag) continue;
    const uint32_t value = tiff.number(entry + 8, 2);
    return tiff.number(entry + 2, 2) == kShort && value >= 1 && value <= 8 ? static_cast<int>(value)
                                                                           : 1;
  }
  return 1;
}

Placement place_upright(int orientation, int64_t height, int64_t width) {
  const int64_t all = height * width;
  switch (orientation) {
    case 2:  // mirrored left to right
      return {height, width, width - 1, -1, width};
    case 3:  // turned by 180 degrees
      return {height, width, all - 1, -1, -width};
    case 4:  // mirrored top to bottom
      return {height, width, all - width, 1, -width};
    case 5:  // rows are columns
      return {width, height, 0, height, 1};
    case 6:  // to be turned clockwise
      return {width, height, height - 1, height, -1};
    case 7:  // rows are columns, turned by 180 degrees
      return {width, height, all - 1, -height, -1};
    case 8:  // to be turned counter-clockwise
      return {width, height, all - height, -height, 1};
    default:
      return {height, width, 0, 1, width};
  }
}

void place_row(const uint8_t* row, int64_t y, int64_t width, int64_t channels,
               const Placement& placement, uint8_t* pixels) noexcept {
  uint8_t* out = pixels + (placement.first + y * placement.y_step) * channels;
  if (placement.x_step == 1) {
    std::copy_n(row, width * channels, out);
    return;
  }
  for (int64_t x = 0; x < width; ++x) {
    std::copy_n(row + x * channels, channels, out + x * placement.x_step * channels);
  }
}

}  // namespace mantissa

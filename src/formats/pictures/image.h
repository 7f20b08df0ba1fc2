// Pictures from files, in integers only: the same pixels on every machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace mantissa {

struct Image {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;         // 1: grey, 3: red, green, blue
  std::vector<uint8_t> pixels;  // [height][width][channels]
};

// The head of a picture's file, before the pixels.
struct ImageHeader {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;        // 1 if it is stored as grey, else 3
  int64_t decoding_bytes = 0;  // peak of reading it, result (as RGB) included
};

// Larger pictures are refused: a small file must not take gigabytes.
constexpr int64_t kMaxImageSide = 16384;
constexpr int64_t kMaxImagePixels = int64_t{1} << 26;

// Reads a PNG or JPEG file as grey (channels 1) or RGB (channels 3). The first bytes decide which
// of the two it is, not the name. Errors name the file: neither of them, damaged, cut short, larger
// than kMaxImageSide or kMaxImagePixels, no memory.
Result<Image> read_image(const std::filesystem::path& path, int channels);

// Reads the file only up to its pixels. Errors as read_image.
Result<ImageHeader> read_image_header(const std::filesystem::path& path);

// Whether a file's name ends as pictures' do: .png, .jpg, .jpeg, in any case.
bool has_image_name(const std::filesystem::path& path);

// The grey of a colour, as in Pillow: (19595 R + 38470 G + 7471 B + 32768) >> 16.
constexpr uint8_t grey_of(uint32_t red, uint32_t green, uint32_t blue) {
  return static_cast<uint8_t>((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16);
}

// Converts `count` pixels from 1 or 3 channels to 1 or 3. `out` may be `in` if both have as many.
void convert_channels(const uint8_t* in, int64_t in_channels, int64_t count, int64_t out_channels,
                      uint8_t* out) noexcept;

// For the decoders: an error about a file, and the limits above.
Error image_error(const std::filesystem::path& path, const std::string& what);
Status check_image_size(const std::filesystem::path& path, int64_t height, int64_t width);

}  // namespace mantissa

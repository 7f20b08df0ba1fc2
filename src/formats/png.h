// PNG pictures as bytes, in integers only: the same pixels on every machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/result.h"

namespace mantissa {

struct Image {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;         // 1: grey, 3: red, green, blue
  std::vector<uint8_t> pixels;  // [height][width][channels]
};

// Reads a PNG file of any bit depth and colour type as grey (channels 1) or RGB (channels 3).
// 16-bit samples are scaled to 8; transparent pixels lie on black; colour becomes grey as (19595 R
// + 38470 G + 7471 B + 32768) >> 16, as in Pillow; gamma and colour profiles are ignored. Errors
// name the file: not PNG, damaged, larger than 16384 x 16384, channels neither 1 nor 3.
Result<Image> read_png(const std::filesystem::path& path, int channels);

// Writes an 8-bit grey or RGB picture, atomically; the same picture gives the same bytes.
Status write_png(const std::filesystem::path& path, const Image& image);

}  // namespace mantissa

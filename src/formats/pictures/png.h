// PNG pictures, decoded and written by libpng.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/result.h"
#include "formats/pictures/image.h"

namespace mantissa {

// Reads a PNG file of any bit depth and colour type as grey (channels 1) or RGB (channels 3).
// 16-bit samples are scaled to 8; transparent pixels lie on black; colour becomes grey as (19595 R
// + 38470 G + 7471 B + 32768) >> 16, as in Pillow; gamma and colour profiles are ignored. It is
// turned by an EXIF orientation that comes before the pixels. Errors name the file: not PNG,
// damaged, too large (image.h), channels neither 1 nor 3. Faults that libpng only warns about count
// as damage if they affect the pixels.
Result<Image> read_png(const std::filesystem::path& path, int channels);

// Reads up to the pixels.
Result<ImageHeader> read_png_header(const std::filesystem::path& path);

// An 8-bit grey or RGB picture as the bytes of a PNG file; the same picture gives the same bytes.
// An error says why it is no picture that PNG can hold.
Result<std::vector<std::byte>> encode_png(const Image& image);

// Writes that file, atomically.
Status write_png(const std::filesystem::path& path, const Image& image);

}  // namespace mantissa

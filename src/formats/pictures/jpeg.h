// JPEG pictures, decoded by libjpeg with its accurate integer transform (JDCT_ISLOW).
#pragma once

#include <filesystem>

#include "base/result.h"
#include "formats/pictures/image.h"

namespace mantissa {

// Reads a baseline or progressive JPEG file, of grey, YCbCr, RGB, CMYK or YCCK, as grey (channels
// 1) or RGB (channels 3), turned by its EXIF orientation. Its colour profile is ignored. The file
// is read in pieces. Errors name the file: not JPEG, damaged, cut short (a missing end marker
// included), arithmetic coding, more than 100 scans, too large (image.h), channels neither 1 nor 3.
// Faults that libjpeg only warns about count as damage if they affect the pixels.
Result<Image> read_jpeg(const std::filesystem::path& path, int channels);

// Reads up to the first scan.
Result<ImageHeader> read_jpeg_header(const std::filesystem::path& path);

}  // namespace mantissa

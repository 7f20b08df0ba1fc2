#include "formats/pictures/image.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

#include "base/files/atomic_file.h"
#include "formats/pictures/jpeg.h"
#include "formats/pictures/png.h"

namespace mantissa {
namespace {

// One row per format.
struct Decoder {
  std::string_view magic;  // the first bytes of every such file
  Result<Image> (*read)(const std::filesystem::path& path, int channels);
  Result<ImageHeader> (*read_header)(const std::filesystem::path& path);
};

constexpr Decoder kDecoders[] = {
    {"\x89PNG\r\n\x1a\n", read_png, read_png_header},
    {"\xff\xd8\xff", read_jpeg, read_jpeg_header},
};

// Formats that are not read, by their bytes at a place.
struct OtherFormat {
  size_t at;
  std::string_view magic;
  const char* name;
};

constexpr OtherFormat kOthers[] = {
    {8, "WEBP", "a WebP picture"},
    {0, "GIF8", "a GIF picture"},
    {0, "BM", "a BMP picture"},
    {0, {"II*\0", 4}, "a TIFF picture"},
    {0, {"MM\0*", 4}, "a TIFF picture"},
    {4, "ftypavi", "an AVIF picture"},
    {4, "ftyphei", "a HEIC picture"},
    {4, "ftyphev", "a HEIC picture"},
    {4, "ftypmif1", "a HEIF picture"},
    {4, "ftypmsf1", "a HEIF picture"},
    {4, {"JXL \r\n\x87\n", 8}, "a JPEG XL picture"},
    {0, "\xff\x0a", "a JPEG XL picture"},
    {4, {"jP  \r\n\x87\n", 8}, "a JPEG 2000 picture"},
    {0, "8BPS", "a Photoshop picture"},
    {0, {"\0\0\1\0", 4}, "an icon"},
    {0, "qoif", "a QOI picture"},
    {0, "%PDF", "a PDF document"},
    {0, {"PK\3\4", 4}, "a ZIP archive"},
    {0, "\x1f\x8b", "compressed by gzip"},
    {0, "<svg", "an SVG drawing"},
    {0, "<?xml", "an XML document"},
    {0, "<!DOCTYPE", "a web page"},
    {0, "<!doctype", "a web page"},
    {0, "<html", "a web page"},
};

std::string not_a_picture(std::string_view begin) {
  if (begin.empty()) return "is empty, not a picture";
  for (const OtherFormat& other : kOthers) {
    if (begin.size() < other.at || !begin.substr(other.at).starts_with(other.magic)) continue;
    return std::string("is ") + other.name +
           ", whatever its name says; PNG and JPEG are read: " + "convert it";
  }
  return "not a picture: neither PNG nor JPEG";
}

Result<const Decoder*> find_decoder(const std::filesystem::path& path) {
  MANTISSA_ASSIGN(InputFile file, InputFile::open(path));
  std::array<char, 16> begin{};
  MANTISSA_ASSIGN(const int64_t bytes, file.read(std::as_writable_bytes(std::span(begin))));
  const std::string_view found(begin.data(), static_cast<size_t>(bytes));
  for (const Decoder& decoder : kDecoders) {
    if (found.starts_with(decoder.magic)) return &decoder;
  }
  return image_error(path, not_a_picture(found));
}

}  // namespace

Result<Image> read_image(const std::filesystem::path& path, int channels) {
  MANTISSA_ASSIGN(const Decoder* decoder, find_decoder(path));
  return decoder->read(path, channels);
}

Result<ImageHeader> read_image_header(const std::filesystem::path& path) {
  MANTISSA_ASSIGN(const Decoder* decoder, find_decoder(path));
  return decoder->read_header(path);
}

bool has_image_name(const std::filesystem::path& path) {
  std::string end = path.extension().string();
  std::transform(end.begin(), end.end(), end.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return end == ".png" || end == ".jpg" || end == ".jpeg";
}

void convert_channels(const uint8_t* in, int64_t in_channels, int64_t count, int64_t out_channels,
                      uint8_t* out) noexcept {
  if (in_channels == out_channels) {
    if (in != out) std::copy_n(in, count * in_channels, out);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    if (out_channels == 1) {
      out[i] = grey_of(in[3 * i], in[3 * i + 1], in[3 * i + 2]);
    } else {
      std::fill_n(out + 3 * i, 3, in[i]);
    }
  }
}

Error image_error(const std::filesystem::path& path, const std::string& what) {
  return invalid_input("'" + path.string() + "': " + what);
}

Status check_image_size(const std::filesystem::path& path, int64_t height, int64_t width) {
  if (height >= 1 && height <= kMaxImageSide && width >= 1 && width <= kMaxImageSide &&
      height * width <= kMaxImagePixels) {
    return {};
  }
  return image_error(
      path, "a picture of " + std::to_string(width) + " x " + std::to_string(height) +
                " pixels is too large: a side has at most " + std::to_string(kMaxImageSide) +
                ", all of it at most " + std::to_string(kMaxImagePixels));
}

}  // namespace mantissa

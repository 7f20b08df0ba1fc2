#include "formats/image.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

#include "base/atomic_file.h"
#include "formats/jpeg.h"
#include "formats/png.h"

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

Result<const Decoder*> find_decoder(const std::filesystem::path& path) {
  MANTISSA_ASSIGN(InputFile file, InputFile::open(path));
  std::array<char, 8> begin{};
  MANTISSA_ASSIGN(const int64_t bytes, file.read(std::as_writable_bytes(std::span(begin))));
  const std::string_view found(begin.data(), static_cast<size_t>(bytes));
  for (const Decoder& decoder : kDecoders) {
    if (found.starts_with(decoder.magic)) return &decoder;
  }
  return image_error(
      path, found.empty() ? "is empty, not a picture" : "not a picture: neither PNG nor JPEG");
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

#include "formats/png.h"

#include <png.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <span>
#include <string>

#include "base/atomic_file.h"
#include "base/checked.h"

namespace mantissa {
namespace {

constexpr int64_t kMaxSide = 16384;
constexpr int64_t kMaxFileBytes = int64_t{1} << 29;
constexpr int64_t kMaxExpansion = 1032;          // of deflate
constexpr int64_t kMaxAncillaryBytes = 1 << 20;  // comments and profiles are not ours to unpack
constexpr int64_t kDecodedChannels = 4;          // rows are decoded as 8-bit RGBA

// All that libpng's callbacks need. Plain data: libpng reports errors by longjmp, which must not
// skip destructors, so the functions that call libpng hold nothing else.
struct PngReader {
  const std::byte* data;
  size_t size;
  size_t position;
  png_structp png;
  png_infop info;
  char message[200];
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
  std::snprintf(reader->message, sizeof reader->message, "%s", message);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep out, size_t bytes) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (bytes > reader->size - reader->position) png_error(png, "the file is cut short");
  std::memcpy(out, reader->data + reader->position, bytes);
  reader->position += bytes;
}

struct PngHeader {
  png_uint_32 width = 0, height = 0;
  int64_t row_bits = 0;  // of a row as it is stored
  bool interlaced = false;
};

// Reads up to the pixels and asks for 8-bit RGBA.
bool read_header(PngReader* reader, PngHeader* header) {
  if (setjmp(png_jmpbuf(reader->png))) return false;
  png_structp png = reader->png;
  png_set_read_fn(png, reader, on_read);
  png_set_user_limits(png, kMaxSide, kMaxSide);
  png_set_chunk_malloc_max(png, kMaxAncillaryBytes);
  png_read_info(png, reader->info);
  header->width = png_get_image_width(png, reader->info);
  header->height = png_get_image_height(png, reader->info);
  header->row_bits = int64_t{header->width} * png_get_channels(png, reader->info) *
                     png_get_bit_depth(png, reader->info);
  png_set_expand(png);
  png_set_scale_16(png);
  png_set_gray_to_rgb(png);
  png_set_add_alpha(png, 0xff, PNG_FILLER_AFTER);
  header->interlaced = png_set_interlace_handling(png) > 1;
  png_read_update_info(png, reader->info);
  return true;
}

// One row of RGBA over black, as grey or RGB.
void convert_row(const uint8_t* rgba, int64_t width, int64_t channels, uint8_t* out) {
  for (int64_t x = 0; x < width; ++x, rgba += kDecodedChannels, out += channels) {
    const uint32_t alpha = rgba[3];
    const uint32_t red = (rgba[0] * alpha + 127) / 255;
    const uint32_t green = (rgba[1] * alpha + 127) / 255;
    const uint32_t blue = (rgba[2] * alpha + 127) / 255;
    if (channels == 1) {
      out[0] = static_cast<uint8_t>((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16);
    } else {
      out[0] = static_cast<uint8_t>(red);
      out[1] = static_cast<uint8_t>(green);
      out[2] = static_cast<uint8_t>(blue);
    }
  }
}

// Decodes into `rows` (all rows where interlaced, else one), and from there into `pixels`.
bool read_pixels(PngReader* reader, const PngHeader* header, int64_t channels, uint8_t* rows,
                 uint8_t* pixels) {
  if (setjmp(png_jmpbuf(reader->png))) return false;
  const int64_t width = header->width;
  const int passes = header->interlaced ? PNG_INTERLACE_ADAM7_PASSES : 1;
  for (int pass = 0; pass < passes; ++pass) {
    for (int64_t y = 0; y < header->height; ++y) {
      uint8_t* row = header->interlaced ? rows + y * width * kDecodedChannels : rows;
      png_read_row(reader->png, row, nullptr);
      if (pass + 1 < passes) continue;
      convert_row(row, width, channels, pixels + y * width * channels);
    }
  }
  png_read_end(reader->png, nullptr);
  return true;
}

// Frees what libpng allocated, however reading ends.
struct ReaderCleanup {
  PngReader* reader;
  ~ReaderCleanup() { png_destroy_read_struct(&reader->png, &reader->info, nullptr); }
};

Error file_error(const std::filesystem::path& path, const std::string& what) {
  return invalid_input("'" + path.string() + "': " + what);
}

Result<Image> decode(PngReader& reader, const std::filesystem::path& path, int64_t channels) {
  PngHeader header;
  if (!read_header(&reader, &header)) {
    return file_error(path, std::string("damaged PNG picture: ") + reader.message);
  }
  const int64_t stored_bytes = divide_up<int64_t>(header.row_bits, 8) * header.height;
  if (stored_bytes / kMaxExpansion > static_cast<int64_t>(reader.size)) {
    return file_error(path, "cut short or damaged: its header says " +
                                std::to_string(header.width) + " x " +
                                std::to_string(header.height) + " pixels, more than it can hold");
  }
  Image image{header.height, header.width, channels, {}};
  std::vector<uint8_t> rows;
  try {
    rows.resize(static_cast<size_t>(image.width * kDecodedChannels) *
                (header.interlaced ? header.height : 1));
    image.pixels.resize(static_cast<size_t>(image.height * image.width * channels));
  } catch (const std::exception&) {
    return failed("'" + path.string() + "' does not fit the memory");
  }
  if (!read_pixels(&reader, &header, channels, rows.data(), image.pixels.data())) {
    return file_error(path, std::string("damaged PNG picture: ") + reader.message);
  }
  return image;
}

}  // namespace

Result<Image> read_png(const std::filesystem::path& path, int channels) {
  if (channels != 1 && channels != 3) {
    return invalid_input("a PNG picture is read as 1 or 3 channels, not " +
                         std::to_string(channels));
  }
  MANTISSA_ASSIGN(const std::vector<std::byte> file, read_file(path, kMaxFileBytes));
  if (file.size() < 8 || png_sig_cmp(reinterpret_cast<png_const_bytep>(file.data()), 0, 8) != 0) {
    return file_error(path, "not a PNG picture: it does not begin with PNG's signature");
  }
  PngReader reader{file.data(), file.size(), 0, nullptr, nullptr, ""};
  const ReaderCleanup cleanup{&reader};
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_error, on_warning);
  if (reader.png != nullptr) reader.info = png_create_info_struct(reader.png);
  if (reader.info == nullptr) return failed("libpng cannot be started");
  return decode(reader, path, channels);
}

Status write_png(const std::filesystem::path& path, const Image& image) {
  const auto side_fits = [](int64_t side) { return side >= 1 && side <= kMaxSide; };
  if (!side_fits(image.height) || !side_fits(image.width) ||
      (image.channels != 1 && image.channels != 3) ||
      static_cast<int64_t>(image.pixels.size()) != image.height * image.width * image.channels) {
    return invalid_input("'" + path.string() + "': not a picture that PNG can hold: " +
                         std::to_string(image.height) + " x " + std::to_string(image.width) +
                         " x " + std::to_string(image.channels) + " with " +
                         std::to_string(image.pixels.size()) + " bytes");
  }
  // libpng's simplified interface catches its own longjmp.
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(png);
  std::vector<std::byte> file(bytes);
  if (!png_image_write_to_memory(&png, file.data(), &bytes, 0, image.pixels.data(), 0, nullptr)) {
    return failed("'" + path.string() + "': " + png.message);
  }
  const std::array pieces = {std::span<const std::byte>(file).first(bytes)};
  return write_file_atomically(path, pieces);
}

}  // namespace mantissa

#include "formats/pictures/png.h"

#include <png.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <string>
#include <string_view>

#include "base/checked.h"
#include "base/files/atomic_file.h"
#include "formats/pictures/orientation.h"

namespace mantissa {
namespace {

constexpr int64_t kMaxExpansion = 1032;          // of deflate
constexpr int64_t kMaxAncillaryBytes = 1 << 20;  // comments and profiles are not ours to unpack
constexpr int64_t kDecodedChannels = 4;          // rows are decoded as 8-bit RGBA
constexpr int64_t kSpareRowBytes = 1 << 14;      // of the file, read for a row beyond its own needs

// All that libpng's callbacks need. Plain data: libpng reports errors by longjmp, which must not
// skip destructors, so the functions that call libpng hold nothing else.
struct PngReader {
  InputFile* file;
  png_structp png;
  png_infop info;
  char message[200];
  bool lacks_memory;
  int64_t bytes_left;  // that may be read from the file now
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
  std::snprintf(reader->message, sizeof reader->message, "%s", message);
  png_longjmp(png, 1);
}

// Most warnings do not affect the pixels: profiles, comments, their checksums, bytes after the end
// of the picture. These do, and libpng would go on with invented ones.
void on_warning(png_structp png, png_const_charp message) {
  const std::string_view text(message);
  const bool damage =
      text == "tRNS: CRC error" ||  // which colours are transparent
      (text.starts_with("IDAT: ") && text.find("data check") != std::string_view::npos);
  if (damage) png_error(png, message);
}

png_voidp on_allocate(png_structp png, png_alloc_size_t bytes) {
  void* memory = std::malloc(bytes);
  if (memory == nullptr) static_cast<PngReader*>(png_get_mem_ptr(png))->lacks_memory = true;
  return memory;
}

void on_free(png_structp, png_voidp memory) { std::free(memory); }

// A separate function: no Status may live where libpng jumps.
bool read_whole(InputFile* file, png_bytep out, size_t bytes) {
  return file->read_exactly(std::as_writable_bytes(std::span(out, bytes))).ok();
}

void on_read(png_structp png, png_bytep out, size_t bytes) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  reader->bytes_left -= static_cast<int64_t>(bytes);
  if (reader->bytes_left < 0) png_error(png, "more data follow its pixels than they need");
  if (!read_whole(reader->file, out, bytes)) png_error(png, "the file is cut short");
}

struct PngHeader {
  png_uint_32 width = 0, height = 0;
  int64_t row_bits = 0;  // of a stored row
  bool colour = false;
  bool interlaced = false;
  int orientation = 1;

  int64_t decoded_rows() const { return interlaced ? height : 1; }  // that are held at once
  Placement placement() const { return place_upright(orientation, height, width); }
};

int find_orientation(png_structp png, png_infop info) {
  png_uint_32 bytes = 0;
  png_bytep exif = nullptr;
  if (png_get_eXIf_1(png, info, &bytes, &exif) == 0) return 1;
  return exif_orientation({exif, bytes});
}

// Reads up to the pixels and asks for 8-bit RGBA.
bool read_header(PngReader* reader, PngHeader* header) {
  if (setjmp(png_jmpbuf(reader->png))) return false;
  png_structp png = reader->png;
  png_set_read_fn(png, reader, on_read);
  png_set_sig_bytes(png, 8);  // read already
  png_set_user_limits(png, kMaxImageSide, kMaxImageSide);
  png_set_chunk_malloc_max(png, kMaxAncillaryBytes);
  // Texts and profiles are not decompressed: there may be any number. Only orientation counts.
  constexpr png_byte kOrientation[] = "eXIf";
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_AS_DEFAULT, kOrientation, 1);
  png_read_info(png, reader->info);
  header->width = png_get_image_width(png, reader->info);
  header->height = png_get_image_height(png, reader->info);
  header->row_bits = int64_t{header->width} * png_get_channels(png, reader->info) *
                     png_get_bit_depth(png, reader->info);
  header->colour = (png_get_color_type(png, reader->info) & PNG_COLOR_MASK_COLOR) != 0;
  header->orientation = find_orientation(png, reader->info);
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
      out[0] = grey_of(red, green, blue);
    } else {
      out[0] = static_cast<uint8_t>(red);
      out[1] = static_cast<uint8_t>(green);
      out[2] = static_cast<uint8_t>(blue);
    }
  }
}

// Decodes into `rows` (all rows if interlaced, else one, and one more of `channels`), and from
// there into `pixels`.
bool read_pixels(PngReader* reader, const PngHeader* header, int64_t channels, uint8_t* rows,
                 uint8_t* pixels) {
  if (setjmp(png_jmpbuf(reader->png))) return false;
  const int64_t width = header->width;
  const Placement placement = header->placement();
  uint8_t* converted = rows + header->decoded_rows() * width * kDecodedChannels;
  const int passes = header->interlaced ? PNG_INTERLACE_ADAM7_PASSES : 1;
  // libpng decompresses all the remaining data of the pixels with the last row.
  const int64_t row_bytes = header->row_bits / 4 + kSpareRowBytes;
  for (int pass = 0; pass < passes; ++pass) {
    for (int64_t y = 0; y < header->height; ++y) {
      uint8_t* row = header->interlaced ? rows + y * width * kDecodedChannels : rows;
      reader->bytes_left = row_bytes;
      png_read_row(reader->png, row, nullptr);
      if (pass + 1 < passes) continue;
      convert_row(row, width, channels, converted);
      place_row(converted, y, width, channels, placement, pixels);
    }
  }
  reader->bytes_left = INT64_MAX;
  png_read_end(reader->png, nullptr);
  return true;
}

// Frees what libpng allocated, however reading ends.
struct ReaderCleanup {
  PngReader* reader;
  ~ReaderCleanup() { png_destroy_read_struct(&reader->png, &reader->info, nullptr); }
};

Error damaged(const PngReader& reader) {
  const std::filesystem::path& path = reader.file->path();
  if (reader.lacks_memory) return failed("no memory to decode '" + path.string() + "'");
  return image_error(path, std::string("damaged PNG picture: ") + reader.message);
}

// Starts libpng, reads the header and checks its sizes.
Status begin(PngReader& reader, PngHeader& header) {
  const std::filesystem::path& path = reader.file->path();
  std::array<png_byte, 8> signature{};
  MANTISSA_ASSIGN(const int64_t bytes,
                  reader.file->read(std::as_writable_bytes(std::span(signature))));
  if (bytes < 8 || png_sig_cmp(signature.data(), 0, 8) != 0) {
    return image_error(path, "not a PNG picture: it does not begin with PNG's signature");
  }
  reader.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &reader, on_error, on_warning,
                                        &reader, on_allocate, on_free);
  if (reader.png != nullptr) reader.info = png_create_info_struct(reader.png);
  if (reader.info == nullptr) return failed("no memory to decode '" + path.string() + "'");
  if (!read_header(&reader, &header)) return damaged(reader);
  const int64_t stored_bytes = divide_up<int64_t>(header.row_bits, 8) * header.height;
  if (stored_bytes / kMaxExpansion > reader.file->size()) {
    return image_error(path, "cut short or damaged: its header says " +
                                 std::to_string(header.width) + " x " +
                                 std::to_string(header.height) + " pixels, more than it can hold");
  }
  return check_image_size(path, header.height, header.width);
}

}  // namespace

Result<Image> read_png(const std::filesystem::path& path, int channels) {
  if (channels != 1 && channels != 3) {
    return invalid_input("a PNG picture is read as 1 or 3 channels, not " +
                         std::to_string(channels));
  }
  MANTISSA_ASSIGN(InputFile file, InputFile::open(path));
  PngReader reader{&file, nullptr, nullptr, "", false, INT64_MAX};
  const ReaderCleanup cleanup{&reader};
  PngHeader header;
  MANTISSA_RETURN_IF_ERROR(begin(reader, header));
  const Placement placement = header.placement();
  Image image{placement.height, placement.width, channels, {}};
  std::vector<uint8_t> rows;
  try {
    rows.resize(static_cast<size_t>(header.width * kDecodedChannels * (header.decoded_rows() + 1)));
    image.pixels.resize(static_cast<size_t>(image.height * image.width * channels));
  } catch (const std::exception&) {
    return failed("no memory to decode '" + path.string() + "'");
  }
  if (!read_pixels(&reader, &header, channels, rows.data(), image.pixels.data())) {
    return damaged(reader);
  }
  return image;
}

Result<ImageHeader> read_png_header(const std::filesystem::path& path) {
  MANTISSA_ASSIGN(InputFile file, InputFile::open(path));
  PngReader reader{&file, nullptr, nullptr, "", false, INT64_MAX};
  const ReaderCleanup cleanup{&reader};
  PngHeader header;
  MANTISSA_RETURN_IF_ERROR(begin(reader, header));
  const Placement placement = header.placement();
  const int64_t rows = header.decoded_rows() + 1;
  return ImageHeader{placement.height, placement.width, header.colour ? 3 : 1,
                     int64_t{header.width} * (3 * header.height + kDecodedChannels * rows)};
}

Result<std::vector<std::byte>> encode_png(const Image& image) {
  const auto side_fits = [](int64_t side) { return side >= 1 && side <= kMaxImageSide; };
  if (!side_fits(image.height) || !side_fits(image.width) ||
      (image.channels != 1 && image.channels != 3) ||
      static_cast<int64_t>(image.pixels.size()) != image.height * image.width * image.channels) {
    return invalid_input("not a picture that PNG can hold: " + std::to_string(image.height) +
                         " x " + std::to_string(image.width) + " x " +
                         std::to_string(image.channels) + " with " +
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
    return failed(png.message);
  }
  file.resize(bytes);
  return file;
}

Status write_png(const std::filesystem::path& path, const Image& image) {
  const Result<std::vector<std::byte>> file = encode_png(image);
  if (!file.ok()) {
    return make_error(file.error().code, "'" + path.string() + "': " + file.error().message);
  }
  const std::array pieces = {std::span<const std::byte>(*file)};
  return write_file_atomically(path, pieces);
}

}  // namespace mantissa

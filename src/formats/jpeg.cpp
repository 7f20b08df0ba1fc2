#include "formats/jpeg.h"

#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
// jpeglib.h needs <cstdio> before it.
#include <jpeglib.h>
// jerror.h needs jpeglib.h before it.
#include <jerror.h>

#include "base/atomic_file.h"
#include "base/checked.h"

namespace mantissa {
namespace {

constexpr int kMaxScans = 100;  // a small progressive file could otherwise take minutes
// A block of 64 pixels takes at least one bit of the file.
constexpr int64_t kMaxPixelsPerByte = 8 * 64;

// All that libjpeg's callbacks need. libjpeg reports errors by longjmp, which must not skip
// destructors: the functions that call libjpeg hold plain data only, and this belongs to a caller.
struct JpegReader {
  explicit JpegReader(InputFile& input) : file(input) {}

  InputFile& file;
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_source_mgr source{};
  jpeg_progress_mgr progress{};
  std::jmp_buf jump{};
  std::array<JOCTET, 16384> buffer{};
  std::array<char, JMSG_LENGTH_MAX> message{};
};

JpegReader* reader_of(j_common_ptr info) { return static_cast<JpegReader*>(info->client_data); }

[[noreturn]] void give_up(JpegReader* reader, const char* message) {
  std::snprintf(reader->message.data(), reader->message.size(), "%s", message);
  std::longjmp(reader->jump, 1);
}

[[noreturn]] void on_error(j_common_ptr info) {
  JpegReader* reader = reader_of(info);
  info->err->format_message(info, reader->message.data());
  std::longjmp(reader->jump, 1);
}

// Warnings below 0 are about damaged data; libjpeg would go on with invented pixels.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA:  // bytes between segments, which many cameras write
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
      return;
    default:
      on_error(info);
  }
}

void ignore_output(j_common_ptr) {}
void ignore_source(j_decompress_ptr) {}

// Bytes read, or -1. A function of its own: no Result may live where libjpeg jumps.
int64_t read_some(JpegReader* reader) {
  const Result<int64_t> bytes =
      reader->file.read(std::as_writable_bytes(std::span(reader->buffer)));
  return bytes.ok() ? *bytes : -1;
}

boolean fill_buffer(j_decompress_ptr info) {
  JpegReader* reader = reader_of(reinterpret_cast<j_common_ptr>(info));
  const int64_t bytes = read_some(reader);
  if (bytes < 0) give_up(reader, "it cannot be read");
  if (bytes == 0) give_up(reader, "the file is cut short");
  reader->source.next_input_byte = reader->buffer.data();
  reader->source.bytes_in_buffer = static_cast<size_t>(bytes);
  return TRUE;
}

void skip_bytes(j_decompress_ptr info, long bytes) {
  jpeg_source_mgr& source = *info->src;
  while (bytes > static_cast<long>(source.bytes_in_buffer)) {
    bytes -= static_cast<long>(source.bytes_in_buffer);
    fill_buffer(info);
  }
  if (bytes <= 0) return;
  source.next_input_byte += bytes;
  source.bytes_in_buffer -= static_cast<size_t>(bytes);
}

void check_scans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  give_up(reader_of(info), "it has more than 100 scans");
}

bool read_header(JpegReader* reader) {
  jpeg_decompress_struct& info = reader->info;
  info.err = jpeg_std_error(&reader->errors);
  info.client_data = reader;
  reader->errors.error_exit = on_error;
  reader->errors.emit_message = on_message;
  reader->errors.output_message = ignore_output;
  if (setjmp(reader->jump)) return false;
  jpeg_create_decompress(&info);
  reader->source = {nullptr,      0, ignore_source, fill_buffer, skip_bytes, jpeg_resync_to_restart,
                    ignore_source};
  reader->progress.progress_monitor = check_scans;
  info.src = &reader->source;
  info.progress = &reader->progress;
  jpeg_read_header(&info, TRUE);
  if (info.arith_code) give_up(reader, "arithmetic coding is not supported");
  if (info.num_components != 1 && info.num_components != 3 && info.num_components != 4) {
    give_up(reader, "it has neither 1, 3 nor 4 colour components");
  }
  info.dct_method = JDCT_ISLOW;
  if (info.num_components != 1) {
    info.out_color_space = info.num_components == 4 ? JCS_CMYK : JCS_RGB;
  }
  return true;
}

// CMYK over white paper, as RGB. Adobe's files hold it inverted, and nearly all are Adobe's.
void convert_cmyk_row(const uint8_t* cmyk, int64_t width, bool inverted, uint8_t* rgb) {
  const auto light = [&](int value) {
    return static_cast<uint32_t>(inverted ? value : 255 - value);
  };
  for (int64_t x = 0; x < width; ++x, cmyk += 4, rgb += 3) {
    for (int c = 0; c < 3; ++c) {
      rgb[c] = static_cast<uint8_t>((light(cmyk[c]) * light(cmyk[3]) + 127) / 255);
    }
  }
}

// Decodes row by row: `row` holds one as libjpeg gives it, `pixels` all of the result.
bool read_pixels(JpegReader* reader, int64_t channels, uint8_t* row, uint8_t* pixels) {
  jpeg_decompress_struct& info = reader->info;
  if (setjmp(reader->jump)) return false;
  jpeg_start_decompress(&info);
  const int64_t width = info.output_width;
  while (info.output_scanline < info.output_height) {
    JSAMPROW rows[] = {row};
    uint8_t* out = pixels + info.output_scanline * width * channels;
    jpeg_read_scanlines(&info, rows, 1);
    int64_t found = info.output_components;
    if (found == 4) {
      convert_cmyk_row(row, width, info.saw_Adobe_marker, row);
      found = 3;
    }
    convert_channels(row, found, width, channels, out);
  }
  jpeg_finish_decompress(&info);
  return true;
}

// Frees what libjpeg allocated, however reading ends.
struct ReaderCleanup {
  JpegReader& reader;
  ~ReaderCleanup() { jpeg_destroy_decompress(&reader.info); }
};

Status damaged(const JpegReader& reader, const std::filesystem::path& path) {
  if (reader.errors.msg_code == JERR_OUT_OF_MEMORY) {
    return failed("no memory to decode '" + path.string() + "'");
  }
  return image_error(path, std::string("damaged JPEG picture: ") + reader.message.data());
}

// Reads the header and checks what it promises.
Status begin(JpegReader& reader, const std::filesystem::path& path) {
  if (!read_header(&reader)) return damaged(reader, path);
  const int64_t height = reader.info.image_height, width = reader.info.image_width;
  MANTISSA_RETURN_IF_ERROR(check_image_size(path, height, width));
  if (height * width / kMaxPixelsPerByte > reader.file.size()) {
    return image_error(path, "cut short or damaged: its header says " + std::to_string(width) +
                                 " x " + std::to_string(height) + " pixels, more than it can hold");
  }
  return {};
}

}  // namespace

Result<Image> read_jpeg(const std::filesystem::path& path, int channels) {
  if (channels != 1 && channels != 3) {
    return invalid_input("a JPEG picture is read as 1 or 3 channels, not " +
                         std::to_string(channels));
  }
  MANTISSA_ASSIGN(InputFile file, InputFile::open(path));
  JpegReader reader(file);
  const ReaderCleanup cleanup{reader};
  MANTISSA_RETURN_IF_ERROR(begin(reader, path));
  Image image{reader.info.image_height, reader.info.image_width, channels, {}};
  std::vector<uint8_t> row;
  try {
    row.resize(static_cast<size_t>(image.width) * 4);
    image.pixels.resize(static_cast<size_t>(image.height * image.width * channels));
  } catch (const std::exception&) {
    return failed("no memory to decode '" + path.string() + "'");
  }
  if (!read_pixels(&reader, channels, row.data(), image.pixels.data())) {
    return damaged(reader, path).error();
  }
  return image;
}

Result<ImageHeader> read_jpeg_header(const std::filesystem::path& path) {
  MANTISSA_ASSIGN(InputFile file, InputFile::open(path));
  JpegReader reader(file);
  const ReaderCleanup cleanup{reader};
  MANTISSA_RETURN_IF_ERROR(begin(reader, path));
  const jpeg_decompress_struct& info = reader.info;
  ImageHeader header{info.image_height, info.image_width, info.num_components == 1 ? 1 : 3, 0};
  const int64_t pixels = header.height * header.width;
  // libjpeg keeps some rows; of files with several scans all coefficients, of two bytes each.
  header.decoding_bytes = 3 * pixels + header.width * 256;
  if (jpeg_has_multiple_scans(&reader.info)) {
    for (int i = 0; i < info.num_components; ++i) {
      const jpeg_component_info& component = info.comp_info[i];
      header.decoding_bytes += int64_t{component.width_in_blocks} * component.height_in_blocks *
                               DCTSIZE2 * int64_t{sizeof(JCOEF)};
    }
  }
  return header;
}

}  // namespace mantissa

#include "formats/pictures/jpeg.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <string_view>
// jpeglib.h needs <cstdio> before it.
#include <jpeglib.h>
// jerror.h needs jpeglib.h before it.
#include <jerror.h>

#include "base/checked.h"
#include "base/files/atomic_file.h"
#include "formats/pictures/orientation.h"

namespace mantissa {
namespace {

constexpr int kMaxScans = 100;  // a small progressive file could otherwise take minutes
// A block of 64 pixels takes at least one bit of the file.
constexpr int64_t kMaxPixelsPerByte = 8 * 64;
constexpr std::string_view kExifMagic("Exif\0\0", 6);
constexpr size_t kMaxSegmentBytes = 65535;
// The bytes that libjpeg gets at once. From 512 on it decodes baseline files 5 % faster, but takes
// invalid codes for zeros, without a warning.
constexpr size_t kPieceBytes = 511;

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
  size_t given = 0, filled = 0;  // bytes of the buffer
  std::array<char, JMSG_LENGTH_MAX> message{};
  size_t exif_bytes = 0;
  std::array<uint8_t, kMaxSegmentBytes>
      exif;  // not cleared: few files have any, and clearing costs
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

// Warnings have a level below 0. After most of them libjpeg would go on with invented pixels: a bad
// code, the data of a scan ended early, a restart marker is missing, progressive scans that do not
// follow from one another. The ones below do not affect the pixels.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA:  // bytes before a marker, which many cameras write
    case JWRN_NOT_SEQUENTIAL:   // which coefficients a scan has: in a baseline file always all
    case JWRN_ADOBE_XFORM:      // codes beyond the standard count as the usual one
    case JWRN_JFIF_MAJOR:
    case JWRN_BOGUS_ICC:
      return;
    default:
      on_error(info);
  }
}

void ignore_output(j_common_ptr) {}
void ignore_source(j_decompress_ptr) {}

// Bytes read, or -1. A separate function: no Result may live where libjpeg jumps.
int64_t read_some(JpegReader* reader) {
  const Result<int64_t> bytes =
      reader->file.read(std::as_writable_bytes(std::span(reader->buffer)));
  return bytes.ok() ? *bytes : -1;
}

boolean fill_buffer(j_decompress_ptr info) {
  JpegReader* reader = reader_of(reinterpret_cast<j_common_ptr>(info));
  if (reader->given == reader->filled) {
    const int64_t bytes = read_some(reader);
    if (bytes < 0) give_up(reader, "it cannot be read");
    if (bytes == 0) give_up(reader, "the file is cut short");
    reader->given = 0;
    reader->filled = static_cast<size_t>(bytes);
  }
  reader->source.next_input_byte = reader->buffer.data() + reader->given;
  reader->source.bytes_in_buffer = std::min(kPieceBytes, reader->filled - reader->given);
  reader->given += reader->source.bytes_in_buffer;
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

uint8_t next_byte(j_decompress_ptr info) {
  jpeg_source_mgr& source = *info->src;
  if (source.bytes_in_buffer == 0) fill_buffer(info);
  --source.bytes_in_buffer;
  return *source.next_input_byte++;
}

// Keeps the first EXIF block. libjpeg's own way of keeping segments would hold all segments of a
// file.
boolean read_app1(j_decompress_ptr info) {
  JpegReader* reader = reader_of(reinterpret_cast<j_common_ptr>(info));
  const int high = next_byte(info);
  const int length = (high << 8 | next_byte(info)) - 2;
  if (length < 0) give_up(reader, "a segment is shorter than its own length");
  if (reader->exif_bytes > 0) {
    skip_bytes(info, length);
    return TRUE;
  }
  for (int i = 0; i < length; ++i) reader->exif[i] = next_byte(info);
  const std::string_view found(reinterpret_cast<const char*>(reader->exif.data()), length);
  if (found.starts_with(kExifMagic)) reader->exif_bytes = found.size();
  return TRUE;
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
  jpeg_set_marker_processor(&info, JPEG_APP0 + 1, read_app1);
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

// Decodes row by row: `row` holds one as libjpeg gives it or with `channels`, `pixels` all of the
// result.
bool read_pixels(JpegReader* reader, int64_t channels, const Placement* placement, uint8_t* row,
                 uint8_t* pixels) {
  jpeg_decompress_struct& info = reader->info;
  if (setjmp(reader->jump)) return false;
  jpeg_start_decompress(&info);
  const int64_t width = info.output_width;
  uint8_t* converted = row + 4 * width;
  while (info.output_scanline < info.output_height) {
    JSAMPROW rows[] = {row};
    const int64_t y = info.output_scanline;
    jpeg_read_scanlines(&info, rows, 1);
    int64_t found = info.output_components;
    if (found == 4) {
      convert_cmyk_row(row, width, info.saw_Adobe_marker, row);
      found = 3;
    }
    convert_channels(row, found, width, channels, converted);
    place_row(converted, y, width, channels, *placement, pixels);
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

// How the picture is turned; its header must be read.
Placement placement_of(const JpegReader& reader) {
  const auto exif = std::span(reader.exif).first(reader.exif_bytes);
  return place_upright(exif.empty() ? 1 : exif_orientation(exif.subspan(kExifMagic.size())),
                       reader.info.image_height, reader.info.image_width);
}

// Reads the header and checks its sizes.
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
  const Placement placement = placement_of(reader);
  Image image{placement.height, placement.width, channels, {}};
  std::vector<uint8_t> row;
  try {
    row.resize(static_cast<size_t>(reader.info.image_width) * 7);
    image.pixels.resize(static_cast<size_t>(image.height * image.width * channels));
  } catch (const std::exception&) {
    return failed("no memory to decode '" + path.string() + "'");
  }
  if (!read_pixels(&reader, channels, &placement, row.data(), image.pixels.data())) {
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
  const Placement placement = placement_of(reader);
  ImageHeader header{placement.height, placement.width, info.num_components == 1 ? 1 : 3, 0};
  const int64_t pixels = header.height * header.width;
  // libjpeg keeps some rows; of files with several scans all coefficients, of two bytes each.
  header.decoding_bytes = 3 * pixels + int64_t{info.image_width} * 256;
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

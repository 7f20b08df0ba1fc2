// For tests: writes JPEG files.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <vector>
// jpeglib.h needs <cstdio> before it.
#include <jpeglib.h>

namespace mantissa {

struct RawJpeg {
  int width, height;
  J_COLOR_SPACE space;          // of `pixels`; CMYK is written with Adobe's marker
  std::vector<uint8_t> pixels;  // [height][width][components of the space]
  int quality = 100;
  bool progressive = false;
  bool arithmetic = false;
};

inline void put_jpeg(const std::filesystem::path& path, const RawJpeg& raw) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  jpeg_stdio_dest(&info, file);
  info.image_width = static_cast<JDIMENSION>(raw.width);
  info.image_height = static_cast<JDIMENSION>(raw.height);
  info.input_components = raw.space == JCS_GRAYSCALE ? 1 : raw.space == JCS_CMYK ? 4 : 3;
  info.in_color_space = raw.space;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, raw.quality, TRUE);
  info.dct_method = JDCT_ISLOW;
  for (int i = 0; i < info.num_components; ++i) {
    info.comp_info[i].h_samp_factor = info.comp_info[i].v_samp_factor = 1;
  }
  if (raw.progressive) jpeg_simple_progression(&info);
  info.arith_code = raw.arithmetic ? TRUE : FALSE;
  jpeg_start_compress(&info, TRUE);
  std::vector<uint8_t> copy = raw.pixels;
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = copy.data() + info.next_scanline * raw.width * info.input_components;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::fclose(file);
}

}  // namespace mantissa

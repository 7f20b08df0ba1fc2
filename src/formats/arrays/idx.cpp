#include "formats/arrays/idx.h"

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "base/checked.h"

namespace mantissa {
namespace {

constexpr uint8_t kUnsignedByte = 0x08;
constexpr int kMaxIdxDims = 4;

std::string dims_text(const std::vector<int64_t>& dims) {
  std::string text;
  for (const int64_t dim : dims) text += (text.empty() ? "" : " x ") + std::to_string(dim);
  return text;
}

// The product of the dimensions, if it fits.
std::optional<int64_t> checked_elements(const std::vector<int64_t>& dims) {
  std::optional<int64_t> elements = 1;
  for (const int64_t dim : dims) {
    if (elements) elements = checked_mul(*elements, dim);
  }
  return elements;
}

}  // namespace

Result<IdxHeader> read_idx_header(ByteReader& reader) {
  std::array<uint8_t, 4> magic;
  MANTISSA_RETURN_IF_ERROR(reader.read_exactly(magic));
  if (magic[0] != 0 || magic[1] != 0) {
    return reader.error("not an IDX file: it does not begin with two zero bytes");
  }
  if (magic[2] != kUnsignedByte) {
    return reader.error("IDX element type " + std::to_string(magic[2]) +
                        " at byte 2 is not supported, only 8 (unsigned byte)");
  }
  if (magic[3] < 1 || magic[3] > kMaxIdxDims) {
    return reader.error(std::to_string(magic[3]) + " dimensions at byte 3; 1 to 4 are supported");
  }
  IdxHeader header;
  for (int i = 0; i < magic[3]; ++i) {
    std::array<uint8_t, 4> size;
    MANTISSA_RETURN_IF_ERROR(reader.read_exactly(size));
    header.dims.push_back(int64_t{size[0]} << 24 | size[1] << 16 | size[2] << 8 | size[3]);
  }
  const std::optional<int64_t> elements = checked_elements(header.dims);
  if (!elements || *elements > reader.most_bytes_left()) {
    return reader.error("cut short or damaged: its header says " + dims_text(header.dims) +
                        " bytes, more than it can hold");
  }
  if (!reader.compressed() && *elements < reader.most_bytes_left()) {
    return reader.error("there are more bytes than the " + dims_text(header.dims) +
                        " that its header says");
  }
  return header;
}

int64_t IdxHeader::elements() const {
  int64_t elements = 1;
  for (const int64_t dim : dims) elements *= dim;
  return elements;
}

Result<IdxHeader> read_idx_header(const std::filesystem::path& path) {
  MANTISSA_ASSIGN(ByteReader reader, ByteReader::open(path));
  return read_idx_header(reader);
}

Result<IdxArray> read_idx(const std::filesystem::path& path) {
  MANTISSA_ASSIGN(ByteReader reader, ByteReader::open(path));
  IdxArray array;
  MANTISSA_ASSIGN(array.header, read_idx_header(reader));
  MANTISSA_RETURN_IF_ERROR(read_growing(reader, array.header.elements(), array.data));
  MANTISSA_RETURN_IF_ERROR(reader.expect_end());
  return array;
}

}  // namespace mantissa

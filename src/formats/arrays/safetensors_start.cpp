#include "formats/arrays/safetensors_start.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/checked.h"
#include "formats/arrays/safetensors.h"

namespace mantissa {
namespace {

constexpr std::array<std::pair<std::string_view, int64_t>, 12> kDtypes = {{{"BOOL", 1},
                                                                           {"I8", 1},
                                                                           {"U8", 1},
                                                                           {"I16", 2},
                                                                           {"U16", 2},
                                                                           {"F16", 2},
                                                                           {"BF16", 2},
                                                                           {"I32", 4},
                                                                           {"U32", 4},
                                                                           {"F32", 4},
                                                                           {"I64", 8},
                                                                           {"F64", 8}}};

// Reads the length and the text of the header; leaves `source` at the data.
Result<std::string> read_header_text(const SafetensorsSource& source) {
  std::array<std::byte, kSafetensorsLengthBytes> prefix;
  MANTISSA_RETURN_IF_ERROR(source.read_exactly(prefix));
  uint64_t length = 0;
  for (size_t i = prefix.size(); i-- > 0;) length = length << 8 | static_cast<uint8_t>(prefix[i]);
  const auto most = static_cast<uint64_t>(
      std::clamp<int64_t>(source.size - kSafetensorsLengthBytes, 0, kMostSafetensorsHeader));
  constexpr uint64_t kZip = 0x04034b50;  // "PK", as its first four bytes
  if ((length & UINT32_MAX) == kZip) {
    return safetensors_error(
        source.path,
        "is a ZIP archive, as torch.save and numpy.savez write them, and no "
        "safetensors file; torch.onnx.export writes a network that can be read");
  }
  if (length < 2 || length > most) {
    return safetensors_error(source.path, "not a safetensors file, or damaged: its header of " +
                                              std::to_string(length) + " bytes does not fit");
  }
  std::string text(static_cast<size_t>(length), '\0');
  MANTISSA_RETURN_IF_ERROR(source.read_exactly(std::as_writable_bytes(std::span(text))));
  return text;
}

// Sorts the entries by place and checks that they fill exactly `data_bytes`.
Status check_entries(const std::filesystem::path& path, int64_t data_bytes,
                     std::vector<SafetensorsEntry>& entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  int64_t offset = 0;
  for (const SafetensorsEntry& entry : entries) {
    const auto tensor = [&entry] { return "tensor " + readable_name(entry.name); };
    if (entry.begin != offset || entry.end < entry.begin || entry.end > data_bytes) {
      return safetensors_error(path, tensor() + " at bytes " + std::to_string(entry.begin) +
                                         " to " + std::to_string(entry.end) +
                                         " leaves a gap, overlaps another" +
                                         " tensor or ends outside the file");
    }
    if (safetensors_dtype_bytes(entry.dtype) == 0) {
      return safetensors_error(path,
                               tensor() + " has the unknown dtype " + readable_name(entry.dtype));
    }
    if (safetensors_bytes_of(entry.dtype, entry.shape) != entry.end - entry.begin) {
      return safetensors_error(path, tensor() + " has " + std::to_string(entry.end - entry.begin) +
                                         " bytes, which its dtype and shape do not give");
    }
    offset = entry.end;
  }
  if (offset == data_bytes) return {};
  return safetensors_error(path, std::to_string(data_bytes) +
                                     " bytes of data where its tensors have " +
                                     std::to_string(offset));
}

}  // namespace

int64_t safetensors_dtype_bytes(std::string_view dtype) {
  for (const auto& [name, bytes] : kDtypes) {
    if (name == dtype) return bytes;
  }
  return 0;
}

Error safetensors_error(const std::filesystem::path& path, const std::string& what) {
  return invalid_input("'" + path.string() + "': " + what);
}

// The bytes of a tensor of this dtype and shape, if the dtype is known and nothing overflows.
std::optional<int64_t> safetensors_bytes_of(std::string_view dtype,
                                            const std::vector<int64_t>& shape) {
  const int64_t element = safetensors_dtype_bytes(dtype);
  if (element == 0) return std::nullopt;
  std::optional<int64_t> bytes = element;
  for (const int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    if (bytes) bytes = checked_mul(*bytes, dim);
  }
  return bytes;
}

Result<SafetensorsStart> read_safetensors_start(const SafetensorsSource& source) {
  SafetensorsStart start;
  MANTISSA_ASSIGN(start.text, read_header_text(source));
  Result<SafetensorsHeader> parsed = parse_safetensors_header(start.text);
  if (!parsed.ok()) return safetensors_error(source.path, parsed.error().message);
  start.header = std::move(*parsed);
  start.data_begin = kSafetensorsLengthBytes + static_cast<int64_t>(start.text.size());
  MANTISSA_RETURN_IF_ERROR(
      check_entries(source.path, source.size - start.data_begin, start.header.entries));
  return start;
}

}  // namespace mantissa

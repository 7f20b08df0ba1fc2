#include "formats/arrays/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <functional>
#include <numeric>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/checked.h"
#include "base/files/atomic_file.h"
#include "base/hash.h"
#include "base/sizes.h"
#include "formats/arrays/safetensors_header.h"

namespace mantissa {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kHeaderAlignment = 8;
constexpr const char* kShaKey = "sha256";
// With one key alone, a flipped bit in its name would switch the check off.
constexpr const char* kCoversKey = "sha256_covers";
constexpr const char* kCoversText = "this header without sha256, compact, then all data";

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

Error file_error(const std::filesystem::path& path, const std::string& what) {
  return invalid_input("'" + path.string() + "': " + what);
}

// The bytes of a tensor of this dtype and shape, if the dtype is known and nothing overflows.
std::optional<int64_t> tensor_bytes(std::string_view dtype, const std::vector<int64_t>& shape) {
  const int64_t element = safetensors_dtype_bytes(dtype);
  if (element == 0) return std::nullopt;
  std::optional<int64_t> bytes = element;
  for (const int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    if (bytes) bytes = checked_mul(*bytes, dim);
  }
  return bytes;
}

// The header of the file to be written, without its checksum.
Result<SafetensorsHeader> lay_out(const std::filesystem::path& path,
                                  const std::map<std::string, std::string>& metadata,
                                  std::span<const SafetensorsView> tensors) {
  if (metadata.contains(kShaKey) || metadata.contains(kCoversKey)) {
    return file_error(path, "metadata 'sha256' and 'sha256_covers' are reserved");
  }
  SafetensorsHeader header{metadata, {}};
  header.metadata[kCoversKey] = kCoversText;
  std::unordered_set<std::string_view> names = {"__metadata__"};
  int64_t offset = 0;
  for (const SafetensorsView& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return file_error(
          path, "tensor name " + readable_name(tensor.name) + " is reserved or there twice");
    }
    const int64_t bytes = static_cast<int64_t>(tensor.data.size());
    if (tensor_bytes(tensor.dtype, tensor.shape) != bytes) {
      return file_error(path, "tensor " + readable_name(tensor.name) + " has " +
                                  std::to_string(bytes) + " bytes, which its dtype " +
                                  tensor.dtype + " and shape do not give");
    }
    header.entries.push_back({tensor.name, tensor.dtype, tensor.shape, offset, offset + bytes});
    offset += bytes;
  }
  return header;
}

// Compact JSON padded with spaces, so that the data begin at a multiple of 8.
Result<std::string> print_padded(const SafetensorsHeader& header) {
  MANTISSA_ASSIGN(std::string text, print_safetensors_header(header));
  text.resize(round_up(text.size(), kHeaderAlignment), ' ');
  return text;
}

std::array<std::byte, kLengthBytes> length_prefix(uint64_t length) {
  std::array<std::byte, kLengthBytes> prefix;
  for (std::byte& byte : prefix) {
    byte = static_cast<std::byte>(length & 0xff);
    length >>= 8;
  }
  return prefix;
}

// A source of a file's bytes, one after the other.
struct Source {
  const std::filesystem::path& path;
  int64_t size;
  std::function<Status(std::span<std::byte>)> read_exactly;
};

// Reads the length and the text of the header; leaves `source` at the data.
Result<std::string> read_header_text(const Source& source) {
  std::array<std::byte, kLengthBytes> prefix;
  MANTISSA_RETURN_IF_ERROR(source.read_exactly(prefix));
  uint64_t length = 0;
  for (size_t i = prefix.size(); i-- > 0;) length = length << 8 | static_cast<uint8_t>(prefix[i]);
  const auto most =
      static_cast<uint64_t>(std::clamp<int64_t>(source.size - kLengthBytes, 0, kMaxHeaderBytes));
  constexpr uint64_t kZip = 0x04034b50;  // "PK", as its first four bytes
  if ((length & UINT32_MAX) == kZip) {
    return file_error(source.path,
                      "is a ZIP archive, as torch.save and numpy.savez write them, and no "
                      "safetensors file; torch.onnx.export writes a network that can be read");
  }
  if (length < 2 || length > most) {
    return file_error(source.path, "not a safetensors file, or damaged: its header of " +
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
      return file_error(path, tensor() + " at bytes " + std::to_string(entry.begin) + " to " +
                                  std::to_string(entry.end) + " leaves a gap, overlaps another" +
                                  " tensor or ends outside the file");
    }
    if (safetensors_dtype_bytes(entry.dtype) == 0) {
      return file_error(path, tensor() + " has the unknown dtype " + readable_name(entry.dtype));
    }
    if (tensor_bytes(entry.dtype, entry.shape) != entry.end - entry.begin) {
      return file_error(path, tensor() + " has " + std::to_string(entry.end - entry.begin) +
                                  " bytes, which its dtype and shape do not give");
    }
    offset = entry.end;
  }
  if (offset == data_bytes) return {};
  return file_error(path, std::to_string(data_bytes) + " bytes of data where its tensors have " +
                              std::to_string(offset));
}

// Compares the file with what write_safetensors would have written, if it carries a checksum; then
// moves the checksum from the metadata to `sha256`.
Status verify(const std::filesystem::path& path, const std::string& text,
              std::span<const std::byte> data, SafetensorsHeader& header, std::string& sha256) {
  if (!header.metadata.contains(kShaKey) && !header.metadata.contains(kCoversKey)) return {};
  const std::string stored = std::exchange(header.metadata[kShaKey], "");
  header.metadata.erase(kShaKey);
  MANTISSA_ASSIGN(const std::string unsigned_text, print_safetensors_header(header));
  Sha256 hash;
  hash.update(unsigned_text);
  hash.update(data);
  sha256 = hash.hex_digest();
  header.metadata[kShaKey] = sha256;
  MANTISSA_ASSIGN(const std::string expected, print_padded(header));
  if (expected != text || stored != sha256) {
    return file_error(path, "the file is damaged: its contents do not match its sha256");
  }
  header.metadata.erase(kShaKey);
  header.metadata.erase(kCoversKey);
  return {};
}

Result<SafetensorsFile> read(const Source& source) {
  const std::filesystem::path& path = source.path;
  MANTISSA_ASSIGN(const std::string text, read_header_text(source));
  Result<SafetensorsHeader> parsed = parse_safetensors_header(text);
  if (!parsed.ok()) return file_error(path, parsed.error().message);
  SafetensorsHeader& header = *parsed;
  const int64_t data_bytes = source.size - kLengthBytes - static_cast<int64_t>(text.size());
  MANTISSA_RETURN_IF_ERROR(check_entries(path, data_bytes, header.entries));

  SafetensorsFile result;
  try {
    result.buffer = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(data_bytes));
  } catch (const std::exception&) {
    return out_of_memory("the tensors of '" + path.string() + "'", data_bytes);
  }
  const std::span<std::byte> data(result.buffer.get(), static_cast<size_t>(data_bytes));
  MANTISSA_RETURN_IF_ERROR(source.read_exactly(data));
  MANTISSA_RETURN_IF_ERROR(verify(path, text, data, header, result.sha256));
  result.metadata = std::move(header.metadata);
  result.tensors.reserve(header.entries.size());
  for (SafetensorsEntry& entry : header.entries) {
    result.tensors.push_back({std::move(entry.name), std::move(entry.dtype), std::move(entry.shape),
                              data.subspan(static_cast<size_t>(entry.begin),
                                           static_cast<size_t>(entry.end - entry.begin))});
  }
  result.by_name.resize(result.tensors.size());
  std::iota(result.by_name.begin(), result.by_name.end(), 0u);
  std::sort(result.by_name.begin(), result.by_name.end(), [&](uint32_t a, uint32_t b) {
    return result.tensors[a].name < result.tensors[b].name;
  });
  return result;
}

// The header's text with its checksum.
Result<std::string> printed_header(const std::filesystem::path& path,
                                   const std::map<std::string, std::string>& metadata,
                                   std::span<const SafetensorsView> tensors) {
  MANTISSA_ASSIGN(SafetensorsHeader header, lay_out(path, metadata, tensors));
  MANTISSA_ASSIGN(const std::string unsigned_text, print_safetensors_header(header));
  Sha256 hash;
  hash.update(unsigned_text);
  for (const SafetensorsView& tensor : tensors) hash.update(tensor.data);
  header.metadata[kShaKey] = hash.hex_digest();
  MANTISSA_ASSIGN(std::string text, print_padded(header));
  if (static_cast<int64_t>(text.size()) <= kMaxHeaderBytes) return text;
  return file_error(path, "its header would be larger than safetensors allows (100 MB)");
}

}  // namespace

const SafetensorsTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::lower_bound(
      by_name.begin(), by_name.end(), name,
      [&](uint32_t place, std::string_view wanted) { return tensors[place].name < wanted; });
  return found == by_name.end() || tensors[*found].name != name ? nullptr : &tensors[*found];
}

int64_t safetensors_dtype_bytes(std::string_view dtype) {
  for (const auto& [name, bytes] : kDtypes) {
    if (name == dtype) return bytes;
  }
  return 0;
}

Status write_safetensors(const std::filesystem::path& path,
                         const std::map<std::string, std::string>& metadata,
                         std::span<const SafetensorsView> tensors) {
  MANTISSA_ASSIGN(const std::string header, printed_header(path, metadata, tensors));
  const std::array<std::byte, kLengthBytes> prefix = length_prefix(header.size());
  std::vector<std::span<const std::byte>> pieces = {prefix, std::as_bytes(std::span(header))};
  for (const SafetensorsView& tensor : tensors) pieces.push_back(tensor.data);
  return write_file_atomically(path, pieces);
}

Result<std::string> safetensors_bytes(const std::map<std::string, std::string>& metadata,
                                      std::span<const SafetensorsView> tensors) {
  MANTISSA_ASSIGN(const std::string header, printed_header("tensors", metadata, tensors));
  const std::array<std::byte, kLengthBytes> prefix = length_prefix(header.size());
  std::string bytes(reinterpret_cast<const char*>(prefix.data()), prefix.size());
  bytes += header;
  for (const SafetensorsView& tensor : tensors) {
    bytes.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
  }
  return bytes;
}

Result<SafetensorsFile> read_safetensors(const std::filesystem::path& path) {
  MANTISSA_ASSIGN(InputFile file, InputFile::open(path));
  return read(
      {path, file.size(), [&](std::span<std::byte> out) { return file.read_exactly(out); }});
}

Result<SafetensorsFile> parse_safetensors(std::string_view bytes,
                                          const std::filesystem::path& path) {
  const auto take = [&, at = size_t{0}](std::span<std::byte> out) mutable -> Status {
    if (out.size() > bytes.size() - at) return file_error(path, "ends too early");
    std::memcpy(out.data(), bytes.data() + at, out.size());
    at += out.size();
    return {};
  };
  return read({path, std::ssize(bytes), take});
}

}  // namespace mantissa

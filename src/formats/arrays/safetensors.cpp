#include "formats/arrays/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "base/checked.h"
#include "base/files/atomic_file.h"
#include "base/hash.h"
#include "base/sizes.h"
#include "formats/arrays/safetensors_header.h"
#include "formats/arrays/safetensors_start.h"

namespace mantissa {
namespace {

constexpr size_t kHeaderAlignment = 8;
constexpr const char* kShaKey = "sha256";
// With one key alone, a flipped bit in its name would switch the check off.
constexpr const char* kCoversKey = "sha256_covers";
constexpr const char* kCoversText = "this header without sha256, compact, then all data";

// The header of the file to be written, without its checksum.
Result<SafetensorsHeader> lay_out(const std::filesystem::path& path,
                                  const std::map<std::string, std::string>& metadata,
                                  std::span<const SafetensorsView> tensors) {
  if (metadata.contains(kShaKey) || metadata.contains(kCoversKey)) {
    return safetensors_error(path, "metadata 'sha256' and 'sha256_covers' are reserved");
  }
  SafetensorsHeader header{metadata, {}};
  header.metadata[kCoversKey] = kCoversText;
  std::unordered_set<std::string_view> names = {"__metadata__"};
  int64_t offset = 0;
  for (const SafetensorsView& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return safetensors_error(
          path, "tensor name " + readable_name(tensor.name) + " is reserved or there twice");
    }
    const int64_t bytes = static_cast<int64_t>(tensor.data.size());
    if (safetensors_bytes_of(tensor.dtype, tensor.shape) != bytes) {
      return safetensors_error(path, "tensor " + readable_name(tensor.name) + " has " +
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

std::array<std::byte, kSafetensorsLengthBytes> length_prefix(uint64_t length) {
  std::array<std::byte, kSafetensorsLengthBytes> prefix;
  for (std::byte& byte : prefix) {
    byte = static_cast<std::byte>(length & 0xff);
    length >>= 8;
  }
  return prefix;
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
    return safetensors_error(path, "the file is damaged: its contents do not match its sha256");
  }
  header.metadata.erase(kShaKey);
  header.metadata.erase(kCoversKey);
  return {};
}

Result<SafetensorsFile> read(const SafetensorsSource& source) {
  const std::filesystem::path& path = source.path;
  MANTISSA_ASSIGN(SafetensorsStart start, read_safetensors_start(source));
  SafetensorsHeader& header = start.header;
  const int64_t data_bytes = source.size - start.data_begin;

  SafetensorsFile result;
  try {
    result.buffer = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(data_bytes));
  } catch (const std::exception&) {
    return out_of_memory("the tensors of '" + path.string() + "'", data_bytes);
  }
  const std::span<std::byte> data(result.buffer.get(), static_cast<size_t>(data_bytes));
  MANTISSA_RETURN_IF_ERROR(source.read_exactly(data));
  MANTISSA_RETURN_IF_ERROR(verify(path, start.text, data, header, result.sha256));
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
  if (static_cast<int64_t>(text.size()) <= kMostSafetensorsHeader) return text;
  return safetensors_error(path, "its header would be larger than safetensors allows (100 MB)");
}

}  // namespace

const SafetensorsTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::lower_bound(
      by_name.begin(), by_name.end(), name,
      [&](uint32_t place, std::string_view wanted) { return tensors[place].name < wanted; });
  return found == by_name.end() || tensors[*found].name != name ? nullptr : &tensors[*found];
}

Status write_safetensors(const std::filesystem::path& path,
                         const std::map<std::string, std::string>& metadata,
                         std::span<const SafetensorsView> tensors) {
  MANTISSA_ASSIGN(const std::string header, printed_header(path, metadata, tensors));
  const std::array<std::byte, kSafetensorsLengthBytes> prefix = length_prefix(header.size());
  std::vector<std::span<const std::byte>> pieces = {prefix, std::as_bytes(std::span(header))};
  for (const SafetensorsView& tensor : tensors) pieces.push_back(tensor.data);
  return write_file_atomically(path, pieces);
}

Result<std::string> safetensors_bytes(const std::map<std::string, std::string>& metadata,
                                      std::span<const SafetensorsView> tensors) {
  MANTISSA_ASSIGN(const std::string header, printed_header("tensors", metadata, tensors));
  const std::array<std::byte, kSafetensorsLengthBytes> prefix = length_prefix(header.size());
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
    if (out.size() > bytes.size() - at) return safetensors_error(path, "ends too early");
    std::memcpy(out.data(), bytes.data() + at, out.size());
    at += out.size();
    return {};
  };
  return read({path, std::ssize(bytes), take});
}

}  // namespace mantissa

#include "formats/arrays/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "base/checked.h"
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
    const auto bytes = safetensors_bytes_of(tensor.dtype, tensor.shape);
    if (!bytes) {
      return safetensors_error(path, "tensor " + readable_name(tensor.name) + " has the dtype " +
                                         tensor.dtype + " and a shape that give no size");
    }
    header.entries.push_back({tensor.name, tensor.dtype, tensor.shape, offset, offset + *bytes});
    offset += *bytes;
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

// Passes the data on to visit(bytes), some after the other.
using EachPart = std::function<Status(const std::function<void(std::span<const std::byte>)>& visit)>;

// Compares the file with what write_safetensors would have written, if it carries a checksum; then
// moves the checksum from the metadata to `sha256`.
Status verify(const std::filesystem::path& path, const std::string& text, const EachPart& each_part,
              SafetensorsHeader& header, std::string& sha256) {
  if (!header.metadata.contains(kShaKey) && !header.metadata.contains(kCoversKey)) return {};
  const std::string stored = std::exchange(header.metadata[kShaKey], "");
  header.metadata.erase(kShaKey);
  MANTISSA_ASSIGN(const std::string unsigned_text, print_safetensors_header(header));
  Sha256 hash;
  hash.update(unsigned_text);
  MANTISSA_RETURN_IF_ERROR(each_part([&](std::span<const std::byte> part) { hash.update(part); }));
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

// The tensors of a header. Each has its part of `data`, if this is not empty.
SafetensorsFile file_of(SafetensorsHeader& header, std::span<const std::byte> data) {
  SafetensorsFile result;
  result.metadata = std::move(header.metadata);
  result.tensors.reserve(header.entries.size());
  for (SafetensorsEntry& entry : header.entries) {
    const auto begin = static_cast<size_t>(entry.begin), end = static_cast<size_t>(entry.end);
    result.tensors.push_back(
        {std::move(entry.name), std::move(entry.dtype), std::move(entry.shape),
         data.empty() ? data : data.subspan(begin, end - begin)});
  }
  result.by_name.resize(result.tensors.size());
  std::iota(result.by_name.begin(), result.by_name.end(), 0u);
  std::sort(result.by_name.begin(), result.by_name.end(), [&](uint32_t a, uint32_t b) {
    return result.tensors[a].name < result.tensors[b].name;
  });
  return result;
}

Result<SafetensorsFile> read(const SafetensorsSource& source) {
  const std::filesystem::path& path = source.path;
  MANTISSA_ASSIGN(SafetensorsStart start, read_safetensors_start(source));
  const int64_t data_bytes = source.size - start.data_begin;
  std::unique_ptr<std::byte[]> buffer;
  try {
    buffer = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(data_bytes));
  } catch (const std::exception&) {
    return out_of_memory("the tensors of '" + path.string() + "'", data_bytes);
  }
  const std::span<std::byte> data(buffer.get(), static_cast<size_t>(data_bytes));
  MANTISSA_RETURN_IF_ERROR(source.read_exactly(data));
  std::string sha256;
  const auto whole = [&](const auto& visit) -> Status {
    visit(data);
    return {};
  };
  MANTISSA_RETURN_IF_ERROR(verify(path, start.text, whole, start.header, sha256));
  SafetensorsFile result = file_of(start.header, data);
  result.sha256 = std::move(sha256);
  result.buffer = std::move(buffer);
  return result;
}

// Reads the rest of a file in blocks.
Status read_blocks(InputFile& file, const std::function<void(std::span<const std::byte>)>& visit) {
  constexpr size_t kBlockBytes = size_t{1} << 20;
  std::vector<std::byte> block(kBlockBytes);
  for (;;) {
    MANTISSA_ASSIGN(const int64_t count, file.read(block));
    if (count == 0) return {};
    visit(std::span(block).first(static_cast<size_t>(count)));
  }
}

TensorBytes in_memory(std::span<const SafetensorsView> tensors) {
  return [tensors](size_t i) -> Result<std::span<const std::byte>> { return tensors[i].data; };
}

// The header's text with its checksum.
Result<std::string> printed_header(const std::filesystem::path& path,
                                   const std::map<std::string, std::string>& metadata,
                                   std::span<const SafetensorsView> tensors,
                                   const TensorBytes& bytes) {
  MANTISSA_ASSIGN(SafetensorsHeader header, lay_out(path, metadata, tensors));
  MANTISSA_ASSIGN(const std::string unsigned_text, print_safetensors_header(header));
  Sha256 hash;
  hash.update(unsigned_text);
  for (size_t i = 0; i < tensors.size(); ++i) {
    MANTISSA_ASSIGN(const std::span<const std::byte> data, bytes(i));
    if (std::ssize(data) != header.entries[i].end - header.entries[i].begin) {
      return safetensors_error(path, "tensor " + readable_name(tensors[i].name) + " has " +
                                         std::to_string(data.size()) + " bytes, which its dtype " +
                                         tensors[i].dtype + " and shape do not give");
    }
    hash.update(data);
  }
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

Result<std::span<const std::byte>> SafetensorsFile::bytes(const SafetensorsTensor& tensor,
                                                          std::vector<std::byte>& room) const {
  if (disk == nullptr) return tensor.data;
  const auto size = static_cast<size_t>(*safetensors_bytes_of(tensor.dtype, tensor.shape));
  room = {};  // not copied as it grows
  try {
    room.resize(size);
  } catch (const std::exception&) {
    return out_of_memory("the tensor '" + tensor.name + "'", static_cast<int64_t>(size));
  }
  MANTISSA_RETURN_IF_ERROR(disk->read_at(offsets[static_cast<size_t>(&tensor - tensors.data())], room));
  return std::span<const std::byte>(room);
}

Status write_safetensors(const std::filesystem::path& path,
                         const std::map<std::string, std::string>& metadata,
                         std::span<const SafetensorsView> tensors) {
  return write_safetensors(path, metadata, tensors, in_memory(tensors));
}

Status write_safetensors(const std::filesystem::path& path,
                         const std::map<std::string, std::string>& metadata,
                         std::span<const SafetensorsView> tensors, const TensorBytes& bytes) {
  MANTISSA_ASSIGN(const std::string header, printed_header(path, metadata, tensors, bytes));
  const std::array<std::byte, kSafetensorsLengthBytes> prefix = length_prefix(header.size());
  const auto piece = [&](size_t i) -> Result<std::span<const std::byte>> {
    if (i == 0) return std::span<const std::byte>(prefix);
    if (i == 1) return std::as_bytes(std::span(header));
    return bytes(i - 2);
  };
  return write_file_atomically(path, 2 + tensors.size(), piece);
}

Result<std::string> safetensors_bytes(const std::map<std::string, std::string>& metadata,
                                      std::span<const SafetensorsView> tensors) {
  MANTISSA_ASSIGN(const std::string header,
                  printed_header("tensors", metadata, tensors, in_memory(tensors)));
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

Result<SafetensorsFile> open_safetensors(const std::filesystem::path& path) {
  MANTISSA_ASSIGN(InputFile file, InputFile::open(path));
  MANTISSA_ASSIGN(SafetensorsStart start, read_safetensors_start({path, file.size(), [&](auto out) {
                                            return file.read_exactly(out);
                                          }}));
  std::vector<int64_t> offsets;
  for (const SafetensorsEntry& entry : start.header.entries) {
    offsets.push_back(start.data_begin + entry.begin);
  }
  std::string sha256;
  const auto blocks = [&](const auto& visit) { return read_blocks(file, visit); };
  MANTISSA_RETURN_IF_ERROR(verify(path, start.text, blocks, start.header, sha256));
  SafetensorsFile result = file_of(start.header, {});
  result.sha256 = std::move(sha256);
  result.disk = std::make_unique<const InputFile>(std::move(file));
  result.offsets = std::move(offsets);
  return result;
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

#include "formats/gguf/gguf_writer.h"

#include <bit>

#include "base/files/atomic_file.h"

namespace mantissa {
namespace {

constexpr uint32_t kWrittenVersion = 3;
constexpr size_t kAlignment = 32;  // general.alignment is left out

template <typename T>
void append_value(std::string& bytes, T value) {
  static_assert(std::endian::native == std::endian::little);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_text(std::string& bytes, std::string_view text) {
  append_value(bytes, uint64_t{text.size()});
  bytes += text;
}

size_t padding(size_t size) { return (kAlignment - size % kAlignment) % kAlignment; }

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

void GgufKeys::begin(std::string_view key, GgufType type) {
  ++count_;
  append_text(bytes_, key);
  append_value(bytes_, static_cast<uint32_t>(type));
}

void GgufKeys::add_text(std::string_view key, std::string_view value) {
  begin(key, GgufType::kText);
  append_text(bytes_, value);
}

void GgufKeys::add_whole(std::string_view key, uint32_t value) {
  begin(key, GgufType::kUint32);
  append_value(bytes_, value);
}

void GgufKeys::add_real(std::string_view key, float value) {
  begin(key, GgufType::kFloat32);
  append_value(bytes_, value);
}

void GgufKeys::add_truth(std::string_view key, bool value) {
  begin(key, GgufType::kTruth);
  append_value(bytes_, static_cast<uint8_t>(value));
}

void GgufKeys::add_texts(std::string_view key, std::span<const std::string> values) {
  begin(key, GgufType::kArray);
  append_value(bytes_, static_cast<uint32_t>(GgufType::kText));
  append_value(bytes_, uint64_t{values.size()});
  for (const std::string& value : values) append_text(bytes_, value);
}

void GgufKeys::add_wholes(std::string_view key, std::span<const int32_t> values) {
  begin(key, GgufType::kArray);
  append_value(bytes_, static_cast<uint32_t>(GgufType::kInt32));
  append_value(bytes_, uint64_t{values.size()});
  for (const int32_t value : values) append_value(bytes_, value);
}

Status write_gguf(const std::filesystem::path& path, const GgufKeys& keys,
                  std::span<const GgufTensorBytes> tensors) {
  std::string header = "GGUF";
  append_value(header, kWrittenVersion);
  append_value(header, uint64_t{tensors.size()});
  append_value(header, keys.count());
  header += keys.bytes();
  uint64_t place = 0;
  for (const GgufTensorBytes& tensor : tensors) {
    append_text(header, tensor.name);
    append_value(header, static_cast<uint32_t>(tensor.shape.size()));
    for (size_t i = tensor.shape.size(); i-- > 0;) {
      append_value(header, static_cast<uint64_t>(tensor.shape[i]));
    }
    append_value(header, tensor.type);
    append_value(header, place);
    place += tensor.bytes.size() + padding(tensor.bytes.size());
  }
  header.append(padding(header.size()), '\0');
  const std::string zeros(kAlignment, '\0');
  std::vector<std::span<const std::byte>> pieces = {bytes_of(header)};
  for (const GgufTensorBytes& tensor : tensors) {
    pieces.push_back(bytes_of(tensor.bytes));
    pieces.push_back(bytes_of(zeros).first(padding(tensor.bytes.size())));
  }
  return write_file_atomically(path, pieces);
}

}  // namespace mantissa

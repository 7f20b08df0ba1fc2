#include "formats/gguf/gguf.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "base/checked.h"
#include "base/files/atomic_file.h"
#include "base/sizes.h"
#include "formats/arrays/safetensors_header.h"
#include "formats/gguf/gguf_blocks.h"

namespace mantissa {
namespace {

constexpr size_t kMostHeaderBytes = size_t{32} << 20;
constexpr uint64_t kMostKeys = 65536, kMostTensors = 65536;
constexpr uint64_t kMostElements = uint64_t{1} << 21;  // of an array
constexpr uint64_t kMostNameBytes = 1024;
constexpr uint32_t kMostDims = 4;
constexpr uint32_t kVersion = 3;
constexpr size_t kReadBytes = size_t{1} << 16;
constexpr int64_t kMostAlignment = 65536;

// Bytes of one value; 0: that of a text, which says it itself, or of an array.
size_t value_bytes(GgufType type) {
  constexpr std::array<size_t, 13> kBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes[static_cast<size_t>(type)];
}

}  // namespace

// Reads a header from its start. The bytes are kept: values are looked at later.
class GgufHeaderReader {
 public:
  GgufHeaderReader(GgufFile& file, int64_t size) : file_(file), size_(size) {}

  Status read() {
    MANTISSA_RETURN_IF_ERROR(read_start());
    for (uint64_t i = 0; i < keys_; ++i) MANTISSA_RETURN_IF_ERROR(read_key());
    for (uint64_t i = 0; i < tensors_; ++i) MANTISSA_RETURN_IF_ERROR(read_tensor());
    MANTISSA_RETURN_IF_ERROR(place_tensors());
    file_.header_.resize(at_);
    return {};
  }

 private:
  Error error(const std::string& what) const {
    return invalid_input("'" + file_.path_.string() + "': " + what);
  }

  // Makes this many bytes behind the place available.
  Status need(uint64_t bytes) {
    std::string& header = file_.header_;
    const auto end = checked_add<uint64_t>(at_, bytes);
    if (!end || *end > static_cast<uint64_t>(size_)) {
      return error("is cut short, or damaged: its header wants " + std::to_string(bytes) +
                   " bytes at byte " + std::to_string(at_) + ", and the file has " +
                   std::to_string(size_));
    }
    if (*end > kMostHeaderBytes) {
      return error("its header has more than " + format_bytes(kMostHeaderBytes) +
                   ", which no language model's has");
    }
    if (*end <= header.size()) return {};
    const size_t old = header.size();
    const auto more = std::max<uint64_t>(*end, std::min<uint64_t>(old + kReadBytes, size_));
    header.resize(static_cast<size_t>(more));
    return file_.read_at_(static_cast<int64_t>(old),
                          std::as_writable_bytes(std::span(header).subspan(old)));
  }

  template <typename T>
  Result<T> number() {
    MANTISSA_RETURN_IF_ERROR(need(sizeof(T)));
    T value = 0;
    for (size_t i = sizeof(T); i-- > 0;) {
      value = static_cast<T>(value << 8 | static_cast<uint8_t>(file_.header_[at_ + i]));
    }
    at_ += sizeof(T);
    return value;
  }

  Result<std::string> name(const char* what) {
    MANTISSA_ASSIGN(const uint64_t length, number<uint64_t>());
    if (length == 0 || length > kMostNameBytes) {
      return error("the name of a " + std::string(what) + " at byte " + std::to_string(at_ - 8) +
                   " has " + std::to_string(length) + " bytes; it may have 1 to " +
                   std::to_string(kMostNameBytes));
    }
    MANTISSA_RETURN_IF_ERROR(need(length));
    at_ += static_cast<size_t>(length);
    return file_.header_.substr(at_ - static_cast<size_t>(length), static_cast<size_t>(length));
  }

  Status read_start() {
    constexpr std::string_view kMagic = "GGUF";
    const bool has_magic = need(kMagic.size()).ok() && file_.header_.starts_with(kMagic);
    if (!has_magic) return error("is no GGUF file: it does not begin with GGUF");
    at_ = kMagic.size();
    MANTISSA_ASSIGN(const uint32_t version, number<uint32_t>());
    if (version == __builtin_bswap32(kVersion)) {
      return error("is a big-endian GGUF file; little-endian ones can be read");
    }
    if (version != kVersion) {
      return error("is a GGUF file of version " + std::to_string(version) +
                   "; version 3 is the one that can be read");
    }
    MANTISSA_ASSIGN(tensors_, number<uint64_t>());
    MANTISSA_ASSIGN(keys_, number<uint64_t>());
    if (keys_ <= kMostKeys && tensors_ <= kMostTensors) return {};
    return error("says that it has " + std::to_string(keys_) + " keys and " +
                 std::to_string(tensors_) + " tensors; at most " + std::to_string(kMostKeys) +
                 " of each can be read");
  }

  Result<GgufType> type(const std::string& key) {
    MANTISSA_ASSIGN(const uint32_t type, number<uint32_t>());
    if (type <= static_cast<uint32_t>(GgufType::kFloat64)) return static_cast<GgufType>(type);
    return error("key " + readable_name(key) + " has the type " + std::to_string(type) +
                 ", which is none of a GGUF file");
  }

  // Passes over values of one type.
  Status pass_values(const GgufKey& key, uint64_t count) {
    if (const size_t bytes = value_bytes(key.type); bytes > 0) {
      MANTISSA_RETURN_IF_ERROR(need(bytes * count));  // count is at most kMostElements
      const auto begin = file_.header_.begin() + static_cast<int64_t>(at_);
      at_ += static_cast<size_t>(bytes * count);
      if (key.type != GgufType::kTruth || std::all_of(begin, begin + static_cast<int64_t>(count),
                                                      [](char c) { return c == 0 || c == 1; })) {
        return {};
      }
      return error("key " + readable_name(key.name) + " has a truth value other than 0 and 1");
    }
    for (uint64_t i = 0; i < count; ++i) {
      MANTISSA_ASSIGN(const uint64_t length, number<uint64_t>());
      MANTISSA_RETURN_IF_ERROR(need(length));
      at_ += static_cast<size_t>(length);
    }
    return {};
  }

  Status read_key() {
    GgufKey key;
    MANTISSA_ASSIGN(key.name, name("key"));
    MANTISSA_ASSIGN(key.type, type(key.name));
    uint64_t count = 1;
    if (key.type == GgufType::kArray) {
      MANTISSA_ASSIGN(key.type, type(key.name));
      if (key.type == GgufType::kArray) {
        return error("key " + readable_name(key.name) +
                     " is an array of arrays, which cannot be read");
      }
      MANTISSA_ASSIGN(count, number<uint64_t>());
      if (count > kMostElements) {
        return error("key " + readable_name(key.name) + " has " + std::to_string(count) +
                     " elements; at most " + std::to_string(kMostElements) + " can be read");
      }
      key.count = static_cast<int64_t>(count);
    }
    key.begin = at_;
    MANTISSA_RETURN_IF_ERROR(pass_values(key, count));
    key.bytes = at_ - key.begin;
    if (!file_.key_by_name_.emplace(key.name, file_.keys_.size()).second) {
      return error("key " + readable_name(key.name) + " is there twice");
    }
    file_.keys_.push_back(std::move(key));
    return {};
  }

  // The bytes of a tensor, from its type and its shape.
  Result<int64_t> tensor_bytes(const GgufTensor& tensor) const {
    const GgufBlockType* type = gguf_block_type(tensor.type);
    if (type == nullptr) {
      return error("tensor " + readable_name(tensor.name) + " has the type " +
                   std::to_string(tensor.type) +
                   "; F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K (0, 1, "
                   "30, 2, 3, 6, 7, 8, 12, 13, 14) can be read");
    }
    if (tensor.shape.back() % type->elements != 0) {
      return error("tensor " + readable_name(tensor.name) + " has rows of " +
                   std::to_string(tensor.shape.back()) + " elements, which are no blocks of " +
                   std::to_string(type->elements) + ", as " + type->name + " has them");
    }
    std::optional<int64_t> bytes = checked_mul(type->bytes, tensor.shape.back() / type->elements);
    for (size_t i = 0; bytes && i + 1 < tensor.shape.size(); ++i) {
      bytes = checked_mul(*bytes, tensor.shape[i]);
    }
    if (bytes && *bytes <= size_) return *bytes;
    return error("tensor " + readable_name(tensor.name) + " has more bytes than the file");
  }

  Status read_tensor() {
    GgufTensor tensor;
    MANTISSA_ASSIGN(tensor.name, name("tensor"));
    MANTISSA_ASSIGN(const uint32_t dims, number<uint32_t>());
    if (dims == 0 || dims > kMostDims) {
      return error("tensor " + readable_name(tensor.name) + " has " + std::to_string(dims) +
                   " dimensions; it may have 1 to " + std::to_string(kMostDims));
    }
    for (uint32_t i = 0; i < dims; ++i) {
      MANTISSA_ASSIGN(const uint64_t dim, number<uint64_t>());
      if (dim == 0 || dim > uint64_t{INT64_MAX}) {
        return error("tensor " + readable_name(tensor.name) + " has a dimension of " +
                     std::to_string(dim));
      }
      tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(dim));
    }
    MANTISSA_ASSIGN(tensor.type, number<uint32_t>());
    MANTISSA_ASSIGN(const uint64_t begin, number<uint64_t>());
    if (begin > static_cast<uint64_t>(size_)) {
      return error("tensor " + readable_name(tensor.name) + " lies outside of the file");
    }
    tensor.begin = static_cast<int64_t>(begin);
    MANTISSA_ASSIGN(tensor.bytes, tensor_bytes(tensor));
    if (!file_.tensor_by_name_.emplace(tensor.name, file_.tensors_.size()).second) {
      return error("tensor " + readable_name(tensor.name) + " is there twice");
    }
    file_.tensors_.push_back(std::move(tensor));
    return {};
  }

  // Places count from the end of the header, at the next multiple of the alignment.
  Status place_tensors() {
    constexpr int64_t kUsualAlignment = 32;
    MANTISSA_ASSIGN(const std::optional<int64_t> said, file_.whole("general.alignment"));
    const int64_t alignment = said.value_or(kUsualAlignment);
    if (alignment < 1 || alignment > kMostAlignment || (alignment & (alignment - 1)) != 0) {
      return error("its general.alignment is " + std::to_string(alignment) +
                   "; a power of two up to " + std::to_string(kMostAlignment) + " is possible");
    }
    const int64_t data = round_up(static_cast<int64_t>(at_), alignment);
    std::vector<const GgufTensor*> by_place;
    for (GgufTensor& tensor : file_.tensors_) {
      if (tensor.begin % alignment != 0) {
        return error("tensor " + readable_name(tensor.name) + " begins at " +
                     std::to_string(tensor.begin) + ", which is no multiple of the alignment " +
                     std::to_string(alignment));
      }
      tensor.begin += data;  // at most the file's size and its header
      if (tensor.begin > size_ - tensor.bytes) {
        return error("tensor " + readable_name(tensor.name) +
                     " lies outside of the file, which is cut short or damaged");
      }
      by_place.push_back(&tensor);
    }
    std::sort(by_place.begin(), by_place.end(),
              [](const GgufTensor* a, const GgufTensor* b) { return a->begin < b->begin; });
    for (size_t i = 1; i < by_place.size(); ++i) {
      if (by_place[i - 1]->begin + by_place[i - 1]->bytes <= by_place[i]->begin) continue;
      return error("tensors " + readable_name(by_place[i - 1]->name) + " and " +
                   readable_name(by_place[i]->name) + " overlap");
    }
    return {};
  }

  GgufFile& file_;
  const int64_t size_;
  size_t at_ = 0;
  uint64_t keys_ = 0, tensors_ = 0;
};

Result<GgufFile> GgufFile::read(const std::filesystem::path& path, int64_t size, ReadAt read_at) {
  GgufFile file;
  file.path_ = path;
  file.read_at_ = std::move(read_at);
  MANTISSA_RETURN_IF_ERROR(GgufHeaderReader(file, size).read());
  return file;
}

Result<GgufFile> GgufFile::open(const std::filesystem::path& path) {
  MANTISSA_ASSIGN(InputFile opened, InputFile::open(path));
  const auto input = std::make_shared<const InputFile>(std::move(opened));
  return read(path, input->size(), [input](int64_t offset, std::span<std::byte> out) {
    return input->read_at(offset, out);
  });
}

}  // namespace mantissa

#include "formats/arrays/npy.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "base/float16.h"

namespace mantissa {
namespace {

static_assert(std::endian::native == std::endian::little);

struct TypeInfo {
  const char* code;  // of the header
  int64_t bytes;
  const char* name;
};

// In the order of NpyType.
constexpr TypeInfo kTypes[] = {{"|b1", 1, "bool"},    {"|i1", 1, "int8"},   {"<i2", 2, "int16"},
                               {"<i4", 4, "int32"},   {"<i8", 8, "int64"},  {"|u1", 1, "uint8"},
                               {"<u2", 2, "uint16"},  {"<u4", 4, "uint32"}, {"<u8", 8, "uint64"},
                               {"<f4", 4, "float32"}, {"<f8", 8, "float64"}};

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlignment = 64;
constexpr size_t kMostHeaderBytes = 1 << 16;
constexpr size_t kMostDims = 32;

const TypeInfo& info(NpyType type) { return kTypes[static_cast<size_t>(type)]; }

Error damaged(const std::string& what) { return invalid_input("not an NPY array: " + what); }

// Bytes of an array, or nothing if a dimension is negative or their number overflows.
std::optional<int64_t> bytes_of(NpyType type, const std::vector<int64_t>& shape) {
  std::optional<int64_t> bytes = info(type).bytes;
  for (const int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    if (bytes) bytes = checked_mul(*bytes, dim);
  }
  return bytes;
}

// The type of a code; one byte has no order, and older files write "<" for it.
std::optional<NpyType> type_of(std::string_view code) {
  if (code.size() != 3) return std::nullopt;
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    if (code.substr(1) == std::string_view(kTypes[i].code).substr(1))
      return static_cast<NpyType>(i);
  }
  return std::nullopt;
}

void swap_bytes(std::vector<std::byte>& data, size_t element) {
  for (size_t at = 0; at + element <= data.size(); at += element) {
    std::reverse(data.begin() + static_cast<int64_t>(at),
                 data.begin() + static_cast<int64_t>(at + element));
  }
}

// The Python dictionary of a header: {'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : left_(text) {}

  // Takes the dictionary, with each of its three entries once, in any order.
  Status parse() {
    if (!take("{")) return damaged("its header is no dictionary");
    while (!take("}")) {
      const std::optional<std::string_view> key = take_string();
      if (!key || !take(":")) return damaged("its header has an entry without a name");
      MANTISSA_RETURN_IF_ERROR(take_entry(*key));
      if (take(",")) continue;
      if (!take("}")) return damaged("its header does not end");
      break;
    }
    skip_space();
    if (!left_.empty()) return damaged("something follows its header's dictionary");
    if (!code || !fortran_order || !shape) {
      return damaged("its header lacks descr, fortran_order or shape");
    }
    return {};
  }

  std::optional<std::string> code;  // empty: of records
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;

 private:
  void skip_space() {
    const size_t at = left_.find_first_not_of(" \t\n\r");
    left_.remove_prefix(at == std::string_view::npos ? left_.size() : at);
  }

  bool take(std::string_view token) {
    skip_space();
    if (!left_.starts_with(token)) return false;
    left_.remove_prefix(token.size());
    return true;
  }

  std::optional<std::string_view> take_string() {
    skip_space();
    if (left_.empty() || (left_[0] != '\'' && left_[0] != '"')) return std::nullopt;
    const size_t end = left_.find(left_[0], 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view text = left_.substr(1, end - 1);
    left_.remove_prefix(end + 1);
    return text;
  }

  Status take_entry(std::string_view key) {
    if (key == "descr" && !code) {
      const std::optional<std::string_view> text = take_string();
      code = text ? std::string(*text) : std::string();
      return text ? Status() : skip_records();
    }
    if (key == "fortran_order" && !fortran_order) {
      if (take("True")) {
        fortran_order = true;
      } else if (take("False")) {
        fortran_order = false;
      } else {
        return damaged("its order is neither True nor False");
      }
      return {};
    }
    if (key == "shape" && !shape) return take_shape();
    return damaged("its header has an entry '" + std::string(key.substr(0, 20)) +
                   "' that is unknown, or twice");
  }

  // A list of fields, with lists in it.
  Status skip_records() {
    skip_space();
    int depth = 0;
    for (size_t at = 0; at < left_.size(); ++at) {
      const char c = left_[at];
      if (c == '\'' || c == '"') at = std::min(left_.find(c, at + 1), left_.size());
      if (c == '[' || c == '(') ++depth;
      if ((c == ']' || c == ')') && --depth == 0) {
        left_.remove_prefix(at + 1);
        return {};
      }
      if (depth == 0) break;
    }
    return damaged("its type is neither a text nor a list");
  }

  Status take_shape() {
    if (!take("(")) return damaged("its shape is no tuple");
    shape.emplace();
    while (!take(")")) {
      skip_space();
      int64_t dim = -1;
      const auto [end, error] = std::from_chars(left_.data(), left_.data() + left_.size(), dim);
      if (error != std::errc() || dim < 0) {
        return damaged("its shape has a dimension that is no number from 0 to 2^63 - 1");
      }
      left_.remove_prefix(static_cast<size_t>(end - left_.data()));
      if (shape->size() == kMostDims) return damaged("it has more than 32 dimensions");
      shape->push_back(dim);
      if (take(",")) continue;
      if (!take(")")) return damaged("its shape does not end");
      break;
    }
    return {};
  }

  std::string_view left_;
};

// The text of the header, and where the data begin.
Result<std::pair<std::string_view, size_t>> find_header(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  const size_t versions_at = kMagic.size();
  if (!text.starts_with(kMagic)) return damaged("it does not begin with \\x93NUMPY");
  if (text.size() < versions_at + 2) return damaged("cut short in its first bytes");
  const int version = static_cast<uint8_t>(text[versions_at]);
  if (version < 1 || version > 3) {
    return damaged("it has version " + std::to_string(version) + "; 1 to 3 are known");
  }
  const size_t length_at = versions_at + 2, length_bytes = version == 1 ? 2 : 4;
  if (text.size() < length_at + length_bytes) return damaged("cut short in its first bytes");
  uint32_t length = 0;
  std::memcpy(&length, text.data() + length_at, length_bytes);
  const size_t at = length_at + length_bytes;
  if (length > kMostHeaderBytes || length > text.size() - at) {
    return damaged("its header of " + std::to_string(length) + " bytes is cut short, or too long");
  }
  return std::pair(text.substr(at, length), at + length);
}

// Row-major bytes from an array whose first index runs fastest.
std::vector<std::byte> transposed(std::span<const std::byte> data, size_t element,
                                  const std::vector<int64_t>& shape) {
  std::vector<size_t> strides;  // in bytes
  size_t stride = element;
  for (const int64_t dim : shape) {
    strides.push_back(stride);
    stride *= static_cast<size_t>(dim);
  }
  std::vector<std::byte> result(data.size());
  std::vector<int64_t> index(shape.size());
  size_t from = 0;
  for (size_t to = 0; to < result.size(); to += element) {
    std::memcpy(result.data() + to, data.data() + from, element);
    for (size_t d = shape.size(); d-- > 0;) {
      from += strides[d];
      if (++index[d] < shape[d]) break;
      from -= strides[d] * static_cast<size_t>(shape[d]);
      index[d] = 0;
    }
  }
  return result;
}

// float16 as float.
std::vector<std::byte> widened(std::span<const std::byte> halves) {
  std::vector<std::byte> result(2 * halves.size());
  for (size_t at = 0; at + 2 <= halves.size(); at += 2) {
    uint16_t bits = 0;
    std::memcpy(&bits, halves.data() + at, sizeof(bits));
    const float number = from_float16(bits);
    std::memcpy(result.data() + 2 * at, &number, sizeof(number));
  }
  return result;
}

}  // namespace

int64_t npy_element_bytes(NpyType type) { return info(type).bytes; }

const char* npy_type_name(NpyType type) { return info(type).name; }

Result<std::string> npy_header(const NpyView& view) {
  const std::optional<int64_t> bytes = bytes_of(view.type, view.shape);
  if (!bytes || *bytes != std::ssize(view.data) || view.shape.size() > kMostDims) {
    return invalid_input("the array '" + view.name + "' has not the bytes of its shape");
  }
  std::string shape;
  for (const int64_t dim : view.shape) shape += std::to_string(dim) + ", ";
  // (2,) and (2, 3): the comma at the end is dropped unless it makes the tuple.
  if (!shape.empty()) shape.resize(shape.size() - (view.shape.size() == 1 ? 1 : 2));
  std::string header = std::string("{'descr': '") + info(view.type).code +
                       "', 'fortran_order': False, 'shape': (" + shape + "), }";
  const size_t before = kMagic.size() + 4;
  header.resize(round_up(before + header.size() + 1, kAlignment) - before - 1, ' ');
  header += '\n';
  const std::string length = {static_cast<char>(header.size() & 0xff),
                              static_cast<char>(header.size() >> 8)};
  return std::string(kMagic) + std::string("\1\0", 2) + length + header;
}

Result<NpyHead> parse_npy_head(std::span<const std::byte> begin) {
  MANTISSA_ASSIGN(const auto header, find_header(begin));
  HeaderParser parser(header.first);
  MANTISSA_RETURN_IF_ERROR(parser.parse());
  NpyHead head{.type_code = parser.code->substr(0, 20),
               .type = type_of(*parser.code),
               .is_big_endian = parser.code->starts_with('>'),
               .is_fortran = *parser.fortran_order,
               .shape = std::move(*parser.shape),
               .data_at = header.second};
  head.is_half = head.type_code.ends_with("f2") && head.type_code.size() == 3;
  if (head.is_half) head.type = NpyType::kFloat;
  // As many bytes as of whole numbers of 16 bits.
  if (head.type) head.bytes = bytes_of(head.is_half ? NpyType::kInt16 : *head.type, head.shape);
  return head;
}

Result<NpyArray> parse_npy(std::span<const std::byte> file) {
  MANTISSA_ASSIGN(NpyHead head, parse_npy_head(file));
  if (head.type_code.empty()) return invalid_input("it holds records, not numbers");
  if (!head.type) {
    return invalid_input("its numbers have the type '" + head.type_code +
                         "', and are to be integers, float16, float32, float64 or bool");
  }
  const std::span<const std::byte> data = file.subspan(head.data_at);
  if (head.bytes != std::ssize(data)) {
    return damaged(std::to_string(data.size()) + " bytes follow its header, not " +
                   (head.bytes ? std::to_string(*head.bytes) : "so many") + " as its shape says");
  }
  const auto element = head.is_half ? size_t{2} : static_cast<size_t>(info(*head.type).bytes);
  NpyArray array{.name = {}, .type = *head.type, .shape = std::move(head.shape), .data = {}};
  if (head.is_fortran && array.shape.size() > 1) {
    array.data = transposed(data, element, array.shape);
  } else {
    array.data.assign(data.begin(), data.end());
  }
  if (head.is_big_endian && element > 1) swap_bytes(array.data, element);
  if (head.is_half) array.data = widened(array.data);
  return array;
}

}  // namespace mantissa

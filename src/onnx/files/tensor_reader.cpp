// TensorProto: numbers are bytes (raw_data), lists of numbers by type, or a part of another file.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/checked.h"
#include "onnx/files/read_context.h"

namespace mantissa::onnx {
namespace {

constexpr int64_t kExternal = 1;  // TensorProto.DataLocation

// The fields of a TensorProto as the file has them.
struct TensorFields {
  TensorData tensor;
  int64_t type = 0;
  int64_t location = 0;
  std::optional<std::span<const std::byte>> raw;
  std::vector<WireField> lists;  // of numbers
  std::vector<std::span<const std::byte>> external;
};

// Which list of numbers holds a type's elements, in how many bits there, and whether as varints.
struct ListKind {
  uint32_t number;
  bool varints;
};

ListKind list_kind(ElementType type) {
  switch (type) {
    case ElementType::kFloat:
      return {4, false};
    case ElementType::kDouble:
      return {10, false};
    case ElementType::kInt64:
      return {7, true};
    case ElementType::kUint32:
    case ElementType::kUint64:
      return {11, true};
    default:
      return {5, true};
  }
}

// Bytes of all elements; nothing if dims are negative or their product does not fit, which must
// hold for the others where one is 0.
std::optional<int64_t> bytes_of(const TensorData& tensor) {
  std::optional<int64_t> bits = element_bits(tensor.type);
  bool empty = false;
  for (const int64_t dim : tensor.dims) {
    if (dim < 0) return std::nullopt;
    empty |= dim == 0;
    if (bits) bits = checked_mul(*bits, std::max<int64_t>(dim, 1));
  }
  constexpr int64_t kMostBits = int64_t{1} << 43;  // a terabyte
  if (!bits || *bits > kMostBits) return std::nullopt;
  return empty ? 0 : (*bits + 7) / 8;
}

Status read_fields(ReadContext& context, std::span<const std::byte> message, TensorFields& result) {
  MANTISSA_RETURN_IF_ERROR(count_fields(context, message));
  WireReader reader(message);
  WireField field;
  while (reader.next(field)) {
    switch (field.key) {
      case wire_key(1, WireType::kVarint):
      case wire_key(1, WireType::kBytes):
        // Checked before and after: neither a packed run nor many fields of one number may grow
        // beyond it.
        if (field.bytes.size() > 10 * kMostRank) return invalid_input("a tensor has rank over 8");
        MANTISSA_RETURN_IF_ERROR(add_integers(context, field, result.tensor.dims));
        if (result.tensor.dims.size() > kMostRank) return invalid_input("a tensor has rank over 8");
        break;
      case wire_key(2, WireType::kVarint):
        result.type = static_cast<int64_t>(field.value);
        break;
      case wire_key(3, WireType::kBytes):
        return invalid_input("a tensor in segments, which are not supported");
      case wire_key(8, WireType::kBytes): {
        MANTISSA_ASSIGN(result.tensor.name, read_text(context, field));
        break;
      }
      case wire_key(9, WireType::kBytes):
        result.raw = field.bytes;
        break;
      case wire_key(13, WireType::kBytes):
        result.external.push_back(field.bytes);
        break;
      case wire_key(14, WireType::kVarint):
        result.location = static_cast<int64_t>(field.value);
        break;
      default: {
        const uint32_t number = field.key >> 3;
        if (number != 4 && number != 5 && number != 7 && number != 10 && number != 11) break;
        MANTISSA_RETURN_IF_ERROR(context.budget.take_bytes(3 * sizeof(WireField)));
        result.lists.push_back(field);
      }
    }
  }
  return end_of(reader);
}

struct ExternalPlace {
  std::string location;
  int64_t offset = 0;
  std::optional<int64_t> length;
};

Result<int64_t> to_integer(const std::string& text) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end || number < 0) {
    return invalid_input("its offset or length in a data file is no whole number from 0 on");
  }
  return number;
}

Result<ExternalPlace> read_place(ReadContext& context, const TensorFields& fields) {
  ExternalPlace place;
  for (const std::span<const std::byte> entry : fields.external) {
    std::string key;
    std::string value;
    WireReader reader(entry);
    WireField field;
    while (reader.next(field)) {
      if (field.key == wire_key(1, WireType::kBytes)) {
        MANTISSA_ASSIGN(key, read_text(context, field));
      } else if (field.key == wire_key(2, WireType::kBytes)) {
        MANTISSA_ASSIGN(value, read_text(context, field));
      }
    }
    MANTISSA_RETURN_IF_ERROR(end_of(reader));
    if (key == "location") place.location = value;
    if (key == "offset") {
      MANTISSA_ASSIGN(place.offset, to_integer(value));
    }
    if (key == "length") {
      MANTISSA_ASSIGN(place.length, to_integer(value));
    }
  }
  return place;
}

Status take_external(ReadContext& context, const TensorFields& fields, int64_t bytes,
                     TensorData& tensor) {
  MANTISSA_ASSIGN(const ExternalPlace place, read_place(context, fields));
  std::shared_ptr<FileBytes>& file = context.data_files[place.location];
  if (file == nullptr) {
    MANTISSA_RETURN_IF_ERROR(context.budget.take_bytes(512));
    MANTISSA_ASSIGN(file, FileBytes::open_inside(context.folder, place.location));
  }
  if (place.length && *place.length != bytes) {
    return invalid_input("has " + std::to_string(*place.length) + " bytes in '" + place.location +
                         "', but its type and dims need " + std::to_string(bytes));
  }
  if (place.offset > file->size() || bytes > file->size() - place.offset) {
    return invalid_input("ends outside its data file '" + place.location + "'");
  }
  MANTISSA_ASSIGN(tensor.bytes, file->part(place.offset, bytes));
  tensor.owner = file;
  return {};
}

Error wrong_count(int64_t bytes) {
  return invalid_input("has another number of elements than its dims say (" +
                       std::to_string(bytes) + " bytes are wanted)");
}

// Writes one element of a list of varints as the tensor's bytes have it.
void put(uint64_t number, int64_t size, std::byte* out) { std::memcpy(out, &number, size); }

// Lists of fixed size that are one packed run stay in the file, the others are copied.
Status take_lists(ReadContext& context, const TensorFields& fields, int64_t bytes,
                  TensorData& tensor) {
  const ListKind kind = list_kind(tensor.type);
  const uint32_t packed = wire_key(kind.number, WireType::kBytes);
  for (const WireField& field : fields.lists) {
    if (field.key >> 3 != kind.number) return invalid_input("has numbers of another type");
  }
  if (!kind.varints && fields.lists.size() == 1 && fields.lists[0].key == packed) {
    if (static_cast<int64_t>(fields.lists[0].bytes.size()) != bytes) return wrong_count(bytes);
    tensor.bytes = fields.lists[0].bytes;
    tensor.owner = context.owner;
    return {};
  }
  // A varint has at least one byte. So no more is allocated than the file can hold.
  MANTISSA_RETURN_IF_ERROR(context.budget.take_bytes(bytes));
  auto buffer = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(bytes));
  const int64_t size =
      kind.varints ? std::max(element_bits(tensor.type) / 8, 1) : element_bits(tensor.type) / 8;
  int64_t at = 0;
  for (const WireField& field : fields.lists) {
    std::span<const std::byte> left = field.bytes;
    if (field.key == packed && !kind.varints) {
      if (static_cast<int64_t>(left.size()) > bytes - at) return wrong_count(bytes);
      std::memcpy(buffer->data() + at, left.data(), left.size());
      at += static_cast<int64_t>(left.size());
      continue;
    }
    do {
      uint64_t number = field.value;
      if (field.key == packed) {
        if (left.empty()) break;
        const std::optional<uint64_t> taken = take_varint(left);
        if (!taken) return invalid_input("has a number that is cut off or over 64 bits");
        number = *taken;
      }
      if (at + size > bytes) return wrong_count(bytes);
      put(number, size, buffer->data() + at);
      at += size;
    } while (!left.empty());
  }
  if (at != bytes) return wrong_count(bytes);
  tensor.bytes = *buffer;
  tensor.owner = buffer;
  return {};
}

Status take_numbers(ReadContext& context, const TensorFields& fields, TensorData& tensor) {
  if (tensor.type == ElementType::kString) return {};
  if (element_bits(tensor.type) == 0) {
    return invalid_input("has the element type " + std::to_string(fields.type) +
                         ", which is not supported");
  }
  const std::optional<int64_t> bytes = bytes_of(tensor);
  if (!bytes) return invalid_input("has dims that are negative or too large");
  if (fields.location == kExternal) return take_external(context, fields, *bytes, tensor);
  if (!fields.raw) return take_lists(context, fields, *bytes, tensor);
  if (static_cast<int64_t>(fields.raw->size()) != *bytes) {
    return invalid_input("has " + std::to_string(fields.raw->size()) +
                         " bytes, but its type and dims need " + std::to_string(*bytes));
  }
  tensor.bytes = *fields.raw;
  tensor.owner = context.owner;
  return {};
}

}  // namespace

Result<TensorData> read_tensor(ReadContext& context, std::span<const std::byte> message) {
  TensorFields fields;
  MANTISSA_RETURN_IF_ERROR(read_fields(context, message, fields));
  TensorData tensor = std::move(fields.tensor);
  if (fields.type >= 0 && fields.type <= UINT8_MAX) {
    tensor.type = static_cast<ElementType>(fields.type);
  }
  const Status taken = take_numbers(context, fields, tensor);
  if (!taken.ok()) {
    return make_error(taken.error().code,
                      describe("tensor", tensor.name) + ": " + taken.error().message);
  }
  return tensor;
}

}  // namespace mantissa::onnx

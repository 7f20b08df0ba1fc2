#include "data/arrays/input_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "data/arrays/array_files.h"
#include "data/arrays/array_roles.h"
#include "data/tables/table_rows.h"

namespace mantissa {
namespace {

bool is_whole(NpyType type) {
  return type != NpyType::kBool && type != NpyType::kFloat && type != NpyType::kDouble;
}

Error wrong_array(const FoundSplit& split, const NpyArray& array, const ArrayInput& input) {
  return invalid_input(place_of(split, array) + " of " + npy_type_name(array.type) +
                       " does not fit the input '" + input.name + "': it takes " +
                       wanted_text(input));
}

int64_t limit_of(const ArrayInput& input) {
  return input.limit > 0 ? input.limit : std::numeric_limits<int32_t>::max();
}

// Where in the array a number is that is out of range: ", row 3".
std::string row_text(int64_t row) { return ", row " + std::to_string(row); }

void append_pictures(const FoundSplit& split, const NpyArray& array, const ArrayInput& input,
                     std::vector<uint8_t>& pixels) {
  const ChannelOrder order(input.shape, input.channels_first);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(array.data.data());
  for (int64_t n = 0; n < array.shape[0]; ++n) {
    if (!is_of_part(n, split.part)) continue;
    const uint8_t* const picture = bytes + n * order.count();
    for (int64_t i = 0; i < order.count(); ++i) pixels.push_back(picture[order.stored(i)]);
  }
}

Status append_tokens(const FoundSplit& split, const NpyArray& array, const ArrayInput& input,
                     std::span<const int32_t> lengths, std::vector<int32_t>& tokens) {
  const NumberAt number = number_reader(array.type);
  const int64_t positions = input.shape.count(), limit = limit_of(input);
  for (int64_t n = 0; n < array.shape[0]; ++n) {
    if (!is_of_part(n, split.part)) continue;
    const int64_t counted = lengths.empty() ? positions : lengths[static_cast<size_t>(n)];
    for (int64_t i = 0; i < counted; ++i) {
      const double token = number(array, n * positions + i);
      if (token < 0 || token >= static_cast<double>(limit)) {
        return invalid_input(place_of(split, array) + row_text(n) + ": has the token " +
                             std::to_string(static_cast<int64_t>(token)) + ", and the input '" +
                             input.name + "' takes 0 to " + std::to_string(limit - 1));
      }
      tokens.push_back(static_cast<int32_t>(token));
    }
    tokens.resize(tokens.size() + static_cast<size_t>(positions - counted));
  }
  return {};
}

}  // namespace

Result<std::vector<int32_t>> lengths_in(const FoundSplit& split, const NpyArray& array,
                                        const ArrayInput& input) {
  const NumberAt number = number_reader(array.type);
  const int64_t limit = limit_of(input);
  std::vector<int32_t> lengths;
  for (int64_t n = 0; n < array.shape[0]; ++n) {
    const double length = number(array, n);
    if (length < 1 || length > static_cast<double>(limit)) {
      return invalid_input(place_of(split, array) + row_text(n) + ": has the length " +
                           std::to_string(static_cast<int64_t>(length)) + "; 1 to " +
                           std::to_string(limit) + " positions are possible");
    }
    lengths.push_back(static_cast<int32_t>(length));
  }
  return lengths;
}

Result<bool> check_array(const FoundSplit& split, const NpyArray& array, const ArrayInput& input,
                         ChannelAxis axis) {
  const std::vector<int64_t>& dims = array.shape;
  if (dims.empty()) return wrong_array(split, array, input);
  switch (input.kind) {
    case ArrayKind::kTokens:
    case ArrayKind::kLengths: {
      std::vector<int64_t> wanted = dims_of(input.shape);
      wanted.insert(wanted.begin(), dims[0]);
      const bool is_column = input.shape.rank == 0 && dims == std::vector<int64_t>{dims[0], 1};
      if (is_whole(array.type) && (dims == wanted || is_column)) return false;
      return wrong_array(split, array, input);
    }
    case ArrayKind::kPictures:
      if (array.type != NpyType::kUint8) return wrong_array(split, array, input);
      break;
    case ArrayKind::kNumbers:
      break;
  }
  // --channels decides only between two orders that both fit.
  const auto by_shape = has_channels_first(split, array, input.shape, ChannelAxis::kByShape);
  if (by_shape.ok() || axis == ChannelAxis::kByShape) return by_shape;
  return has_channels_first(split, array, input.shape, axis);
}

Result<ChangedNumbers> append_input(const FoundSplit& split, const NpyArray& array,
                                    const ArrayInput& input, std::span<const int32_t> lengths,
                                    StoredTensor& tensor) {
  switch (input.kind) {
    case ArrayKind::kPictures:
      append_pictures(split, array, input, tensor.as<uint8_t>());
      return ChangedNumbers();
    case ArrayKind::kTokens:
      MANTISSA_RETURN_IF_ERROR(
          append_tokens(split, array, input, lengths, tensor.as<int32_t>()));
      return ChangedNumbers();
    case ArrayKind::kLengths: {
      MANTISSA_ASSIGN(const std::vector<int32_t> all, lengths_in(split, array, input));
      for (int64_t n = 0; n < std::ssize(all); ++n) {
        if (is_of_part(n, split.part)) tensor.as<int32_t>().push_back(all[static_cast<size_t>(n)]);
      }
      return ChangedNumbers();
    }
    case ArrayKind::kNumbers:
      break;
  }
  return append_standardised(split, {array, {input.shape, input.channels_first}, lengths},
                             input.columns, tensor.as<int16_t>());
}

}  // namespace mantissa

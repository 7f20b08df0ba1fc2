#include "api/training/array_set.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "api/public_values.h"

namespace mantissa {
namespace {

const char* name_of(Elements elements) {
  constexpr const char* kNames[] = {"uint8",   "int16",   "int32",    "int64",
                                    "float32", "float64", "mantissas"};
  return kNames[static_cast<size_t>(elements)];
}

bool is_of(const Dims& dims, const Shape& shape) {
  return std::ssize(dims) == shape.rank && std::equal(dims.begin(), dims.end(), shape.dims.begin());
}

std::string text_of(const Dims& dims) {
  std::string text;
  for (const int64_t dim : dims) text += (text.empty() ? "" : ", ") + std::to_string(dim);
  return "[" + text + "]";
}

template <typename To, typename From>
Status convert_whole(const Array& array, int64_t count, std::vector<std::byte>& to) {
  to.resize(static_cast<size_t>(count) * sizeof(To));
  const auto* from = static_cast<const From*>(array.data);
  for (int64_t i = 0; i < count; ++i) {
    const auto number = static_cast<To>(from[i]);
    if (static_cast<From>(number) != from[i]) {
      return invalid_input("'" + array.name + "': " + std::to_string(from[i]) + " at " +
                           std::to_string(i) + " does not fit the network's input");
    }
    std::memcpy(to.data() + i * static_cast<int64_t>(sizeof(To)), &number, sizeof(To));
  }
  return {};
}

// To nearest, ties to even: mantissas of 16 bits at the input's exponent.
template <typename From>
Status convert_real(const Array& array, int64_t count, int exponent, std::vector<std::byte>& to) {
  to.resize(static_cast<size_t>(count) * sizeof(int16_t));
  const auto* from = static_cast<const From*>(array.data);
  for (int64_t i = 0; i < count; ++i) {
    const double mantissa = std::nearbyint(std::ldexp(static_cast<double>(from[i]), -exponent));
    if (!(std::abs(mantissa) <= INT16_MAX)) {
      return invalid_input("'" + array.name + "': " + std::to_string(from[i]) + " at " +
                           std::to_string(i) + " is not a number below 2^" +
                           std::to_string(exponent + 15) + ", which the input's exponent of " +
                           std::to_string(exponent) + " allows");
    }
    const auto number = static_cast<int16_t>(mantissa);
    std::memcpy(to.data() + i * static_cast<int64_t>(sizeof(int16_t)), &number, sizeof number);
  }
  return {};
}

Status convert_index(const Array& array, int64_t count, std::vector<std::byte>& to) {
  switch (array.elements) {
    case Elements::kUint8:
      return convert_whole<int32_t, uint8_t>(array, count, to);
    case Elements::kInt16:
      return convert_whole<int32_t, int16_t>(array, count, to);
    default:
      return convert_whole<int32_t, int64_t>(array, count, to);
  }
}

Status convert_number(const Array& array, int64_t count, int exponent, std::vector<std::byte>& to) {
  switch (array.elements) {
    case Elements::kUint8:
      return convert_real<uint8_t>(array, count, exponent, to);
    case Elements::kInt16:
      return convert_real<int16_t>(array, count, exponent, to);
    case Elements::kInt32:
      return convert_real<int32_t>(array, count, exponent, to);
    case Elements::kInt64:
      return convert_real<int64_t>(array, count, exponent, to);
    case Elements::kFloat:
      return convert_real<float>(array, count, exponent, to);
    default:
      return convert_real<double>(array, count, exponent, to);
  }
}

bool is_whole(Elements elements) {
  return elements == Elements::kUint8 || elements == Elements::kInt16 ||
         elements == Elements::kInt32 || elements == Elements::kInt64;
}

// The element type that a network's input takes without a conversion.
Elements elements_of(const Value& input) {
  return input.element == Element::kIndex    ? Elements::kInt32
         : input.element == Element::kNumber ? Elements::kMantissa
                                             : Elements::kUint8;
}

Status convert(const Value& input, const Array& array, int64_t count, std::vector<std::byte>& to) {
  if (input.element == Element::kNumber) return convert_number(array, count, input.exponent, to);
  const bool is_index = input.element == Element::kIndex;
  if (is_index && is_whole(array.elements)) return convert_index(array, count, to);
  return invalid_input("'" + array.name + "' has elements of " + name_of(array.elements) +
                       "; the network's input wants " +
                       (is_index ? "whole numbers: int32 (or uint8, int16, int64)" : "uint8"));
}

// Whether a node reads the input; with `needs_labels` losses are among them.
bool is_read(const Graph& network, int input, bool needs_labels) {
  for (int n = 0; n < static_cast<int>(network.nodes.size()); ++n) {
    const std::vector<int>& inputs = network.nodes[n].inputs;
    const bool reads = std::find(inputs.begin(), inputs.end(), input) != inputs.end();
    if (reads && (needs_labels || !network.is_loss(n))) return true;
  }
  return false;
}

}  // namespace

Status BoundArrays::bind(const Graph& network, const ArraySet& arrays, bool needs_labels) {
  count = arrays.count;
  size_t bound = 0;
  converted.resize(network.inputs.size());
  if (count < 0) return invalid_input("the arrays have a negative count");
  for (size_t i = 0; i < network.inputs.size(); ++i) {
    const Value& input = network.values[network.inputs[i]];
    const auto array = std::find_if(arrays.arrays.begin(), arrays.arrays.end(),
                                    [&](const Array& a) { return a.name == input.name; });
    if (array == arrays.arrays.end()) {
      if (!is_read(network, network.inputs[i], needs_labels)) continue;
      return invalid_input("the network wants '" + input.name + "' " + to_string(input.shape) +
                           ", and there is no array of that name");
    }
    if (!is_of(array->dims, input.shape)) {
      return invalid_input("'" + input.name + "' is " + text_of(array->dims) +
                           " for each example; the network wants " + to_string(input.shape));
    }
    if (array->data == nullptr && count > 0) {
      return invalid_input("'" + input.name + "' has no data");
    }
    const void* from = array->data;
    if (array->elements != elements_of(input)) {
      MANTISSA_RETURN_IF_ERROR(convert(input, *array, count * input.shape.count(), converted[i]));
      from = converted[i].data();
    }
    if (bound == specs.size()) {
      specs.emplace_back();
      data.push_back(nullptr);
    }
    if (specs[bound].name != input.name) specs[bound] = {input.name, input.type, input.shape};
    data[bound++] = from;
  }
  specs.resize(bound);
  data.resize(bound);
  return {};
}

Examples BoundArrays::examples() const {
  std::vector<ExampleArray> arrays;
  for (size_t i = 0; i < specs.size(); ++i) arrays.push_back({specs[i], data[i]});
  return array_examples(count, std::move(arrays));
}

}  // namespace mantissa

#include "train/state_file.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "numerics/exponent.h"

namespace mantissa {
namespace {

std::vector<int64_t> dims_of(const Shape& shape) {
  return {shape.dims.begin(), shape.dims.begin() + shape.rank};
}

// Kernels rely on symmetric mantissas (the most negative number must not come in from a file) and
// on channels' exponents at most kMostChannelShift below their tensor's.
bool mantissas_in_range(const StateTensor& tensor, std::span<const std::byte> data) {
  const bool channel_exponents = tensor.name.ends_with(".channel_exponents");
  if (tensor.type == DataType::kInt8) {
    const int64_t limit = mantissa_limit(tensor.bits > 0 ? tensor.bits : 8);
    for (const std::byte byte : data) {
      const auto value = static_cast<int8_t>(byte);
      if (value < -limit || value > limit) return false;
      if (channel_exponents && (value > 0 || value < -kMostChannelShift)) return false;
    }
  }
  if (tensor.type == DataType::kFloat) {
    for (size_t i = 0; i + 3 < data.size(); i += 4) {
      float value = 0;
      std::memcpy(&value, data.data() + i, sizeof value);
      if (!std::isfinite(value)) return false;
    }
  }
  if (tensor.type == DataType::kInt32) {
    for (size_t i = 0; i + 3 < data.size(); i += 4) {
      int32_t value = 0;
      std::memcpy(&value, data.data() + i, sizeof value);
      if (value == INT32_MIN) return false;
    }
  }
  const bool mantissas = !tensor.name.ends_with("exponent") && tensor.name != "exponents" &&
                         tensor.name != "predictors";
  if (tensor.type == DataType::kInt16 && mantissas) {
    const int64_t limit = mantissa_limit(tensor.bits > 0 ? tensor.bits : 16);
    for (size_t i = 0; i + 1 < data.size(); i += 2) {
      int16_t value = 0;
      std::memcpy(&value, data.data() + i, sizeof value);
      if (value < -limit || value > limit) return false;
    }
  }
  return true;
}

// Lazy accumulators are at most half a unit of their weight.
bool accumulator_in_range(std::span<const std::byte> data, int lazy_shift) {
  const int32_t limit = lazy_shift == 0 ? 0 : int32_t{1} << (lazy_shift - 1);
  for (size_t i = 0; i + 1 < data.size(); i += 2) {
    int16_t value = 0;
    std::memcpy(&value, data.data() + i, sizeof value);
    if (value > limit || value < -limit) return false;
  }
  return true;
}

// Roots of Adam's second moments: little-endian int16 without a sign.
bool has_no_sign(std::span<const std::byte> data) {
  for (size_t i = 1; i < data.size(); i += 2) {
    if ((data[i] & std::byte{0x80}) != std::byte{0}) return false;
  }
  return true;
}

Status check(const std::filesystem::path& path, const StateTensor& expected,
             const SafetensorsTensor* found, int lazy_shift) {
  const std::string place = path.string() + ": tensor '" + expected.name + "' ";
  if (found == nullptr) return invalid_input(place + "is missing");
  if (found->dtype != data_type_name(expected.type) || found->shape != dims_of(expected.shape)) {
    return invalid_input(place + "has another type or shape than this network's");
  }
  if (!mantissas_in_range(expected, found->data) ||
      (expected.name.ends_with(".accumulator") && !accumulator_in_range(found->data, lazy_shift))) {
    return invalid_input(place + "has a number outside its range");
  }
  if (expected.name.ends_with(".second_moment_root") && !has_no_sign(found->data)) {
    return invalid_input(place + "has a negative root");
  }
  if (expected.type == DataType::kInt64) {  // offsets of scale_offset: as freezing writes them
    for (size_t i = 0; i + 7 < found->data.size(); i += 8) {
      int64_t offset = 0;
      std::memcpy(&offset, found->data.data() + i, sizeof offset);
      if (magnitude(offset) > (uint64_t{1} << 44)) {
        return invalid_input(place + "has an offset beyond 2^44");
      }
    }
  }
  if (expected.name.ends_with(".exponent") || expected.name == "exponents") {
    for (size_t i = 0; i + 1 < found->data.size(); i += 2) {
      int16_t exponent = 0;
      std::memcpy(&exponent, found->data.data() + i, sizeof exponent);
      if (!exponent_in_range(exponent)) {
        return invalid_input(place + "has an exponent outside -128..127");
      }
    }
  }
  return {};
}

}  // namespace

Status write_state(const std::filesystem::path& path,
                   const std::map<std::string, std::string>& metadata, const State& state) {
  std::vector<SafetensorsView> views;
  const auto& tensors = state.layout().tensors;
  views.reserve(tensors.size());
  for (int i = 0; i < static_cast<int>(tensors.size()); ++i) {
    views.push_back({tensors[i].name, data_type_name(tensors[i].type), dims_of(tensors[i].shape),
                     state.bytes(i)});
  }
  return write_safetensors(path, metadata, views);
}

Status read_state(const std::filesystem::path& path, const SafetensorsFile& file, State& state) {
  const auto& tensors = state.layout().tensors;
  std::vector<const SafetensorsTensor*> sources;
  for (const StateTensor& tensor : tensors) {
    sources.push_back(file.find(tensor.name));
    MANTISSA_RETURN_IF_ERROR(check(path, tensor, sources.back(), state.layout().lazy_shift));
  }
  if (file.tensors.size() != tensors.size()) {
    return invalid_input(path.string() + ": has tensors that this network does not have");
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::memcpy(state.bytes(static_cast<int>(i)).data(), sources[i]->data.data(),
                sources[i]->data.size());
  }
  return {};
}

}  // namespace mantissa

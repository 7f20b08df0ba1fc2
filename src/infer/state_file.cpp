#include "infer/state_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "numerics/exponent.h"
#include "runtime/weight_blocks.h"

namespace mantissa {
namespace {

// A bound for decided exponents and their statistics: wide values may lie outside -128..127.
constexpr int64_t kMostExponent = 1000;

bool contains(std::span<const int> list, int number) {
  return std::find(list.begin(), list.end(), number) != list.end();
}

// Whether each number that `data` holds, of type T, is accepted.
template <typename T, typename Accepts>
bool all(std::span<const std::byte> data, Accepts accepts) {
  for (size_t i = 0; i + sizeof(T) <= data.size(); i += sizeof(T)) {
    T value{};
    std::memcpy(&value, data.data() + i, sizeof value);
    if (!accepts(value)) return false;
  }
  return true;
}

template <typename T>
bool all_within(std::span<const std::byte> data, int64_t low, int64_t high) {
  return all<T>(data, [=](T value) { return low <= value && value <= high; });
}

template <typename T>
bool symmetric_mantissas(const StateTensor& tensor, std::span<const std::byte> data) {
  const int64_t limit = mantissa_limit(tensor.bits > 0 ? tensor.bits : int{8 * sizeof(T)});
  return all_within<T>(data, -limit, limit);
}

// Whether the tensor is the lazy accumulator of weights on a grid, which allows larger numbers in
// it (weight_grid.h).
bool waits_on_a_grid(const StateTensor& tensor, const StateLayout& layout) {
  return std::any_of(layout.parameters.begin(), layout.parameters.end(),
                     [&](const ParameterState& p) {
                       return p.accumulator >= 0 && &layout.tensors[p.accumulator] == &tensor &&
                              p.grid.bits > 0 && !p.grid.is_plain();
                     });
}

// Kernels rely on symmetric mantissas (the most negative number must not come in from a file) and
// on channels' exponents at most kMostChannelShift below their tensor's. Lazy accumulators are at
// most half a unit of their weight.
bool numbers_in_range(const StateTensor& tensor, std::span<const std::byte> data,
                      const StateLayout& layout) {
  const std::string& name = tensor.name;
  if (tensor.type == DataType::kInt8) {
    return name.ends_with(".channel_exponents") ? all_within<int8_t>(data, -kMostChannelShift, 0)
                                                : symmetric_mantissas<int8_t>(tensor, data);
  }
  if (tensor.type == DataType::kInt16) {
    if (name == "predictors" && layout.bits >= 0) {
      return all_within<int16_t>(data, -kMostExponent, kMostExponent);
    }
    if (name.ends_with("exponent") || name == "exponents" || name == "predictors") return true;
    if (name.ends_with(".accumulator")) {
      const int64_t unit = int64_t{1} << layout.lazy_shift;
      const int64_t limit = waits_on_a_grid(tensor, layout) ? unit - 1 : unit / 2;
      return all_within<int16_t>(data, -limit, limit);
    }
    return symmetric_mantissas<int16_t>(tensor, data);
  }
  if (tensor.type == DataType::kInt32) return all_within<int32_t>(data, -INT32_MAX, INT32_MAX);
  if (tensor.type == DataType::kFloat) {
    return all<float>(data, [](float value) { return std::isfinite(value); });
  }
  return true;
}

// Whether none of Adam's roots is negative: whole numbers, or real ones in fp32.
bool possible_roots(const StateTensor& tensor, std::span<const std::byte> data) {
  if (tensor.type == DataType::kFloat) return all<float>(data, [](float x) { return x >= 0; });
  return all_within<int16_t>(data, 0, INT16_MAX);
}

// Whether training can reach these counts of bits.
bool possible_counts(std::span<const std::byte> data) {
  constexpr int64_t kMostElements = int64_t{1} << 58;  // so that they can be added
  return all<BitStatistics>(data, [](const BitStatistics& s) {
    const auto is_count = [](int64_t n) { return 0 <= n && n <= kMostElements; };
    return is_count(s.too_large) && std::all_of(std::begin(s.fits), std::end(s.fits), is_count) &&
           (s.largest_exponent == kUnmeasured ||
            (-kMostExponent <= s.largest_exponent && s.largest_exponent <= kMostExponent));
  });
}

Status check(const std::filesystem::path& path, const StateTensor& expected,
             const SafetensorsTensor* found, const StateLayout& layout) {
  const std::string place = path.string() + ": tensor '" + expected.name + "' ";
  if (found == nullptr) return invalid_input(place + "is missing");
  if (found->dtype != data_type_name(expected.type) || found->shape != dims_of(expected.shape)) {
    return invalid_input(place + "has another type or shape than this network's");
  }
  if (!numbers_in_range(expected, found->data, layout)) {
    return invalid_input(place + "has a number outside its range");
  }
  if (expected.name.ends_with(".second_moment_root") && !possible_roots(expected, found->data)) {
    return invalid_input(place + "has a negative root");
  }
  constexpr int64_t kOffsetLimit = int64_t{1} << 44;  // of scale_offset, as freezing writes them
  if (expected.name == "bits") {
    if (!possible_counts(found->data)) return invalid_input(place + "has impossible counts");
  } else if (expected.type == DataType::kInt64 &&
             !all_within<int64_t>(found->data, -kOffsetLimit, kOffsetLimit)) {
    return invalid_input(place + "has an offset beyond 2^44");
  }
  if ((expected.name.ends_with(".exponent") || expected.name == "exponents") &&
      !all_within<int16_t>(found->data, kExponentMin, kExponentMax)) {
    return invalid_input(place + "has an exponent outside -128..127");
  }
  return {};
}

// Whether the weights on their own grids, and their accumulators, can come from splitting.
bool is_split(const State& state, const ParameterState& p) {
  const auto* const weights = state.data<int8_t>(p.mantissa);
  const auto* const waiting = p.accumulator < 0 ? nullptr : state.data<int16_t>(p.accumulator);
  const int shift = waiting == nullptr ? 0 : state.layout().lazy_shift;
  const int64_t count = state.layout().tensors[p.mantissa].shape.count();
  for (int64_t i = 0; i < count; ++i) {
    if (!p.grid.is_split(weights[i], waiting == nullptr ? 0 : waiting[i], shift)) return false;
  }
  return true;
}

}  // namespace

std::vector<SafetensorsView> state_views(const State& state, std::span<const int> left_out) {
  std::vector<SafetensorsView> views;
  const auto& tensors = state.layout().tensors;
  views.reserve(tensors.size());
  for (int i = 0; i < static_cast<int>(tensors.size()); ++i) {
    if (contains(left_out, i)) continue;
    views.push_back({tensors[i].name, data_type_name(tensors[i].type), dims_of(tensors[i].shape),
                     state.bytes(i)});
  }
  return views;
}

Status write_state(const std::filesystem::path& path,
                   const std::map<std::string, std::string>& metadata, const State& state) {
  return write_safetensors(path, metadata, state_views(state));
}

Status read_state(const std::filesystem::path& path, const SafetensorsFile& file, State& state,
                  std::span<const int> left_out) {
  const StateLayout& layout = state.layout();
  const auto& tensors = layout.tensors;
  std::vector<const SafetensorsTensor*> sources(tensors.size(), nullptr);
  for (int i = 0; i < std::ssize(tensors); ++i) {
    if (contains(left_out, i)) continue;
    sources[i] = file.find(tensors[i].name);
    MANTISSA_RETURN_IF_ERROR(check(path, tensors[i], sources[i], layout));
  }
  if (file.tensors.size() + left_out.size() != tensors.size()) {
    return invalid_input(path.string() + ": has tensors that this network does not have");
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (sources[i] == nullptr) continue;
    std::memcpy(state.bytes(static_cast<int>(i)).data(), sources[i]->data.data(),
                sources[i]->data.size());
  }
  for (const ParameterState& p : layout.parameters) {
    const bool is_own = p.grid.bits > 0 && !p.grid.is_plain() && !contains(left_out, p.mantissa);
    if (!is_own || is_split(state, p)) continue;
    return invalid_input(path.string() + ": tensor '" + tensors[p.mantissa].name +
                         "' has a number outside its range");
  }
  for (const ParameterState& p : layout.parameters) {
    const BlockKind kind = block_kind_of(tensors[p.mantissa]);
    if (kind == BlockKind::kNone || contains(left_out, p.mantissa)) continue;
    if (has_finite_scales(kind, state.bytes(p.mantissa)) && has_own_exponents(state, p)) continue;
    return invalid_input(path.string() + ": tensor '" + tensors[p.mantissa].name +
                         "' has a scale that is not finite, or exponents of other weights");
  }
  return {};
}

}  // namespace mantissa

#include "runtime/named_parameters.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string_view>

#include "numerics/exponent.h"
#include "numerics/rounding.h"
#include "runtime/set_numbers.h"
#include "runtime/weight_blocks.h"

namespace mantissa {
namespace {

constexpr int kMostLazyShift = 15;

template <typename T>
T number_at(std::span<const std::byte> bytes, int64_t i) {
  T number{};
  std::memcpy(&number, bytes.data() + i * static_cast<int64_t>(sizeof(T)), sizeof number);
  return number;
}

int64_t count_of(std::span<const std::byte> bytes, int64_t element) {
  return static_cast<int64_t>(bytes.size()) / element;
}

// The numbers of a source as real numbers, for set_numbers.
struct SourceNumbers {
  const NamedParameter& from;

  int64_t mantissa(int64_t i) const {
    return from.type == DataType::kInt8 ? number_at<int8_t>(from.numbers, i)
                                        : number_at<int16_t>(from.numbers, i);
  }
  int64_t waiting(int64_t i) const {
    return from.accumulator.empty() ? 0 : number_at<int16_t>(from.accumulator, i);
  }
  int64_t blocks() const { return count_of(from.exponents, sizeof(int16_t)); }
  int exponent(int64_t block) const { return number_at<int16_t>(from.exponents, block); }
  int64_t count() const { return from.shape.count(); }

  double operator()(int64_t i) const {
    if (from.type == DataType::kFloat) return number_at<float>(from.numbers, i);
    const int64_t value = lazy_value(mantissa(i), waiting(i), from.lazy_shift);
    return std::ldexp(static_cast<double>(value),
                      exponent(i / (count() / blocks())) - from.lazy_shift);
  }
  double bound() const { return largest_of(*this, 0, count()); }
};

bool is_mantissas(DataType type) { return type == DataType::kInt8 || type == DataType::kInt16; }

// Whether a source can become the parameter.
bool matches(const Parameter& parameter, const NamedParameter& from) {
  const bool is_statistic = parameter.storage == Storage::kReal;
  const bool same_kind = is_statistic ? from.type == DataType::kDouble
                                      : from.type == DataType::kFloat ||
                                            is_mantissas(from.type) ||
                                            from.blocks != BlockKind::kNone;
  return same_kind && from.shape == parameter.shape;
}

using ByName = std::map<std::string_view, const NamedParameter*>;

ByName by_name(std::span<const NamedParameter> source) {
  ByName names;
  for (const NamedParameter& parameter : source) names.emplace(parameter.name, &parameter);
  return names;
}

const NamedParameter* find(const ByName& names, const Parameter& parameter) {
  const auto found = names.find(parameter.name);
  if (found == names.end() || !matches(parameter, *found->second)) return nullptr;
  return found->second;
}

std::string described(const std::string& name, const Shape& shape) {
  return name + " " + to_string(shape);
}

Error wrong(const NamedParameter& from, const char* what) {
  return invalid_input("parameter '" + from.name + "' " + what);
}

Status check_mantissas(const NamedParameter& from) {
  const SourceNumbers numbers{from};
  const int64_t count = numbers.count(), blocks = numbers.blocks();
  if (blocks != 1 && (from.shape.rank == 0 || blocks != from.shape[0])) {
    return wrong(from, "has not one exponent, nor one for each channel");
  }
  for (int64_t block = 0; block < blocks; ++block) {
    if (!exponent_in_range(numbers.exponent(block))) {
      return wrong(from, "has an exponent outside -128..127");
    }
  }
  const int64_t limit = mantissa_limit(8 * static_cast<int>(element_bytes(from.type)));
  const bool waits = !from.accumulator.empty();
  const bool has_shift = 1 <= from.lazy_shift && from.lazy_shift <= kMostLazyShift;
  if (waits && (count_of(from.accumulator, sizeof(int16_t)) != count || !has_shift)) {
    return wrong(from, "has an accumulator of another size");
  }
  // Half a unit at most, except for weights on a grid whose V exceeds their rounding
  // (weight_grid.h).
  const int64_t unit = waits ? int64_t{1} << from.lazy_shift : 1;
  for (int64_t i = 0; i < count; ++i) {
    if (std::abs(numbers.mantissa(i)) > limit || std::abs(numbers.waiting(i)) >= unit) {
      return wrong(from, "has a number outside its range");
    }
  }
  return {};
}

template <typename T>
bool all_finite(std::span<const std::byte> numbers, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(number_at<T>(numbers, i))) return false;
  }
  return true;
}

}  // namespace

std::vector<int64_t> dims_in_file(const NamedParameter& parameter) {
  if (parameter.blocks == BlockKind::kNone) return dims_of(parameter.shape);
  return block_dims(parameter.blocks, parameter.shape[0], parameter.shape[1]);
}

NamedParameter parameter_in_file(std::string name, DataType type, std::span<const int64_t> dims,
                                 std::span<const std::byte> numbers) {
  NamedParameter parameter{.name = std::move(name), .type = type, .shape = {}, .numbers = numbers};
  parameter.blocks = block_kind_of(type, dims);
  if (parameter.blocks != BlockKind::kNone) {
    parameter.shape = Shape{dims[0], dims[1] * block_weights(parameter.blocks)};
    return parameter;
  }
  parameter.shape.rank = static_cast<int>(dims.size());
  std::copy(dims.begin(), dims.end(), parameter.shape.dims.begin());
  return parameter;
}

Status check_parameter(const NamedParameter& from) {
  const int64_t count = from.shape.count();
  if (from.blocks != BlockKind::kNone) {
    const int64_t blocks = count_of(from.numbers, block_bytes(from.blocks));
    if (blocks * block_weights(from.blocks) != count) {
      return wrong(from, "has not the blocks of its shape");
    }
    if (has_finite_scales(from.blocks, from.numbers)) return {};
    return wrong(from, "has a number that is not finite");
  }
  if (count_of(from.numbers, element_bytes(from.type)) != count) {
    return wrong(from, "has not the numbers of its shape");
  }
  if (is_mantissas(from.type)) return check_mantissas(from);
  const bool finite = from.type == DataType::kFloat ? all_finite<float>(from.numbers, count)
                                                    : all_finite<double>(from.numbers, count);
  return finite ? Status{} : wrong(from, "has a number that is not finite");
}

std::vector<double> real_numbers(const NamedParameter& parameter) {
  if (parameter.blocks != BlockKind::kNone) {
    return block_numbers(parameter.blocks, parameter.numbers);
  }
  const SourceNumbers numbers{parameter};
  std::vector<double> result(static_cast<size_t>(numbers.count()));
  for (int64_t i = 0; i < numbers.count(); ++i) {
    result[static_cast<size_t>(i)] =
        parameter.type == DataType::kDouble ? number_at<double>(parameter.numbers, i) : numbers(i);
  }
  return result;
}

namespace {

// Whether the parameter can have the source's own mantissas and exponents.
bool is_same_grid(const SourceNumbers& numbers, const ParameterState& to, const State& state) {
  const StateTensor& mantissas = state.layout().tensors[to.mantissa];
  if (mantissas.type != numbers.from.type) return false;
  if (state.layout().tensors[to.exponent].shape.count() != numbers.blocks()) return false;
  if (to.grid_exponent && numbers.exponent(0) != *to.grid_exponent) return false;
  const int64_t limit = mantissa_limit(mantissas.bits);
  const int64_t half_unit =
      numbers.from.accumulator.empty() ? 0 : int64_t{1} << (numbers.from.lazy_shift - 1);
  for (int64_t i = 0; i < numbers.count(); ++i) {
    if (std::abs(numbers.mantissa(i)) > limit) return false;
    if (std::abs(numbers.waiting(i)) > half_unit) return false;
  }
  return true;
}

// The same for weights on a grid that does more than round: V is split as the grid does it.
bool is_split_alike(const SourceNumbers& numbers, const ParameterState& to, const State& state) {
  const StateTensor& mantissas = state.layout().tensors[to.mantissa];
  if (mantissas.type != numbers.from.type || numbers.blocks() != 1) return false;
  if (numbers.exponent(0) != *to.grid_exponent) return false;
  const int shift = state.layout().lazy_shift;
  if (!numbers.from.accumulator.empty() && numbers.from.lazy_shift != shift) return false;
  for (int64_t i = 0; i < numbers.count(); ++i) {
    if (!to.grid.is_split(numbers.mantissa(i), numbers.waiting(i), shift)) return false;
  }
  return true;
}

// The accumulator at the state's shift. The weights stay: it is at most half a unit of them.
void take_accumulator(const SourceNumbers& numbers, int tensor, State& state) {
  const int to = state.layout().lazy_shift, from = numbers.from.lazy_shift;
  const int64_t half_unit = to == 0 ? 0 : int64_t{1} << (to - 1);
  auto* accumulator = state.data<int16_t>(tensor);
  for (int64_t i = 0; i < numbers.count(); ++i) {
    const auto moved = static_cast<int64_t>(
        std::nearbyint(std::ldexp(static_cast<double>(numbers.waiting(i)), to - from)));
    accumulator[i] = static_cast<int16_t>(std::clamp(moved, -half_unit, half_unit));
  }
}

Status take_floats(const SourceNumbers& numbers, float* floats) {
  for (int64_t i = 0; i < numbers.count(); ++i) {
    floats[i] = static_cast<float>(numbers(i));
    if (!std::isfinite(floats[i])) return wrong(numbers.from, "has a number beyond fp32");
  }
  return {};
}

void copy_bytes(std::span<const std::byte> from, std::span<std::byte> to) {
  std::copy(from.begin(), from.end(), to.begin());
}

// From numbers, or blocks of another kind.
Status take_into_blocks(const NamedParameter& from, BlockKind kind, const ParameterState& to,
                        State& state) {
  if (from.blocks == kind) {
    set_blocks(from.numbers, to, state);
    return {};
  }
  const std::vector<double> numbers = real_numbers(from);
  const bool fit = std::ranges::all_of(
      numbers, [](double number) { return std::abs(number) <= kLargestInBlocks; });
  if (!fit) return wrong(from, "has a number beyond the largest of blocks, 65504");
  set_blocks(packed_blocks(kind, numbers), to, state);
  return {};
}

Status take(const NamedParameter& from, const Format& format, const ParameterState& to,
            State& state) {
  MANTISSA_RETURN_IF_ERROR(check_parameter(from));
  const BlockKind kind = block_kind_of(state.layout().tensors[to.mantissa]);
  if (kind != BlockKind::kNone) return take_into_blocks(from, kind, to, state);
  if (from.blocks != BlockKind::kNone) {
    const std::vector<double> numbers = real_numbers(from);
    const std::vector<float> floats(numbers.begin(), numbers.end());
    return take({.name = from.name,
                 .type = DataType::kFloat,
                 .shape = from.shape,
                 .numbers = std::as_bytes(std::span(floats))},
                format, to, state);
  }
  if (from.type == DataType::kDouble) {
    copy_bytes(from.numbers, state.bytes(to.mantissa));
    return {};
  }
  const SourceNumbers numbers{from};
  const StateTensor& tensor = state.layout().tensors[to.mantissa];
  if (tensor.type == DataType::kFloat) return take_floats(numbers, state.data<float>(to.mantissa));
  const bool splits = to.grid.bits > 0 && !to.grid.is_plain();
  const bool is_same = is_mantissas(from.type) && (splits ? is_split_alike(numbers, to, state)
                                                          : is_same_grid(numbers, to, state));
  if (!is_same) {
    if (!to.grid_exponent && initial_exponent(numbers.bound(), tensor.bits) > kExponentMax) {
      return wrong(from, "has a number beyond the format's largest");
    }
    set_numbers(numbers, tensor.bits, format.initial_bounds, to, state, kMostChannelSpread);
    return {};
  }
  copy_bytes(from.numbers, state.bytes(to.mantissa));
  copy_bytes(from.exponents, state.bytes(to.exponent));
  if (to.accumulator < 0) return {};
  if (splits && !from.accumulator.empty()) {
    copy_bytes(from.accumulator, state.bytes(to.accumulator));
  } else {
    take_accumulator(numbers, to.accumulator, state);
  }
  return {};
}

// Names after a heading; of many the first ones.
std::string listed(const char* heading, const std::vector<std::string>& names) {
  constexpr size_t kMost = 8;
  std::string text;
  for (size_t i = 0; i < std::min(kMost, names.size()); ++i) {
    text += (i == 0 ? std::string("; ") + heading + ": " : ", ") + names[i];
  }
  if (names.size() > kMost) text += " and " + std::to_string(names.size() - kMost) + " more";
  return text;
}

}  // namespace

std::string to_string(const TakenParameters& parameters, const std::string& source) {
  const size_t all = parameters.taken.size() + parameters.initial.size();
  return "taken: " + std::to_string(parameters.taken.size()) + " of " + std::to_string(all) +
         " parameters from " + source + listed("initial", parameters.initial) +
         listed("left over", parameters.left_over);
}

std::vector<NamedParameter> named_parameters(const Graph& graph, const State& state) {
  const StateLayout& layout = state.layout();
  std::vector<NamedParameter> list;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const ParameterState& tensors = layout.parameters[i];
    const StateTensor& numbers = layout.tensors[tensors.mantissa];
    NamedParameter parameter{.name = graph.parameters[i].name,
                             .type = numbers.type,
                             .shape = graph.parameters[i].shape,
                             .numbers = state.bytes(tensors.mantissa)};
    parameter.blocks = graph.parameters[i].blocks;
    if (tensors.exponent >= 0) parameter.exponents = state.bytes(tensors.exponent);
    if (tensors.accumulator >= 0 && layout.lazy_shift > 0) {
      parameter.accumulator = state.bytes(tensors.accumulator);
      parameter.lazy_shift = layout.lazy_shift;
    }
    list.push_back(std::move(parameter));
  }
  return list;
}

TakenParameters match_parameters(const Graph& graph, std::span<const NamedParameter> source) {
  TakenParameters result;
  ByName names = by_name(source);
  for (const Parameter& parameter : graph.parameters) {
    const bool is_taken = find(names, parameter) != nullptr;
    (is_taken ? result.taken : result.initial)
        .push_back(described(parameter.name, parameter.shape));
    if (is_taken) names.erase(parameter.name);
  }
  for (const NamedParameter& parameter : source) {
    const auto rest = names.find(parameter.name);
    if (rest == names.end() || rest->second != &parameter) continue;
    result.left_over.push_back(described(parameter.name, parameter.shape));
  }
  return result;
}

Result<TakenParameters> take_named_parameters(const Graph& graph, const Format& format,
                                              std::span<const NamedParameter> source,
                                              State& state) {
  return take_named_parameters(
      graph, format, source, [&](size_t i) -> Result<NamedParameter> { return source[i]; }, state);
}

Result<TakenParameters> take_named_parameters(const Graph& graph, const Format& format,
                                              std::span<const NamedParameter> source,
                                              const LoadParameter& load, State& state) {
  const ByName names = by_name(source);
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const NamedParameter* from = find(names, graph.parameters[i]);
    if (from == nullptr) continue;
    MANTISSA_ASSIGN(const NamedParameter loaded, load(static_cast<size_t>(from - source.data())));
    MANTISSA_RETURN_IF_ERROR(take(loaded, format, state.layout().parameters[i], state));
  }
  return match_parameters(graph, source);
}

std::vector<bool> taken_parameters(const Graph& graph, std::span<const NamedParameter> source) {
  const ByName names = by_name(source);
  std::vector<bool> taken;
  for (const Parameter& parameter : graph.parameters) {
    taken.push_back(find(names, parameter) != nullptr);
  }
  return taken;
}

}  // namespace mantissa

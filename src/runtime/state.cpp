#include "runtime/state.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/hash.h"
#include "base/random.h"
#include "runtime/set_numbers.h"
#include "runtime/weight_blocks.h"

namespace mantissa {
namespace {

static_assert(std::endian::native == std::endian::little,
              "hashes and files are over little-endian bytes");

// Uniform in [-bound, bound], from the bits of (seed, parameter, element).
double uniform(uint64_t seed, uint32_t parameter, int64_t element, double bound) {
  const uint64_t bits =
      random_bits(seed, RandomStream::kInitialise, parameter, static_cast<uint64_t>(element));
  const double unit = static_cast<double>(bits >> 11) * 0x1p-53;  // [0, 1)
  return (2 * unit - 1) * bound;
}

double initial_value(const Parameter& parameter, uint64_t seed, uint32_t index, int64_t element) {
  const auto fan_in = static_cast<double>(parameter.fan_in);
  switch (parameter.initialiser) {
    case Initialiser::kZero:
      return 0;
    case Initialiser::kOne:
      return 1;
    case Initialiser::kQuarter:
      return 0.25;
    case Initialiser::kHeUniform:
      return uniform(seed, index, element, std::sqrt(6 / fan_in));
    case Initialiser::kFanInUniform:
      return uniform(seed, index, element, std::sqrt(1 / fan_in));
  }
  return 0;
}

// The initialiser's largest possible value.
double initial_bound(const Parameter& parameter) {
  const auto fan_in = static_cast<double>(parameter.fan_in);
  if (parameter.initialiser == Initialiser::kOne) return 1;
  if (parameter.initialiser == Initialiser::kQuarter) return 0.25;
  if (parameter.initialiser == Initialiser::kHeUniform) return std::sqrt(6 / fan_in);
  if (parameter.initialiser == Initialiser::kFanInUniform) return std::sqrt(1 / fan_in);
  return 0;
}

// On a fixed grid, initial weights reach from end to end. On other grids the grid would follow
// them.
double initial_factor(const Parameter& parameter) {
  const double bound = initial_bound(parameter);
  if (parameter.grid.bits == 0 || bound == 0) return 1;
  const auto largest = static_cast<double>(std::max(-parameter.grid.low(), parameter.grid.high()));
  return std::ldexp(largest, parameter.grid_exponent) / bound;
}

// The initial numbers of a parameter: element i, and a bound of all magnitudes.
struct InitialNumbers {
  const Parameter& parameter;
  uint64_t seed;
  uint32_t index;
  double factor = initial_factor(parameter);
  double operator()(int64_t i) const { return factor * initial_value(parameter, seed, index, i); }
  double bound() const { return factor * initial_bound(parameter); }
};

struct FloatNumbers {
  std::span<const float> numbers;
  double operator()(int64_t i) const { return numbers[static_cast<size_t>(i)]; }
  double bound() const { return largest_of(*this, 0, static_cast<int64_t>(numbers.size())); }
};

void initialise_float(const Parameter& parameter, uint64_t seed, uint32_t index, float* values) {
  for (int64_t i = 0; i < parameter.shape.count(); ++i) {
    values[i] = static_cast<float>(initial_value(parameter, seed, index, i));
  }
}

void initialise_blocks(const Parameter& parameter, const InitialNumbers& numbers,
                       const ParameterState& tensors, State& state) {
  std::vector<double> row(static_cast<size_t>(parameter.shape.last()));
  auto to = state.bytes(tensors.mantissa).begin();
  for (int64_t at = 0; at < parameter.shape.count();) {
    for (double& number : row) number = numbers(at++);
    to = std::ranges::copy(packed_blocks(parameter.blocks, row), to).out;
  }
  set_row_exponents(tensors, state);
}

void initialise_optimizer(const ParameterState& tensors, State& state) {
  *state.data<int16_t>(tensors.gradient_exponent) = kGradientAccumulatorStart;
  for (const MomentState& moment : tensors.moments) {
    if (moment.exponent < 0) continue;
    *state.data<int16_t>(moment.exponent) = static_cast<int16_t>(moment.first_exponent);
  }
}

}  // namespace

Result<State> State::create(StateLayout layout) {
  MANTISSA_ASSIGN(AlignedMemory memory,
                  AlignedMemory::create(layout.bytes, "weights and other state"));
  State state(std::move(layout), memory.span());
  state.own_ = std::move(memory);
  return state;
}

State::State(StateLayout layout, std::span<std::byte> memory)
    : layout_(std::move(layout)), memory_(memory.first(static_cast<size_t>(layout_.bytes))) {
  std::memset(memory_.data(), 0, memory_.size());
}

std::span<std::byte> State::bytes(int tensor) {
  const StateTensor& t = layout_.tensors[tensor];
  return memory_.subspan(static_cast<size_t>(t.offset), static_cast<size_t>(t.bytes()));
}

std::span<const std::byte> State::bytes(int tensor) const {
  const StateTensor& t = layout_.tensors[tensor];
  return memory_.subspan(static_cast<size_t>(t.offset), static_cast<size_t>(t.bytes()));
}

std::string State::sha256(StateGroup last) const {
  Sha256 hash;
  for (int i = 0; i < static_cast<int>(layout_.tensors.size()); ++i) {
    const StateTensor& tensor = layout_.tensors[i];
    if (tensor.group > last) continue;
    hash.update(tensor.name + ":" + data_type_name(tensor.type) + ":" +
                std::to_string(tensor.bytes()) + "\n");
    hash.update(bytes(i));
  }
  return hash.hex_digest();
}

namespace {

// Sets the initial numbers of a parameter.
void initialise_parameter(const Parameter& parameter, const Format& format, uint64_t seed,
                          uint32_t index, const ParameterState& tensors, State& state) {
  const StateTensor& tensor = state.layout().tensors[tensors.mantissa];
  if (parameter.storage == Storage::kReal) {
    auto* numbers = state.data<double>(tensors.mantissa);
    const double start = parameter.initialiser == Initialiser::kOne ? 1 : 0;
    std::fill_n(numbers, parameter.shape.count(), start);
  } else if (parameter.storage == Storage::kBlocks) {
    initialise_blocks(parameter, {parameter, seed, index}, tensors, state);
  } else if (tensor.type == DataType::kFloat) {
    initialise_float(parameter, seed, index, state.data<float>(tensors.mantissa));
  } else {
    set_numbers(InitialNumbers{parameter, seed, index}, tensor.bits, format.initial_bounds, tensors,
                state);
  }
}

// Whether the optimiser has integers beside a parameter.
bool has_integer_optimizer(const Parameter& parameter, const StateTensor& tensor) {
  return parameter.trained && parameter.storage != Storage::kReal &&
         parameter.storage != Storage::kBlocks && tensor.type != DataType::kFloat;
}

}  // namespace

void initialise(const Graph& graph, const Format& format, uint64_t seed, State& state,
                const std::vector<bool>& taken) {
  const StateLayout& layout = state.layout();
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const Parameter& parameter = graph.parameters[i];
    const ParameterState& tensors = layout.parameters[i];
    if (taken.empty() || !taken[i]) {
      initialise_parameter(parameter, format, seed, static_cast<uint32_t>(i), tensors, state);
    }
    if (has_integer_optimizer(parameter, layout.tensors[tensors.mantissa])) {
      initialise_optimizer(tensors, state);
    }
  }
  if (layout.predictors < 0) return;
  const int64_t predictors = layout.tensors[layout.predictors].shape.count();
  std::fill_n(state.data<int16_t>(layout.predictors), predictors,
              format.is_dynamic() ? static_cast<int16_t>(format.start_exponent) : kUnmeasured);
  if (layout.bits < 0) return;
  std::fill_n(state.data<BitStatistics>(layout.bits), predictors, BitStatistics{});
}

void take_parameters(const Graph& graph, const Format& format, const State& floats, State& state) {
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const Parameter& parameter = graph.parameters[i];
    const ParameterState& tensors = state.layout().parameters[i];
    const int from = floats.layout().parameters[i].mantissa;
    const auto count = static_cast<size_t>(parameter.shape.count());
    if (parameter.storage != Storage::kReal && !parameter.trained) continue;
    if (parameter.storage != Storage::kReal) {
      set_numbers(FloatNumbers{{floats.data<float>(from), count}},
                  state.layout().tensors[tensors.mantissa].bits, format.initial_bounds, tensors,
                  state);
    } else {
      std::copy_n(floats.data<double>(from), count, state.data<double>(tensors.mantissa));
    }
  }
}

namespace {

struct DoubleNumbers {
  std::span<const double> numbers;
  double operator()(int64_t i) const { return numbers[static_cast<size_t>(i)]; }
  double bound() const { return largest_of(*this, 0, static_cast<int64_t>(numbers.size())); }
};

void clear_moments(const ParameterState& tensors, State& state) {
  for (const MomentState& moment : tensors.moments) {
    if (moment.mantissa < 0) continue;
    const std::span<std::byte> bytes = state.bytes(moment.mantissa);
    std::memset(bytes.data(), 0, bytes.size());
  }
}

}  // namespace

void set_parameter(const Graph& graph, int parameter, std::span<const double> numbers,
                   State& state) {
  const ParameterState& tensors = state.layout().parameters[parameter];
  const StateTensor& tensor = state.layout().tensors[tensors.mantissa];
  clear_moments(tensors, state);
  if (tensor.type == DataType::kDouble) {
    std::copy(numbers.begin(), numbers.end(), state.data<double>(tensors.mantissa));
  } else if (tensor.type == DataType::kFloat) {
    std::transform(numbers.begin(), numbers.end(), state.data<float>(tensors.mantissa),
                   [](double number) { return static_cast<float>(number); });
  } else if (const BlockKind kind = block_kind_of(tensor); kind != BlockKind::kNone) {
    set_blocks(packed_blocks(kind, numbers), tensors, state);
  } else {
    set_numbers(DoubleNumbers{numbers}, tensor.bits, false, tensors, state);
    if (graph.parameters[parameter].trained) initialise_optimizer(tensors, state);
  }
}

std::vector<double> parameter_numbers(const State& state, int parameter) {
  const ParameterState& tensors = state.layout().parameters[parameter];
  const StateTensor& tensor = state.layout().tensors[tensors.mantissa];
  if (const BlockKind kind = block_kind_of(tensor); kind != BlockKind::kNone) {
    return block_numbers(kind, state.bytes(tensors.mantissa));
  }
  std::vector<double> numbers(static_cast<size_t>(tensor.shape.count()));
  const auto read = [&](const auto* from) {
    std::transform(from, from + numbers.size(), numbers.begin(),
                   [](auto number) { return static_cast<double>(number); });
  };
  if (tensor.type == DataType::kDouble) read(state.data<double>(tensors.mantissa));
  if (tensor.type == DataType::kFloat) read(state.data<float>(tensors.mantissa));
  if (tensors.exponent < 0) return numbers;
  tensor.type == DataType::kInt8 ? read(state.data<int8_t>(tensors.mantissa))
                                 : read(state.data<int16_t>(tensors.mantissa));
  const auto blocks = static_cast<size_t>(state.layout().tensors[tensors.exponent].shape.count());
  for (size_t i = 0; i < numbers.size(); ++i) {
    const int exponent = state.data<int16_t>(tensors.exponent)[i * blocks / numbers.size()];
    numbers[i] = std::ldexp(numbers[i], exponent);
  }
  return numbers;
}

}  // namespace mantissa

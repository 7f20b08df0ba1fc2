// Recurrent layers over whole sequences: rnn, lstm and gru. The input's part of all
// pre-activations, x W^T + b, comes from a linear layer before; here are the recurrent weights and
// the steps, one after the other, sequences side by side. Source: METHODS, "Exact non-linear
// functions in integers"; fixed points in ops/recurrent_cells.h and docs/operators.md.
//
// Each backward phase goes back through time by itself: the same gradients in both.
#include <array>
#include <atomic>
#include <string>
#include <type_traits>

#include "kernels/kernel_table.h"
#include "kernels/parallel_ranges.h"
#include "numerics/exponent.h"
#include "ops/fp32/fp32.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/recurrent_cells.h"
#include "ops/room.h"
#include "ops/rows.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

constexpr AttributeSpec kLstmSchema[] = {flag("peepholes", false)};
// The input's part of the gates, and how many positions of each sequence are no padding.
constexpr Element kInputElements[] = {Element::kMantissa, Element::kIndex};
constexpr int kGradientBits = 15;  // of gradients that are multiplied, without the sign
constexpr int kShortBits = 7;      // of h where weights' gradients are summed, without the sign

template <typename Cell>
Result<Shape> infer(const Attributes&, std::span<const Shape> inputs) {
  constexpr int64_t kGates = Cell::kGates;
  const bool has_lengths = inputs.size() == 2;
  if ((inputs.size() != 1 && !has_lengths) || inputs[0].rank < 2 ||
      inputs[0].last() % kGates != 0) {
    return invalid_input("wants one [..., positions, " + std::to_string(kGates) +
                         " * C] input, the part of its gates that a linear layer computes, and "
                         "perhaps lengths");
  }
  if (has_lengths && (inputs[0].rank != 2 || inputs[1].rank != 0)) {
    return invalid_input("wants one length for an example's one sequence");
  }
  Shape output = inputs[0];
  output.dims[static_cast<size_t>(output.rank - 1)] /= kGates;
  if (output.last() <= kMostRowChannels / kGates) return output;
  return invalid_input("wants at most " + std::to_string(kMostRowChannels / kGates) + " channels");
}

template <typename Cell>
std::vector<Parameter> parameters(const Attributes& attributes, std::span<const Shape> inputs) {
  const int64_t channels = inputs[0].last() / Cell::kGates;
  std::vector<Parameter> all = {{.name = "weights",
                                 .shape = Shape{Cell::kGates * channels, channels},
                                 .initialiser = Initialiser::kFanInUniform,
                                 .fan_in = channels,
                                 .decays = true}};
  const auto small = [&](const char* name, const Shape& shape) {
    all.push_back({.name = name, .shape = shape, .storage = Storage::kMantissa16});
  };
  if constexpr (std::is_same_v<Cell, GruCell>) small("bias", Shape{channels});
  if constexpr (std::is_same_v<Cell, LstmCell>) {
    if (attributes.is_set("peepholes")) small("peepholes", Shape{3, channels});
  }
  return all;
}

struct Sizes {
  int64_t sequences, steps, channels, gates;  // gates: of all channels together
  Sizes(const Shape& output, int cell_gates)
      : steps(output[output.rank - 2]), channels(output.last()), gates(cell_gates * channels) {
    sequences = output.count() / (steps * channels);
  }
  int64_t rows() const { return sequences * steps; }
};

// What the backward pass finds again: h of each step and the records, sequence by sequence, and how
// many steps of each sequence are no padding.
struct Steps {
  int16_t *h, *records;
  int32_t* lengths;
  int64_t bytes;
  Steps(std::byte* base, const Sizes& s, int record) {
    Room room(base);
    h = room.take<int16_t>(s.rows() * s.channels);
    records = room.take<int16_t>(s.rows() * s.channels * record);
    lengths = room.take<int32_t>(s.sequences);
    bytes = room.bytes();
  }
};

// One thread's part of the forward pass.
struct ForwardRoom {
  int64_t *x, *s;
  int16_t* zeros;
  int64_t bytes;
  ForwardRoom(std::byte* base, const Sizes& sizes, int record) {
    Room room(base);
    x = room.take<int64_t>(sizes.gates);
    s = room.take<int64_t>(sizes.gates);
    zeros = room.take<int16_t>(sizes.channels * std::max(1, record));
    bytes = room.bytes();
  }
};

struct BackwardRoom {
  int64_t *grad_h, *carry_h, *carry_c, *grad_x, *grad_s, *sums;
  int16_t *short_s, *zeros;
  int64_t bytes;
  BackwardRoom(std::byte* base, const Sizes& s, int record) {
    Room room(base);
    for (int64_t** of_channels : {&grad_h, &carry_h, &carry_c, &sums}) {
      *of_channels = room.take<int64_t>(s.channels);
    }
    for (int64_t** of_gates : {&grad_x, &grad_s}) *of_gates = room.take<int64_t>(s.gates);
    short_s = room.take<int16_t>(s.gates);
    zeros = room.take<int16_t>(s.channels * std::max(1, record));
    bytes = room.bytes();
  }
};

// Behind the packed weights, the gradients of all pre-activations and, for the weights' gradients,
// the operands of their sums lie the rooms of the threads.
struct BackwardSpace {
  int16_t* weights;     // [channels, gates]
  int32_t* gradients;   // [rows, gates]
  int16_t* short_grad;  // [gates, rows]
  int16_t* short_h;     // [channels, rows]
  std::byte* rooms;
  int64_t bytes;
  BackwardSpace(std::byte* base, const Sizes& s, bool of_weights) {
    Room room(base);
    weights = room.take<int16_t>(s.channels * s.gates);
    gradients = room.take<int32_t>(s.rows() * s.gates);
    short_grad = room.take<int16_t>(of_weights ? s.rows() * s.gates : 0);
    short_h = room.take<int16_t>(of_weights ? s.rows() * s.channels : 0);
    bytes = room.bytes();
    rooms = base + bytes;
  }
};

struct ForwardSpace {
  int16_t* weights;  // [gates, channels]
  std::byte *steps, *rooms;
  int64_t bytes;
  ForwardSpace(std::byte* base, const Sizes& s, int record) {
    Room room(base);
    weights = room.take<int16_t>(s.channels * s.gates);
    steps = base + room.bytes();
    bytes = room.bytes() + Steps(nullptr, s, record).bytes;
    rooms = base + bytes;
  }
};

template <typename Cell>
OpMemory memory(const OpShapes& shapes, const PlanningContext& planning) {
  const Sizes s(shapes.output, Cell::kGates);
  const int64_t parts = std::min<int64_t>(planning.threads, kernels::kMaximumParts);
  const auto backward = [&](bool of_weights) -> PhaseMemory {
    const int64_t rooms = parts * BackwardRoom(nullptr, s, Cell::kRecord).bytes;
    return {.workspace_bytes = BackwardSpace(nullptr, s, of_weights).bytes + rooms};
  };
  return {.saved_bytes = Steps(nullptr, s, Cell::kRecord).bytes,
          .forward = {.workspace_bytes = ForwardSpace(nullptr, s, Cell::kRecord).bytes +
                                         parts * ForwardRoom(nullptr, s, Cell::kRecord).bytes},
          .backward_input = backward(false),
          .backward_weights = backward(true)};
}

Status check(const OpShapes& s) {
  if (s.parameter_grids.empty() || s.parameter_grids[0].bits <= 16) return {};
  return invalid_input("wants weights of at most 16 bits");
}

template <typename Cell>
Peepholes peepholes_of(const OpContext& c) {
  if (!std::is_same_v<Cell, LstmCell> || c.parameters.size() < 2) return {};
  const Tensor& tensor = c.parameters[1].mantissa;
  return {tensor.as<int16_t>(), *tensor.exponent};
}

// Calls function(sequence, room) for all sequences, each room one thread's.
template <typename RoomOf, typename Function>
void for_sequences(const OpContext& c, const Sizes& s, int record, std::byte* rooms,
                   const Function& function) {
  const int64_t room_bytes = RoomOf(nullptr, s, record).bytes;
  kernels::parallel_ranges(*c.kernel.pool, s.sequences, 1,
                           [&](int64_t begin, int64_t end, int64_t part) {
                             const RoomOf room(rooms + part * room_bytes, s, record);
                             std::fill_n(room.zeros, s.channels * std::max(1, record), int16_t{0});
                             for (int64_t i = begin; i < end; ++i) function(i, room);
                           });
}

int weight_bits(const Tensor& weights) { return weights.bits - 1; }

// The sums of a step's pre-activations: the input's, and the recurrent ones with GRU's bias.
template <typename Cell>
void step_sums(const OpContext& c, const Sizes& s, const int16_t* weights, int64_t row,
               const int16_t* h_before, const ForwardRoom& room) {
  const Tensor &input = c.inputs[0], &table = c.parameters[0].mantissa;
  const Mantissas in(input);
  for (int64_t k = 0; k < s.gates; ++k) {
    room.x[k] = rescale_rne(in[row * s.gates + k], -(*input.exponent + kSumFraction));
  }
  const int64_t block = kernels::block_of(weight_bits(table), kGateFraction);
  c.kernels->row_products->multiply({weights, h_before, s.gates, s.channels, block}, room.s);
  for (int64_t k = 0; k < s.gates; ++k) {
    const int exponent = table.block_exponent(k) - kGateFraction;
    room.s[k] = rescale_rne(room.s[k], -(exponent + kSumFraction));
  }
  if constexpr (std::is_same_v<Cell, GruCell>) {
    const Tensor& bias = c.parameters[1].mantissa;
    for (int64_t j = 0; j < s.channels; ++j) {
      room.s[2 * s.channels + j] +=
          rescale_rne(bias.as<int16_t>()[j], -(*bias.exponent + kSumFraction));
    }
  }
}

int32_t length_of(const OpContext& c, const Sizes& s, int64_t sequence) {
  const int64_t length = c.inputs.size() < 2 ? s.steps : c.inputs[1].as<int32_t>()[sequence];
  return static_cast<int32_t>(std::clamp<int64_t>(length, 0, s.steps));
}

// Padding has the state of the last step before it.
void carry_on(const Sizes& s, const CellStep& step, int record) {
  std::copy_n(step.h_before, s.channels, step.h);
  std::copy_n(step.before, s.channels * record, step.record);
}

template <typename Cell>
int64_t forward_sequence(const OpContext& c, const Sizes& s, const int16_t* weights,
                         const Steps& steps, int64_t sequence, const ForwardRoom& room) {
  int64_t clipped = 0;
  const int32_t length = steps.lengths[sequence] = length_of(c, s, sequence);
  CellStep step{.channels = s.channels,
                .x = room.x,
                .s = room.s,
                .h_before = room.zeros,
                .before = room.zeros,
                .peepholes = peepholes_of<Cell>(c)};
  for (int64_t t = 0; t < s.steps; ++t) {
    const int64_t row = sequence * s.steps + t;
    step.h = steps.h + row * s.channels;
    step.record = steps.records + row * s.channels * Cell::kRecord;
    if (t < length) {
      step_sums<Cell>(c, s, weights, row, step.h_before, room);
      clipped += Cell::forward(step);
    } else {
      carry_on(s, step, Cell::kRecord);
    }
    step.h_before = step.h;
    if (Cell::kRecord > 0) step.before = step.record;
  }
  return clipped;
}

template <typename Cell>
void forward(const OpContext& c) {
  const Sizes s(c.output.shape, Cell::kGates);
  const ForwardSpace space(c.workspace, s, Cell::kRecord);
  const Steps steps(c.saved != nullptr ? c.saved : space.steps, s, Cell::kRecord);
  const Mantissas weights(c.parameters[0].mantissa);
  for (int64_t i = 0; i < s.gates * s.channels; ++i) {
    space.weights[i] = static_cast<int16_t>(weights[i]);
  }
  std::atomic<int64_t> clipped = 0;
  for_sequences<ForwardRoom>(
      c, s, Cell::kRecord, space.rooms, [&](int64_t sequence, const ForwardRoom& room) {
        clipped += forward_sequence<Cell>(c, s, space.weights, steps, sequence, room);
      });
  write_wide(c, -kGateFraction, [&](int64_t i) -> int64_t { return steps.h[i]; });
  *c.output.saturated += clipped;
}

// Bits that gradients are shifted up by: then those of so few bits keep some behind the point.
int lift_of(const Tensor& grad_output) { return 21 - grad_output.bits; }

// Packs the weights' columns, all at the largest exponent of their rows.
void pack_columns(const Tensor& table, const Sizes& s, int16_t* to) {
  const Mantissas weights(table);
  for (int64_t k = 0; k < s.gates; ++k) {
    for (int64_t j = 0; j < s.channels; ++j) {
      to[j * s.gates + k] = static_cast<int16_t>(weights[k * s.channels + j]);
    }
  }
}

// The shift that brings numbers to so many bits besides the sign.
template <typename T>
int shift_to(int bits, const T* numbers, int64_t count) {
  uint64_t largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, magnitude(numbers[i]));
  return exact_shift(largest, bits + 1);
}

int16_t short_gradient(int64_t n, int shift) {
  return static_cast<int16_t>(
      saturate(shift_right_rne(n, shift), mantissa_limit(kGradientBits + 1)));
}

// Rounds numbers to kGradientBits; returns the shift that did it.
int shorten(const int64_t* from, int64_t count, int16_t* to) {
  const int shift = shift_to(kGradientBits, from, count);
  for (int64_t i = 0; i < count; ++i) {
    to[i] = short_gradient(from[i], shift);
  }
  return shift;
}

// carry_h += what the recurrent product hands back to the step before.
void add_recurrent(const OpContext& c, const Sizes& s, const int16_t* weights,
                   const BackwardRoom& room) {
  const Tensor& table = c.parameters[0].mantissa;
  const int largest = table.largest_exponent();
  for (int64_t k = 0; k < s.gates; ++k) {
    room.grad_s[k] = rescale_rne(room.grad_s[k], largest - table.block_exponent(k));
  }
  const int shift = shorten(room.grad_s, s.gates, room.short_s);
  const int64_t block = kernels::block_of(weight_bits(table), kGradientBits);
  c.kernels->row_products->multiply({weights, room.short_s, s.channels, s.gates, block}, room.sums);
  for (int64_t j = 0; j < s.channels; ++j) {
    room.carry_h[j] =
        clipped_gradient(room.carry_h[j] + rescale_rne(room.sums[j], -(largest + shift)));
  }
}

// The gradients of pre-activations, of the input's part or the recurrent one, at the exponent of
// grad_output less the lift.
template <typename Cell>
void backward_sequence(const OpContext& c, const Sizes& s, const Steps& steps,
                       const BackwardSpace& space, bool of_input, int64_t sequence,
                       const BackwardRoom& room) {
  const Mantissas grads(c.grad_output);
  const int lift = lift_of(c.grad_output);
  std::fill_n(room.carry_h, s.channels, int64_t{0});
  std::fill_n(room.carry_c, s.channels, int64_t{0});
  CellGradient step{.channels = s.channels,
                    .grad_h = room.grad_h,
                    .grad_x = room.grad_x,
                    .grad_s = room.grad_s,
                    .carry_h = room.carry_h,
                    .carry_c = room.carry_c,
                    .peepholes = peepholes_of<Cell>(c)};
  for (int64_t t = s.steps - 1; t >= 0; --t) {
    const int64_t row = sequence * s.steps + t;
    const auto record = [&](int64_t at) { return steps.records + at * s.channels * Cell::kRecord; };
    step.h = steps.h + row * s.channels;
    step.record = record(row);
    step.h_before = t > 0 ? step.h - s.channels : room.zeros;
    step.before = t > 0 && Cell::kRecord > 0 ? record(row - 1) : room.zeros;
    for (int64_t j = 0; j < s.channels; ++j) {
      room.grad_h[j] =
          clipped_gradient(room.carry_h[j] + rescale_rne(grads[row * s.channels + j], -lift));
    }
    if (t >= steps.lengths[sequence]) {  // the gradient belongs to the step before
      std::copy_n(room.grad_h, s.channels, room.carry_h);
      std::fill_n(space.gradients + row * s.gates, s.gates, 0);
      continue;
    }
    Cell::backward(step);
    const int64_t* wanted = of_input ? room.grad_x : room.grad_s;
    for (int64_t k = 0; k < s.gates; ++k) {
      space.gradients[row * s.gates + k] = static_cast<int32_t>(wanted[k]);
    }
    if (t > 0) add_recurrent(c, s, space.weights, room);
  }
}

template <typename Cell>
BackwardSpace go_back(const OpContext& c, const Sizes& s, const Steps& steps, bool of_input) {
  const BackwardSpace space(c.workspace, s, !of_input);
  pack_columns(c.parameters[0].mantissa, s, space.weights);
  for_sequences<BackwardRoom>(
      c, s, Cell::kRecord, space.rooms, [&](int64_t sequence, const BackwardRoom& room) {
        backward_sequence<Cell>(c, s, steps, space, of_input, sequence, room);
      });
  return space;
}

template <typename Cell>
void backward_input(const OpContext& c) {
  const Sizes s(c.grad_output.shape, Cell::kGates);
  const Steps steps(c.saved, s, Cell::kRecord);
  const BackwardSpace space = go_back<Cell>(c, s, steps, true);
  const Tensor& to = c.grad_inputs[0];
  narrow_gradient(c, to, *c.grad_output.exponent - lift_of(c.grad_output), [&](int shift) {
    return narrow_elements(c, to, true, shift,
                           [&](int64_t i) -> int64_t { return space.gradients[i]; });
  });
}

// The shifts of the two operands of the weights' gradients.
struct SumShifts {
  int gradients, h;
};

// Writes the operands, with the rows of the batch side by side.
SumShifts prepare_sums(const Sizes& s, const Steps& steps, const BackwardSpace& space) {
  const SumShifts shifts = {shift_to(kGradientBits, space.gradients, s.rows() * s.gates),
                            shift_to(kShortBits, steps.h, s.rows() * s.channels)};
  for (int64_t row = 0; row < s.rows(); ++row) {
    for (int64_t k = 0; k < s.gates; ++k) {
      space.short_grad[k * s.rows() + row] =
          short_gradient(space.gradients[row * s.gates + k], shifts.gradients);
    }
    const bool is_first = row % s.steps == 0;
    for (int64_t j = 0; j < s.channels; ++j) {
      const int64_t before = is_first ? 0 : steps.h[(row - 1) * s.channels + j];
      space.short_h[j * s.rows() + row] = static_cast<int16_t>(
          saturate(shift_right_rne(before, shifts.h), mantissa_limit(kShortBits + 1)));
    }
  }
  return shifts;
}

void add_sum(const Tensor& gradient, int64_t at, int64_t sum, int exponent) {
  int64_t& total = gradient.as<int64_t>()[at];
  total = accumulate(total, rescale_rne(sum, *gradient.exponent - exponent));
}

// Sums over the batch of gradient times `with(row, j)`, for one gate and all channels.
template <typename With>
void add_diagonal(const Sizes& s, const BackwardSpace& space, const Tensor& gradient, int64_t at,
                  int gate, int exponent, const With& with) {
  for (int64_t j = 0; j < s.channels; ++j) {
    const int16_t* of_gate = space.short_grad + (gate * s.channels + j) * s.rows();
    int64_t sum = 0;
    for (int64_t row = 0; row < s.rows(); ++row) sum += of_gate[row] * int64_t{with(row, j)};
    add_sum(gradient, at + j, sum, exponent);
  }
}

template <typename Cell>
void small_parameters(const OpContext& c, const Sizes& s, const Steps& steps,
                      const BackwardSpace& space, int exponent) {
  if (c.parameters.size() < 2 || c.parameters[1].gradient.empty()) return;
  const Tensor& gradient = c.parameters[1].gradient;
  if constexpr (std::is_same_v<Cell, GruCell>) {
    add_diagonal(s, space, gradient, 0, 2, exponent, [](int64_t, int64_t) { return 1; });
  }
  if constexpr (std::is_same_v<Cell, LstmCell>) {
    const auto cell = [&](int64_t row, int64_t j) {
      return int64_t{steps.records[(row * Cell::kRecord + 4) * s.channels + j]};
    };
    const auto cell_before = [&](int64_t row, int64_t j) {
      return row % s.steps == 0 ? 0 : cell(row - 1, j);
    };
    const int of_cells = exponent - kPreFraction;
    add_diagonal(s, space, gradient, 0, 0, of_cells, cell_before);
    add_diagonal(s, space, gradient, s.channels, 1, of_cells, cell_before);
    add_diagonal(s, space, gradient, 2 * s.channels, 3, of_cells, cell);
  }
}

template <typename Cell>
void backward_weights(const OpContext& c) {
  const Sizes s(c.grad_output.shape, Cell::kGates);
  const Steps steps(c.saved, s, Cell::kRecord);
  const BackwardSpace space = go_back<Cell>(c, s, steps, false);
  const SumShifts shifts = prepare_sums(s, steps, space);
  const int exponent = *c.grad_output.exponent - lift_of(c.grad_output) + shifts.gradients;
  small_parameters<Cell>(c, s, steps, space, exponent);
  const Tensor& gradient = c.parameters[0].gradient;
  if (gradient.empty()) return;
  const int64_t block = kernels::block_of(kShortBits, kGradientBits);
  kernels::parallel_ranges(*c.kernel.pool, s.gates, 1, [&](int64_t begin, int64_t end, int64_t) {
    std::array<int64_t, kMostRowChannels> sums;
    for (int64_t k = begin; k < end; ++k) {
      c.kernels->row_products->multiply(
          {space.short_h, space.short_grad + k * s.rows(), s.channels, s.rows(), block},
          sums.data());
      for (int64_t j = 0; j < s.channels; ++j) {
        add_sum(gradient, k * s.channels + j, sums[j], exponent - kGateFraction + shifts.h);
      }
    }
  });
}

template <typename Cell>
int64_t multiply_adds(const OpShapes& shapes) {
  const Sizes s(shapes.output, Cell::kGates);
  return s.rows() * s.gates * s.channels;
}

template <typename Cell>
constexpr Op row(const char* name, AttributeSchema schema, const OpFunctions* fp32) {
  return {.name = name,
          .attributes = schema,
          .infer_shape = infer<Cell>,
          .input_elements = kInputElements,
          .parameters = parameters<Cell>,
          .memory = memory<Cell>,
          .multiply_adds = multiply_adds<Cell>,
          .check = check,
          .forward = forward<Cell>,
          .backward_input = backward_input<Cell>,
          .backward_weights = backward_weights<Cell>,
          .kernel = kernel_name<&kernels::KernelTable::row_products>,
          .fp32 = fp32};
}

}  // namespace

const Op kRnn = row<RnnCell>("rnn", {}, &fp32::kRnn);
const Op kLstm = row<LstmCell>("lstm", kLstmSchema, &fp32::kLstm);
const Op kGru = row<GruCell>("gru", {}, &fp32::kGru);

}  // namespace mantissa::ops

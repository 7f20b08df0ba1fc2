// Recurrent layers over whole sequences: rnn, lstm and gru. The input's part of all
// pre-activations, x W^T + b, comes from a linear layer before; here are the recurrent weights and
// the steps, one after the other, sequences side by side. Source: METHODS, "Exact non-linear
// functions in integers"; fixed points in ops/recurrent_cells.h and docs/operators.md.
#include <atomic>
#include <string>

#include "kernels/kernel_table.h"
#include "ops/fp32/fp32.h"
#include "ops/kernel_name.h"
#include "ops/ops.h"
#include "ops/recurrent_gradient.h"

namespace mantissa::ops {
namespace {

constexpr AttributeSpec kLstmSchema[] = {flag("peepholes", false)};
// The input's part of the gates, and how many positions of each sequence are no padding.
constexpr Element kInputElements[] = {Element::kMantissa, Element::kIndex};

template <typename Cell>
Result<Shape> infer(const Attributes&, std::span<const Shape> inputs) {
  constexpr int64_t kGates = Cell::kGates;
  const size_t with_start = std::is_same_v<Cell, LstmCell> ? 4 : 3;
  if ((inputs.size() != 1 && inputs.size() != 2 && inputs.size() != with_start) ||
      inputs[0].rank < 2 || inputs[0].last() % kGates != 0) {
    return invalid_input("wants one [..., positions, " + std::to_string(kGates) +
                         " * C] input, the part of its gates that a linear layer computes, and "
                         "perhaps lengths, and with these perhaps h at the start" +
                         (with_start == 4 ? " and the cell" : ""));
  }
  if (inputs.size() > 1 && (inputs[0].rank != 2 || inputs[kLengthsInput].rank != 0)) {
    return invalid_input("wants one length for an example's one sequence");
  }
  for (size_t i = kStartInput; i < inputs.size(); ++i) {
    const Shape state{inputs[0].last() / kGates};
    if (inputs[i] != state) {
      return invalid_input("wants a state of " + to_string(state) + " at the start, got " +
                           to_string(inputs[i]));
    }
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

template <typename Cell>
OpMemory memory(const OpShapes& shapes, const PlanningContext& planning) {
  const Sizes s(shapes.output, Cell::kGates);
  const int64_t parts = std::min<int64_t>(planning.threads, kernels::kMaximumParts);
  const auto backward = [&](bool of_weights) -> PhaseMemory {
    const int64_t rooms = parts * BackwardRoom(nullptr, s).bytes;
    return {.workspace_bytes = BackwardSpace(nullptr, s, of_weights).bytes + rooms};
  };
  const int64_t state = s.channels * (1 + Cell::kRecord) * int64_t{sizeof(int16_t)};
  return {.saved_bytes = Steps(nullptr, s, Cell::kRecord).bytes,
          .cache_bytes = shapes.cached_positions > 0 ? state : 0,
          .forward = {.workspace_bytes = ForwardSpace(nullptr, s, Cell::kRecord).bytes +
                                         parts * ForwardRoom(nullptr, s).bytes},
          .backward_input = backward(false),
          .backward_weights = backward(true)};
}

Status check(const OpShapes& s) {
  if (s.parameter_grids.empty() || s.parameter_grids[0].bits <= 16) return {};
  return invalid_input("wants weights of at most 16 bits");
}

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
  const int64_t length =
      c.inputs.size() <= kLengthsInput ? s.steps : c.inputs[kLengthsInput].as<int32_t>()[sequence];
  return static_cast<int32_t>(std::clamp<int64_t>(length, 0, s.steps));
}

// Padding has the state of the last step before it.
void carry_on(const Sizes& s, const CellStep& step, int record) {
  std::copy_n(step.h_before, s.channels, step.h);
  std::copy_n(step.before, s.channels * record, step.record);
}

// The number of an input that a sequence starts with, at 2^-fraction; what does not fit is counted.
int16_t start_number(const Tensor& from, int64_t at, int fraction, int64_t& clipped) {
  const int64_t wide = rescale_rne(Mantissas(from)[at], -(*from.exponent + fraction));
  const int64_t narrow = saturate(wide, INT16_MAX);
  clipped += narrow != wide;
  return static_cast<int16_t>(narrow);
}

// Where the last piece of a sequence left its state: h, and the record behind it.
int16_t* cached_state(const OpContext& c, int64_t sequence) {
  return reinterpret_cast<int16_t*>(c.cache.of(sequence));
}

// Writes the state at a sequence's start, zeros unless it is given, or at the start of its next
// piece. Returns how many numbers were clipped.
template <typename Cell>
int64_t start(const OpContext& c, const Sizes& s, int64_t sequence, int16_t* h, int16_t* record) {
  int64_t clipped = 0;
  if (c.scalars->position > 0) {
    const int16_t* const cached = cached_state(c, sequence);
    std::copy_n(cached, s.channels, h);
    std::copy_n(cached + s.channels, s.channels * Cell::kRecord, record);
    return clipped;
  }
  std::fill_n(h, s.channels, int16_t{0});
  std::fill_n(record, s.channels * Cell::kRecord, int16_t{0});
  if (c.inputs.size() <= kStartInput) return clipped;
  for (int64_t j = 0; j < s.channels; ++j) {
    const int64_t at = sequence * s.channels + j;
    h[j] = start_number(c.inputs[kStartInput], at, kGateFraction, clipped);
    if constexpr (std::is_same_v<Cell, LstmCell>) {
      record[4 * s.channels + j] =
          start_number(c.inputs[kStartCellInput], at, kPreFraction, clipped);
    }
  }
  return clipped;
}

template <typename Cell>
int64_t forward_sequence(const OpContext& c, const Sizes& s, const int16_t* weights,
                         const Steps& steps, int64_t sequence, const ForwardRoom& room) {
  const int32_t length = steps.lengths[sequence] = length_of(c, s, sequence);
  const int64_t first = sequence * s.steps, record = s.channels * Cell::kRecord;
  CellStep step{.channels = s.channels,
                .x = room.x,
                .s = room.s,
                .h = steps.h + s.state_before(first) * s.channels,
                .record = steps.records + s.state_before(first) * record,
                .peepholes = peepholes_of<Cell>(c)};
  int64_t clipped = start<Cell>(c, s, sequence, step.h, step.record);
  for (int64_t t = 0; t < s.steps; ++t) {
    step.h_before = step.h;
    step.before = step.record;
    step.h += s.channels;
    step.record += record;
    if (t < length) {
      step_sums<Cell>(c, s, weights, first + t, step.h_before, room);
      clipped += Cell::forward(step);
    } else {
      carry_on(s, step, Cell::kRecord);
    }
  }
  if (c.cache.exists()) {
    int16_t* const cached = cached_state(c, sequence);
    std::copy_n(step.h, s.channels, cached);
    std::copy_n(step.record, record, cached + s.channels);
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
  for_sequences<ForwardRoom>(c, s, space.rooms, [&](int64_t sequence, const ForwardRoom& room) {
    clipped += forward_sequence<Cell>(c, s, space.weights, steps, sequence, room);
  });
  write_wide(c, -kGateFraction, [&](int64_t i) -> int64_t {
    return steps.h[i + (i / (s.steps * s.channels) + 1) * s.channels];
  });
  *c.output.saturated += clipped;
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

// Recurrent layers over whole sequences: rnn, lstm and gru. The input's part of all
// pre-activations, x W^T + b, comes from a linear layer before; here are the recurrent weights and
// the steps, one after the other, sequences side by side. Source: METHODS, "Exact non-linear
// functions in integers"; fixed points in kernels/recurrent/gate_tables.h and
// docs/operators.md.
#include <atomic>
#include <string>

#include "kernels/kernel_table.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/kernel_name.h"
#include "ops/ops.h"
#include "ops/sequences/recurrent_weights.h"

namespace mantissa::ops {
namespace {

constexpr AttributeSpec kLstmSchema[] = {flag<&LstmAttributes::peepholes>("peepholes", false)};
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
  constexpr int64_t kMostGateChannels = 4096;
  if (output.last() <= kMostGateChannels / kGates) return output;
  return invalid_input("wants at most " + std::to_string(kMostGateChannels / kGates) + " channels");
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
    if (attributes.as<LstmAttributes>().peepholes) small("peepholes", Shape{3, channels});
  }
  return all;
}

template <typename Cell>
OpMemory memory(const OpShapes& shapes, const PlanningContext& planning) {
  const Sizes s(shapes.output, Cell::kGates);
  const int64_t parts = std::min<int64_t>(planning.threads, kernels::kMaximumParts);
  const auto backward = [&](bool of_weights) -> RowMemory {
    const int64_t rooms = parts * BackwardRoom(nullptr, s).bytes;
    return {.workspace_bytes = BackwardSpace(nullptr, s, of_weights).bytes + rooms};
  };
  const int64_t state = s.channels * (1 + Cell::kRecord) * int64_t{sizeof(int16_t)};
  return {.saved_bytes = Steps(nullptr, s, Cell::kRecord).bytes,
          .cache_bytes = shapes.cached_positions > 0 ? state : 0,
          .forward = {.workspace_bytes = ForwardSpace(nullptr, s, Cell::kRecord).bytes +
                                         parts * ForwardRoom(nullptr, s).bytes},
          .grad_input = backward(false),
          .grad_weights = backward(true)};
}

Status check(const OpShapes& s) {
  if (s.parameter_grids.empty() || s.parameter_grids[0].bits <= 16) return {};
  return invalid_input("wants weights of at most 16 bits");
}

// Packs the weights' columns as pairs of a product, and notes the shifts of their sums to 2^-24.
void pack_rows(const OpContext& c, const Sizes& s, const ForwardSpace& space) {
  const Tensor& table = c.parameters[0].mantissa;
  const Mantissas weights(table);
  const int64_t columns = padded_columns(s.gates);
  kernels::parallel_ranges(*c.kernel.pool, (s.channels + 1) / 2, 1,
                           [&](int64_t begin, int64_t end, int64_t) {
                             for (int64_t pair = begin; pair < end; ++pair) {
                               int16_t* const to = space.weights + pair * columns * 2;
                               for (int64_t k = 0; k < columns; ++k) {
                                 to[2 * k] = packed_weight(weights, s, k, 2 * pair);
                                 to[2 * k + 1] = packed_weight(weights, s, k, 2 * pair + 1);
                               }
                             }
                           });
  for (int64_t k = 0; k < s.gates; ++k) {
    space.shifts[k] = -(table.block_exponent(k) - kGateFraction + kSumFraction);
  }
}

// GRU's bias at 2^-24.
template <typename Cell>
void rescale_bias(const OpContext& c, const Sizes& s, int64_t* to) {
  if constexpr (std::is_same_v<Cell, GruCell>) {
    const Tensor& bias = c.parameters[1].mantissa;
    for (int64_t j = 0; j < s.channels; ++j) {
      to[j] = rescale_rne(bias.as<int16_t>()[j], -(*bias.exponent + kSumFraction));
    }
  }
}

int32_t length_of(const OpContext& c, const Sizes& s, int64_t sequence) {
  const int64_t length =
      c.inputs.size() <= kLengthsInput ? s.steps : c.inputs[kLengthsInput].as<int32_t>()[sequence];
  return static_cast<int32_t>(std::clamp<int64_t>(length, 0, s.steps));
}

// The initial state of a sequence from its input, at 2^-fraction; clipped numbers are counted.
int16_t start_number(const Tensor& from, int64_t at, int fraction, int64_t& clipped) {
  const int64_t wide = rescale_rne(Mantissas(from)[at], -(*from.exponent + fraction));
  const int64_t narrow = saturate(wide, INT16_MAX);
  clipped += narrow != wide;
  return static_cast<int16_t>(narrow);
}

// The end state of a sequence's last piece: h, then the record.
int16_t* cached_state(const OpContext& c, int64_t sequence) {
  return reinterpret_cast<int16_t*>(c.memory.cache.of(sequence));
}

// Writes the state at a sequence's start, zeros unless it is given, or at the start of its next
// piece. Returns how many numbers were clipped.
template <typename Cell>
int64_t start(const OpContext& c, const Sizes& s, int64_t sequence, int16_t* h, int16_t* record) {
  int64_t clipped = 0;
  if (c.step.scalars->position > 0) {
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

// All steps of a few sequences, side by side.
template <typename Cell>
class ForwardSequences {
 public:
  ForwardSequences(const OpContext& c, const Sizes& s, const ForwardSpace& space,
                   const Steps& steps, const ForwardRoom& room)
      : c_(c), s_(s), space_(space), steps_(steps), room_(room) {}

  // Returns how many numbers were clipped.
  int64_t run(int64_t first, int64_t count) {
    int64_t clipped = 0, longest = 0;
    for (int64_t i = first; i < first + count; ++i) {
      const int32_t length = steps_.lengths[i] = length_of(c_, s_, i);
      longest = std::max<int64_t>(longest, length);
      const int64_t state = s_.state_before(i * s_.steps);
      clipped += start<Cell>(c_, s_, i, h_at(state), record_at(state));
    }
    for (int64_t t = 0; t < s_.steps; ++t) {
      if (t < longest) multiply(first, count, t);
      for (int64_t i = first; i < first + count; ++i) clipped += step(i, t, i - first);
    }
    if (c_.memory.cache.exists()) {
      for (int64_t i = first; i < first + count; ++i) keep(i);
    }
    return clipped;
  }

 private:
  static constexpr int64_t kRecord = Cell::kRecord;

  int16_t* h_at(int64_t state) const { return steps_.h + state * s_.channels; }
  int16_t* record_at(int64_t state) const { return steps_.records + state * s_.channels * kRecord; }

  void multiply(int64_t first, int64_t count, int64_t t) const {
    const int bits = weight_bits(c_.parameters[0].mantissa);
    c_.kernel.table->recurrent->products({.a = h_at(s_.state_before(first * s_.steps + t)),
                                          .a_row = s_.states_apart(t) * s_.channels,
                                          .b = space_.weights,
                                          .rows = count,
                                          .columns = padded_columns(s_.gates),
                                          .depth = s_.channels,
                                          .block = kernels::block_of(bits, kGateFraction),
                                          .sums = room_.sums});
  }

  int64_t step(int64_t sequence, int64_t t, int64_t place) const {
    const int64_t row = sequence * s_.steps + t;
    const int64_t before = s_.state_before(row), after = s_.state_after(row);
    if (t >= steps_.lengths[sequence]) {  // padding has the state of the last step before it
      std::copy_n(h_at(before), s_.channels, h_at(after));
      std::copy_n(record_at(before), s_.channels * kRecord, record_at(after));
      return 0;
    }
    const Tensor& input = c_.inputs[0];
    const int64_t offset = row * s_.gates * element_bytes(input.type);
    return cell_kernels<Cell>(c_).forward({.channels = s_.channels,
                                           .x = {static_cast<const std::byte*>(input.data) + offset,
                                                 8 * static_cast<int>(element_bytes(input.type))},
                                           .x_shift = -(*input.exponent + kSumFraction),
                                           .s = room_.sums + place * padded_columns(s_.gates),
                                           .s_shifts = space_.shifts,
                                           .bias = space_.bias,
                                           .h_before = h_at(before),
                                           .before = record_at(before),
                                           .h = h_at(after),
                                           .record = record_at(after),
                                           .peepholes = peepholes_of<Cell>(c_)});
  }

  void keep(int64_t sequence) const {
    const int64_t last = s_.state_after((sequence + 1) * s_.steps - 1);
    int16_t* const cached = cached_state(c_, sequence);
    std::copy_n(h_at(last), s_.channels, cached);
    std::copy_n(record_at(last), s_.channels * kRecord, cached + s_.channels);
  }

  const OpContext& c_;
  const Sizes& s_;
  const ForwardSpace& space_;
  const Steps& steps_;
  const ForwardRoom& room_;
};

template <typename Cell>
void forward(const OpContext& c) {
  const Sizes s(c.output().shape, Cell::kGates);
  const ForwardSpace space(c.memory.workspace, s, Cell::kRecord);
  const Steps steps(c.memory.saved != nullptr ? c.memory.saved : space.steps, s, Cell::kRecord);
  pack_rows(c, s, space);
  rescale_bias<Cell>(c, s, space.bias);
  std::atomic<int64_t> clipped = 0;
  for_sequences<ForwardRoom>(
      c, s, space.rooms, [&](int64_t first, int64_t count, const ForwardRoom& room) {
        clipped += ForwardSequences<Cell>(c, s, space, steps, room).run(first, count);
      });
  write_wide(c, -kGateFraction,
             [&](int64_t i) -> int64_t { return steps.h[s.sequences * s.channels + i]; });
  *c.output().saturated += clipped;
}

template <typename Cell>
int64_t multiply_adds(const OpShapes& shapes) {
  const Sizes s(shapes.output, Cell::kGates);
  return s.rows() * s.gates * s.channels;
}

// The first instruction leaves the gradients of the gates in the workspace.
void emit_recurrent_gradient(GradientEmitter& e) {
  e.emit(e.rows().grad_weights, {e.grad_outputs(), e.saved(), e.sums()});
  e.emit(e.rows().grad_input, {e.grad_outputs(), e.saved(), e.left_workspace(), e.grad_inputs()});
}

template <typename Cell>
constexpr Op row(const char* name, AttributeSchema schema, const OpRows* fp32) {
  return {.name = name,
          .attributes = schema,
          .infer_shape = infer<Cell>,
          .input_elements = kInputElements,
          .parameters = parameters<Cell>,
          .multiply_adds = multiply_adds<Cell>,
          .integer = {.memory = memory<Cell>,
                      .check = check,
                      .forward = {.run = forward<Cell>},
                      .grad_input = {.run = backward_input<Cell>},
                      .grad_weights = {.run = backward_weights<Cell>},
                      .kernel = kernel_name<&kernels::KernelTable::recurrent>},
          .emit_gradient = emit_recurrent_gradient,
          .fp32 = fp32};
}

}  // namespace

const Op kRnn = row<RnnCell>("rnn", {}, &fp32::kRnn);
const Op kLstm = row<LstmCell>("lstm", schema<LstmAttributes>(kLstmSchema), &fp32::kLstm);
const Op kGru = row<GruCell>("gru", {}, &fp32::kGru);

}  // namespace mantissa::ops

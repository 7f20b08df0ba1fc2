// Recurrent layers in fp32: rnn, lstm and gru as PyTorch defines them. Steps one after the other,
// all sequences side by side; threads share the channels. No result depends on their number.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "ops/fp32.h"
#include "ops/sequences/recurrent_input.h"

namespace mantissa::ops::fp32 {
namespace {

using kernels::FloatCell;
using kernels::FloatCellKernels;
using kernels::FloatKernels;
using kernels::kPanel;
using kernels::panels_size;

// Rows of `record`, numbers of a step that the backward pass reads.
struct Rnn {
  static constexpr int kGates = 1, kRecord = 0;
  static constexpr FloatCellKernels FloatKernels::*kCell = &FloatKernels::rnn;
};
struct Lstm {
  static constexpr int kGates = 4, kRecord = 5;  // i, f, g, o, cell
  static constexpr FloatCellKernels FloatKernels::*kCell = &FloatKernels::lstm;
};
struct Gru {
  static constexpr int kGates = 3, kRecord = 4;  // r, z, n, and n's sum from h
  static constexpr FloatCellKernels FloatKernels::*kCell = &FloatKernels::gru;
};

template <typename Cell>
struct Sizes {
  int64_t steps, n, sequences;
  explicit Sizes(const Shape& output) : steps(output[output.rank - 2]), n(output.last()) {
    sequences = output.count() / (steps * n);
  }
  int64_t gates() const { return Cell::kGates * n; }
  int64_t record() const { return Cell::kRecord * n; }
  int64_t states() const { return sequences * (1 + (steps + 1) * (n + record())); }  // floats
  // Rows of gradients are spaced so that the gradients of one channel are in different cache sets.
  int64_t sums_row() const { return gates() + 16; }
  // Steps whose gradients are multiplied by states at once; at least two, since each step reads the
  // gradients of the next one.
  int64_t steps_at_once() const { return std::max<int64_t>(2, std::min(steps, 256 / sequences)); }
};

// How many steps of each sequence are no padding; and h and the record of each sequence at the
// start and after each step, in memory that forward and backward share.
template <typename Cell>
struct States {
  const Sizes<Cell>& z;
  int32_t* lengths;
  float *h, *records;
  const float* parameters;  // of the cell

  States(const OpContext& c, const Sizes<Cell>& sizes, std::byte* base)
      : z(sizes), lengths(reinterpret_cast<int32_t*>(base)) {
    h = reinterpret_cast<float*>(base) + z.sequences;
    records = h + (z.steps + 1) * z.sequences * z.n;
    parameters = c.parameters.size() > 1 ? c.parameters[1].mantissa.as<float>() : nullptr;
  }
  float* h_at(int64_t t, int64_t sequence) const { return h + (t * z.sequences + sequence) * z.n; }
  float* record_at(int64_t t, int64_t sequence) const {
    return records + (t * z.sequences + sequence) * z.record();
  }
  FloatCell cell(int64_t t, int64_t sequence, const float* x, const float* s) const {
    return {.n = z.n,
            .x = x,
            .s = s,
            .h_before = h_at(t, sequence),
            .before = record_at(t, sequence),
            .h = h_at(t + 1, sequence),
            .record = record_at(t + 1, sequence),
            .parameters = parameters};
  }
  // Padding has the state of the last step before it: channels [first, first + count).
  void repeat(int64_t t, int64_t sequence, int64_t first, int64_t count) const {
    std::copy_n(h_at(t, sequence) + first, count, h_at(t + 1, sequence) + first);
    for (int k = 0; k < Cell::kRecord; ++k) {
      const int64_t at = k * z.n + first;
      std::copy_n(record_at(t, sequence) + at, count, record_at(t + 1, sequence) + at);
    }
  }
};

// The end state of a sequence's last piece: h, then the record.
float* cached_state(const OpContext& c, int64_t sequence) {
  return reinterpret_cast<float*>(c.memory.cache.of(sequence));
}

// Writes a sequence's length and its state at the start, zeros unless it is given, or at the start
// of its next piece.
template <typename Cell>
void start(const OpContext& c, const States<Cell>& states, int64_t sequence) {
  const auto& z = states.z;
  float *h = states.h_at(0, sequence), *record = states.record_at(0, sequence);
  states.lengths[sequence] = c.inputs.size() <= kLengthsInput
                                 ? static_cast<int32_t>(z.steps)
                                 : c.inputs[kLengthsInput].as<int32_t>()[sequence];
  if (c.step.scalars->position > 0) {
    const float* const cached = cached_state(c, sequence);
    std::copy_n(cached, z.n, h);
    std::copy_n(cached + z.n, z.record(), record);
    return;
  }
  std::fill_n(h, z.n, 0.0F);
  std::fill_n(record, z.record(), 0.0F);
  if (c.inputs.size() <= kStartInput) return;
  std::copy_n(c.inputs[kStartInput].as<float>() + sequence * z.n, z.n, h);
  if constexpr (Cell::kGates == 4) {
    std::copy_n(c.inputs[kStartCellInput].as<float>() + sequence * z.n, z.n, record + 4 * z.n);
  }
}

// Calls function(first, channels) on ranges of channels, whole panels, on several threads.
template <typename Cell, typename Function>
void for_channels(const OpContext& c, const Sizes<Cell>& z, const Function& function) {
  constexpr int64_t kProductsPerThread = 256 * 1024;
  const int64_t of_panel = z.sequences * kPanel * z.gates();
  kernels::parallel_ranges(*c.kernel.pool, divide_up(z.n, kPanel),
                           divide_up(kProductsPerThread, of_panel),
                           [&](int64_t begin, int64_t end, int64_t) {
                             const int64_t first = begin * kPanel;
                             function(first, std::min(end * kPanel, z.n) - first);
                           });
}

// Takes memory for floats, piece after piece.
class Pieces {
 public:
  explicit Pieces(std::byte* begin) : begin_(reinterpret_cast<float*>(begin)) {}
  float* take(int64_t count) { return begin_ + std::exchange(floats_, floats_ + count); }
  int64_t bytes() const { return floats_ * int64_t{sizeof(float)}; }

 private:
  float* begin_;
  int64_t floats_ = 0;
};

// Scratch of the forward pass: a panel for each gate's weights, by channels of h, and the sums.
template <typename Cell>
struct ForwardRoom : Pieces {
  float *weights, *sums;
  ForwardRoom(const Sizes<Cell>& z, std::byte* begin) : Pieces(begin) {
    weights = take(Cell::kGates * panels_size(z.n, z.n));
    sums = take(z.sequences * z.gates());
  }
};

// Scratch of the backward passes: panels of the weights by gates; gradients of sums of several
// steps, in turns; gradients that go from step to step. If weights' gradients are wanted: panels of
// states, and sums over steps.
template <typename Cell>
struct BackwardRoom : Pieces {
  int64_t slots;
  float *weights, *grad_sums, *carry_h, *carry_c, *states = nullptr, *small = nullptr;
  BackwardRoom(const Sizes<Cell>& z, std::byte* begin, bool of_weights) : Pieces(begin) {
    slots = of_weights ? z.steps_at_once() : 2;
    weights = take(panels_size(z.gates(), z.n));
    grad_sums = take(slots * z.sequences * z.sums_row());
    carry_h = take(z.sequences * z.n);
    carry_c = take(z.sequences * z.n);
    if (!of_weights) return;
    states = take(panels_size(slots * z.sequences, z.n));
    small = take(3 * z.n);
  }
  float* grad_sums_at(const Sizes<Cell>& z, int64_t t) const {
    return grad_sums + t % slots * z.sequences * z.sums_row();
  }
};

template <typename Cell>
OpMemory memory(const OpShapes& shapes, const PlanningContext&) {
  const Sizes<Cell> z(shapes.output);
  OpMemory memory;
  memory.saved_bytes = z.states() * int64_t{sizeof(float)};
  memory.forward.scratch_bytes = ForwardRoom<Cell>(z, nullptr).bytes();
  memory.grad_input.scratch_bytes = BackwardRoom<Cell>(z, nullptr, false).bytes();
  memory.grad_weights.scratch_bytes = BackwardRoom<Cell>(z, nullptr, true).bytes();
  if (shapes.cached_positions > 0) {
    memory.cache_bytes = (z.n + z.record()) * int64_t{sizeof(float)};
  }
  return memory;
}

// One step of some channels of all sequences.
template <typename Cell>
void step(const OpContext& c, const States<Cell>& states, const ForwardRoom<Cell>& room, int64_t t,
          int64_t first, int64_t count) {
  const auto& z = states.z;
  const FloatKernels& kernels = *c.kernel.table->floats;
  for (int gate = 0; gate < Cell::kGates; ++gate) {
    kernels.product({.rows = z.sequences,
                     .columns = count,
                     .depth = z.n,
                     .a = states.h_at(t, 0),
                     .a_row = z.n,
                     .b = room.weights + gate * panels_size(z.n, z.n) + first * z.n,
                     .panel_depth = z.n,
                     .c = room.sums + gate * z.n + first,
                     .c_row = z.gates()});
  }
  for (int64_t i = 0; i < z.sequences; ++i) {
    if (t < states.lengths[i]) {
      const float* x = c.inputs[kGatesInput].as<float>() + (i * z.steps + t) * z.gates();
      (kernels.*Cell::kCell)
          .forward(states.cell(t, i, x, room.sums + i * z.gates()), first, first + count);
    } else {
      states.repeat(t, i, first, count);
    }
    std::copy_n(states.h_at(t + 1, i) + first, count,
                c.output().as<float>() + (i * z.steps + t) * z.n + first);
  }
}

template <typename Cell>
void forward(const OpContext& c) {
  const Sizes<Cell> z(c.output().shape);
  const ForwardRoom<Cell> room(z, c.kernel.scratch.data());
  std::vector<float> own(c.memory.saved == nullptr ? z.states() : 0);
  const States<Cell> states(
      c, z, c.memory.saved == nullptr ? reinterpret_cast<std::byte*>(own.data()) : c.memory.saved);
  for (int64_t i = 0; i < z.sequences; ++i) start(c, states, i);
  const auto* weights = c.parameters[0].mantissa.as<float>();
  for_channels(c, z, [&](int64_t first, int64_t count) {
    for (int gate = 0; gate < Cell::kGates; ++gate) {
      c.kernel.table->floats->pack_columns(
          weights + (gate * z.n + first) * z.n, z.n, z.n, count,
          room.weights + gate * panels_size(z.n, z.n) + first * z.n);
    }
  });
  for (int64_t t = 0; t < z.steps; ++t) {
    for_channels(c, z,
                 [&](int64_t first, int64_t count) { step(c, states, room, t, first, count); });
  }
  for (int64_t i = 0; c.memory.cache.exists() && i < z.sequences; ++i) {
    std::copy_n(states.h_at(z.steps, i), z.n, cached_state(c, i));
    std::copy_n(states.record_at(z.steps, i), z.record(), cached_state(c, i) + z.n);
  }
}

// Adds the part of h's gradient that comes from the sums of step `t`.
template <typename Cell>
void add_carry(const OpContext& c, const Sizes<Cell>& z, const BackwardRoom<Cell>& room, int64_t t,
               int64_t first, int64_t count) {
  c.kernel.table->floats->product({.rows = z.sequences,
                                   .columns = count,
                                   .depth = z.gates(),
                                   .a = room.grad_sums_at(z, t),
                                   .a_row = z.sums_row(),
                                   .b = room.weights + first * z.gates(),
                                   .panel_depth = z.gates(),
                                   .c = room.carry_h + first,
                                   .c_row = z.n,
                                   .adds = true});
}

// A step backward of some channels of all sequences. grad_x: null, or the gradient of all gates.
template <typename Cell>
void step_back(const OpContext& c, const States<Cell>& states, const BackwardRoom<Cell>& room,
               float* grad_x, int64_t t, int64_t first, int64_t count) {
  const auto& z = states.z;
  if (t + 1 < z.steps) add_carry(c, z, room, t + 1, first, count);
  for (int64_t i = 0; i < z.sequences; ++i) {
    float* const carry_h = room.carry_h + i * z.n;
    float* const ds = room.grad_sums_at(z, t) + i * z.sums_row();
    float* const dx = grad_x == nullptr ? ds : grad_x + (i * z.steps + t) * z.gates();
    const float* g = c.grad_output().as<float>() + (i * z.steps + t) * z.n;
    for (int64_t j = first; j < first + count; ++j) carry_h[j] += g[j];
    if (t < states.lengths[i]) {
      (c.kernel.table->floats->*Cell::kCell)
          .backward(states.cell(t, i, nullptr, nullptr),
                    {.dh = carry_h,
                     .dx = dx,
                     .ds = ds,
                     .carry_h = carry_h,
                     .carry_c = room.carry_c + i * z.n},
                    first, first + count);
      continue;
    }
    // The gradient belongs to the step before.
    for (int gate = 0; gate < Cell::kGates; ++gate) {
      std::fill_n(ds + gate * z.n + first, count, 0.0F);
      std::fill_n(dx + gate * z.n + first, count, 0.0F);
    }
  }
}

// Back through time; calls visit(t) after each step.
template <typename Cell, typename Visit>
void go_back(const OpContext& c, const States<Cell>& states, const BackwardRoom<Cell>& room,
             float* grad_x, const Visit& visit) {
  const auto& z = states.z;
  const auto* weights = c.parameters[0].mantissa.as<float>();
  std::fill_n(room.carry_h, z.sequences * z.n, 0.0F);
  std::fill_n(room.carry_c, z.sequences * z.n, 0.0F);
  for_channels(c, z, [&](int64_t first, int64_t count) {
    c.kernel.table->floats->pack(weights + first, z.n, z.gates(), count,
                                 room.weights + first * z.gates());
  });
  for (int64_t t = z.steps - 1; t >= 0; --t) {
    for_channels(c, z, [&](int64_t first, int64_t count) {
      step_back(c, states, room, grad_x, t, first, count);
    });
    visit(t);
  }
}

template <typename Cell>
void backward_input(const OpContext& c) {
  const Sizes<Cell> z(c.grad_output().shape);
  const BackwardRoom<Cell> room(z, c.kernel.scratch.data(), false);
  const States<Cell> states(c, z, c.memory.saved);
  const Tensor& to = c.grad_inputs[kGatesInput];
  go_back(c, states, room, to.empty() ? nullptr : to.as<float>(), [](int64_t) {});
  const auto write = [&](size_t input, const float* gradient) {
    if (input >= c.grad_inputs.size() || c.grad_inputs[input].empty()) return;
    std::copy_n(gradient, z.sequences * z.n, c.grad_inputs[input].as<float>());
  };
  if (c.inputs.size() <= kStartInput) return;
  for_channels(c, z, [&](int64_t first, int64_t count) { add_carry(c, z, room, 0, first, count); });
  write(kStartInput, room.carry_h);
  write(kStartCellInput, room.carry_c);
}

// Adds the gradients of a cell's parameters besides its weights, of steps [t, t + steps): the bias
// of a GRU, or peepholes of an LSTM.
template <typename Cell>
void add_small(const States<Cell>& states, const BackwardRoom<Cell>& room, int64_t t, int64_t steps,
               int64_t first, int64_t count) {
  const auto& z = states.z;
  for (int64_t i = 0; i < steps * z.sequences; ++i) {
    const float* ds = room.grad_sums + i * z.sums_row();
    const float *before = states.record_at(t, i), *record = states.record_at(t + 1, i);
    for (int64_t j = first; j < first + count; ++j) {
      if (Cell::kGates == 3) room.small[j] += ds[2 * z.n + j];
      if (Cell::kGates != 4) continue;
      room.small[j] += ds[j] * before[4 * z.n + j];
      room.small[z.n + j] += ds[z.n + j] * before[4 * z.n + j];
      room.small[2 * z.n + j] += ds[3 * z.n + j] * record[4 * z.n + j];
    }
  }
}

template <typename Cell>
void backward_weights(const OpContext& c) {
  const Sizes<Cell> z(c.grad_output().shape);
  const BackwardRoom<Cell> room(z, c.kernel.scratch.data(), true);
  const States<Cell> states(c, z, c.memory.saved);
  const Tensor& gradient = c.parameters[0].gradient;
  std::fill_n(room.small, 3 * z.n, 0.0F);
  go_back(c, states, room, nullptr, [&](int64_t t) {
    if (t % room.slots != 0) return;
    const int64_t steps = std::min(room.slots, z.steps - t), depth = steps * z.sequences;
    for_channels(c, z, [&](int64_t first, int64_t count) {
      if (c.parameters.size() > 1) add_small(states, room, t, steps, first, count);
      if (gradient.empty()) return;
      float* const panels = room.states + first * depth;
      c.kernel.table->floats->pack(states.h_at(t, 0) + first, z.n, depth, count, panels);
      c.kernel.table->floats->product({.rows = z.gates(),
                                       .columns = count,
                                       .depth = depth,
                                       .a = room.grad_sums,
                                       .a_row = 1,
                                       .a_depth = z.sums_row(),
                                       .b = panels,
                                       .panel_depth = depth,
                                       .c = gradient.as<float>() + first,
                                       .c_row = z.n,
                                       .adds = true});
    });
  });
  if (c.parameters.size() < 2 || c.parameters[1].gradient.empty()) return;
  const Tensor& to = c.parameters[1].gradient;
  for (int64_t i = 0; i < to.count(); ++i) to.as<float>()[i] += room.small[i];
}

template <typename Cell>
constexpr OpRows functions() {
  return {.memory = memory<Cell>,
          .forward = {.run = forward<Cell>},
          .grad_input = {.run = backward_input<Cell>},
          .grad_weights = {.run = backward_weights<Cell>},
          .kernel = floats_name};
}

}  // namespace

const OpRows kRnn = functions<Rnn>();
const OpRows kLstm = functions<Lstm>();
const OpRows kGru = functions<Gru>();

}  // namespace mantissa::ops::fp32

// The memory of recurrent layers from forward to backward, and the workspaces of both.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/room.h"
#include "graph/op.h"
#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "kernels/recurrent/gate_tables.h"
#include "ops/sequences/recurrent_input.h"

namespace mantissa::ops {

using kernels::GruCell;
using kernels::kGateFraction;
using kernels::kPreFraction;
using kernels::kSumFraction;
using kernels::LstmCell;
using kernels::padded_columns;
using kernels::RnnCell;

// This many sequences take a step side by side, so that each weight that is read serves all of
// them.
constexpr int64_t kSequencesAtOnce = 4;

struct Sizes {
  int64_t sequences, steps, channels, gates;  // gates: of all channels together
  Sizes(const Shape& output, int cell_gates)
      : steps(output[output.rank - 2]), channels(output.last()), gates(cell_gates * channels) {
    sequences = output.count() / (steps * channels);
  }
  int64_t rows() const { return sequences * steps; }
  int64_t row_pairs() const { return (rows() + 1) / 2; }
  int64_t states() const { return sequences * (steps + 1); }
  // The initial states of all sequences come first, then the state after each row of the input.
  int64_t state_after(int64_t row) const { return sequences + row; }
  int64_t state_before(int64_t row) const {
    return row % steps == 0 ? row / steps : state_after(row - 1);
  }
  // The distance between the states before a step of two neighbouring sequences.
  int64_t states_apart(int64_t step) const { return step == 0 ? 1 : steps; }
};

// The values that the backward pass reads: the states (h and a record), and the number of steps
// without padding of each sequence.
struct Steps {
  int16_t *h, *records;
  int32_t* lengths;
  int64_t bytes;
  Steps(std::byte* base, const Sizes& s, int record) {
    Room room(base);
    h = room.take<int16_t>(s.states() * s.channels);
    records = room.take<int16_t>(s.states() * s.channels * record);
    lengths = room.take<int32_t>(s.sequences);
    bytes = room.bytes();
  }
};

// One thread's part of the forward pass.
struct ForwardRoom {
  int64_t* sums;  // [sequences at once, gates]
  int64_t bytes;
  ForwardRoom(std::byte* base, const Sizes& s) {
    Room room(base);
    sums = room.take<int64_t>(kSequencesAtOnce * padded_columns(s.gates));
    bytes = room.bytes();
  }
};

// One thread's part of the backward pass. Everything except the first is for each sequence at once.
struct BackwardRoom {
  int32_t* grad_h;  // [channels]
  int32_t *carry_h, *carry_c, *grad_s;
  int16_t* short_s;
  int64_t* sums;  // of several sequences, or of rows of the weights
  int64_t bytes;
  BackwardRoom(std::byte* base, const Sizes& s) {
    Room room(base);
    grad_h = room.take<int32_t>(s.channels);
    for (int32_t** of_channels : {&carry_h, &carry_c}) {
      *of_channels = room.take<int32_t>(kSequencesAtOnce * s.channels);
    }
    grad_s = room.take<int32_t>(kSequencesAtOnce * s.gates);
    short_s = room.take<int16_t>(kSequencesAtOnce * s.gates);
    sums = room.take<int64_t>(kSequencesAtOnce * padded_columns(s.channels));
    bytes = room.bytes();
  }
};

// The packed weights come first. Then the gradients of the input's part of all pre-activations and
// of the initial states. Then, for the weights' gradients, the operands of their sums. The rooms of
// the threads come last.
struct BackwardSpace {
  int16_t* weights;               // [gates / 2, channels, 2]
  int32_t* shifts;                // [gates]
  int32_t* gradients;             // [rows, gates]
  int32_t *start_h, *start_cell;  // [sequences, channels]
  int16_t* short_grad;            // [rows / 2, gates, 2]
  int16_t* short_h;               // [rows / 2, channels, 2]
  std::byte* rooms;
  int64_t bytes;
  BackwardSpace(std::byte* base, const Sizes& s, bool of_weights) {
    Room room(base);
    const int64_t columns = padded_columns(s.channels);
    weights = room.take<int16_t>((s.gates + 1) / 2 * 2 * columns);
    shifts = room.take<int32_t>(s.gates);
    gradients = room.take<int32_t>(s.rows() * s.gates);
    start_h = room.take<int32_t>(s.sequences * s.channels);
    start_cell = room.take<int32_t>(s.sequences * s.channels);
    short_grad = room.take<int16_t>(of_weights ? s.row_pairs() * 2 * s.gates : 0);
    short_h = room.take<int16_t>(of_weights ? s.row_pairs() * 2 * columns : 0);
    bytes = room.bytes();
    rooms = base + bytes;
  }
};

struct ForwardSpace {
  int16_t* weights;  // [channels / 2, gates, 2]
  int32_t* shifts;   // [gates]
  int64_t* bias;     // GRU's, [channels]
  std::byte *steps, *rooms;
  int64_t bytes;
  ForwardSpace(std::byte* base, const Sizes& s, int record) {
    Room room(base);
    weights = room.take<int16_t>((s.channels + 1) / 2 * 2 * padded_columns(s.gates));
    shifts = room.take<int32_t>(s.gates);
    bias = room.take<int64_t>(s.channels);
    steps = base + room.bytes();
    bytes = room.bytes() + Steps(nullptr, s, record).bytes;
    rooms = base + bytes;
  }
};

template <typename Cell>
kernels::Peepholes peepholes_of(const OpContext& c) {
  if (!std::is_same_v<Cell, LstmCell> || c.parameters.size() < 2) return {};
  const Tensor& tensor = c.parameters[1].mantissa;
  return {.weights = tensor.as<int16_t>(),
          .shift = kPreFraction - kSumFraction - *tensor.exponent,
          .gradient_shift = -*tensor.exponent};
}

template <typename Cell>
const kernels::CellKernels& cell_kernels(const OpContext& c) {
  const kernels::RecurrentKernels& all = *c.kernel.table->recurrent;
  if constexpr (std::is_same_v<Cell, RnnCell>) return all.rnn;
  if constexpr (std::is_same_v<Cell, LstmCell>) return all.lstm;
  return all.gru;
}

// Calls function(first, sequences, room) for a few sequences at a time, each room one thread's.
template <typename RoomOf, typename Function>
void for_sequences(const OpContext& c, const Sizes& s, std::byte* rooms, const Function& function) {
  const int64_t room_bytes = RoomOf(nullptr, s).bytes;
  kernels::parallel_ranges(*c.kernel.pool, s.sequences, 1,
                           [&](int64_t begin, int64_t end, int64_t part) {
                             const RoomOf room(rooms + part * room_bytes, s);
                             for (int64_t i = begin; i < end; i += kSequencesAtOnce) {
                               function(i, std::min(kSequencesAtOnce, end - i), room);
                             }
                           });
}

inline int weight_bits(const Tensor& weights) { return weights.bits - 1; }

}  // namespace mantissa::ops

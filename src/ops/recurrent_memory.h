// The memory of recurrent layers from forward to backward, and the rooms that both work in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "graph/op.h"
#include "kernels/parallel_ranges.h"
#include "ops/recurrent_cells.h"
#include "ops/recurrent_input.h"
#include "base/room.h"

namespace mantissa::ops {

struct Sizes {
  int64_t sequences, steps, channels, gates;  // gates: of all channels together
  Sizes(const Shape& output, int cell_gates)
      : steps(output[output.rank - 2]), channels(output.last()), gates(cell_gates * channels) {
    sequences = output.count() / (steps * channels);
  }
  int64_t rows() const { return sequences * steps; }
  int64_t states() const { return sequences * (steps + 1); }
  // The state that a row of the input finds. It leaves the next one.
  int64_t state_before(int64_t row) const { return row + row / steps; }
};

// The values that the backward pass finds again, sequence by sequence: its state at the start and
// after each step, which is h and a record, and how many of its steps are no padding.
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
  int64_t *x, *s;
  int64_t bytes;
  ForwardRoom(std::byte* base, const Sizes& sizes) {
    Room room(base);
    x = room.take<int64_t>(sizes.gates);
    s = room.take<int64_t>(sizes.gates);
    bytes = room.bytes();
  }
};

struct BackwardRoom {
  int64_t *grad_h, *carry_h, *carry_c, *grad_x, *grad_s, *sums;
  int16_t* short_s;
  int64_t bytes;
  BackwardRoom(std::byte* base, const Sizes& s) {
    Room room(base);
    for (int64_t** of_channels : {&grad_h, &carry_h, &carry_c, &sums}) {
      *of_channels = room.take<int64_t>(s.channels);
    }
    for (int64_t** of_gates : {&grad_x, &grad_s}) *of_gates = room.take<int64_t>(s.gates);
    short_s = room.take<int16_t>(s.gates);
    bytes = room.bytes();
  }
};

// Behind the packed weights, the gradients of all pre-activations and of the states at the start,
// and, for the weights' gradients, the operands of their sums lie the rooms of the threads.
struct BackwardSpace {
  int16_t* weights;               // [channels, gates]
  int32_t* gradients;             // [rows, gates]
  int32_t *start_h, *start_cell;  // [sequences, channels]
  int16_t* short_grad;            // [gates, rows]
  int16_t* short_h;               // [channels, rows]
  std::byte* rooms;
  int64_t bytes;
  BackwardSpace(std::byte* base, const Sizes& s, bool of_weights) {
    Room room(base);
    weights = room.take<int16_t>(s.channels * s.gates);
    gradients = room.take<int32_t>(s.rows() * s.gates);
    start_h = room.take<int32_t>(s.sequences * s.channels);
    start_cell = room.take<int32_t>(s.sequences * s.channels);
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
Peepholes peepholes_of(const OpContext& c) {
  if (!std::is_same_v<Cell, LstmCell> || c.parameters.size() < 2) return {};
  const Tensor& tensor = c.parameters[1].mantissa;
  return {tensor.as<int16_t>(), *tensor.exponent};
}

// Calls function(sequence, room) for all sequences, each room one thread's.
template <typename RoomOf, typename Function>
void for_sequences(const OpContext& c, const Sizes& s, std::byte* rooms, const Function& function) {
  const int64_t room_bytes = RoomOf(nullptr, s).bytes;
  kernels::parallel_ranges(*c.kernel.pool, s.sequences, 1,
                           [&](int64_t begin, int64_t end, int64_t part) {
                             const RoomOf room(rooms + part * room_bytes, s);
                             for (int64_t i = begin; i < end; ++i) function(i, room);
                           });
}

inline int weight_bits(const Tensor& weights) { return weights.bits - 1; }

}  // namespace mantissa::ops

// The backward pass of recurrent layers in integers. It goes back through time once, with the
// weights' gradients, and leaves the gradients of the inputs in the workspace. Source: METHODS,
// "Exact non-linear functions in integers"; fixed points in kernels/recurrent/gate_tables.h and
// docs/operators.md.
#pragma once

#include <array>

#include "kernels/kernel_table.h"
#include "numerics/exponent.h"
#include "ops/narrowing.h"
#include "ops/rows.h"
#include "ops/sequences/recurrent_memory.h"
#include "ops/wide_values.h"

namespace mantissa::ops {

using kernels::kShortGradientBits;

// How many bits gradients are shifted up by: narrow gradients then keep some bits after the point.
inline int lift_of(const Tensor& grad_output) { return 21 - grad_output.bits; }

// A weight as an operand of a product: zero in padding of columns and pairs.
inline int16_t packed_weight(const Mantissas& weights, const Sizes& s, int64_t gate,
                             int64_t channel) {
  const bool exists = gate < s.gates && channel < s.channels;
  return static_cast<int16_t>(exists ? weights[gate * s.channels + channel] : 0);
}

// Packs the weights as pairs of rows, all at their largest exponent: the gradients are shifted
// instead.
inline void pack_columns(const Tensor& table, const Sizes& s, const BackwardSpace& space) {
  const Mantissas weights(table);
  const int64_t columns = padded_columns(s.channels);
  for (int64_t pair = 0; pair < (s.gates + 1) / 2; ++pair) {
    int16_t* const to = space.weights + pair * columns * 2;
    for (int64_t j = 0; j < columns; ++j) {
      to[2 * j] = packed_weight(weights, s, 2 * pair, j);
      to[2 * j + 1] = packed_weight(weights, s, 2 * pair + 1, j);
    }
  }
  for (int64_t k = 0; k < s.gates; ++k) {
    space.shifts[k] = table.largest_exponent() - table.block_exponent(k);
  }
}

// The backward pass through all steps of a few sequences, side by side. Gives the gradients of
// pre-activations, of the input's part, and of the initial states, at the exponent of grad_output
// less the lift.
template <typename Cell>
class BackwardSequences {
 public:
  BackwardSequences(const OpContext& c, const Sizes& s, const Steps& steps,
                    const BackwardSpace& space, const BackwardRoom& room)
      : c_(c), s_(s), steps_(steps), space_(space), room_(room) {}

  void run(int64_t first, int64_t count) {
    std::fill_n(room_.carry_h, count * s_.channels, 0);
    std::fill_n(room_.carry_c, count * s_.channels, 0);
    std::fill_n(room_.short_s, count * s_.gates, int16_t{0});
    for (int64_t t = s_.steps - 1; t >= 0; --t) {
      bool any = false;
      for (int64_t i = 0; i < count; ++i) any |= step(first + i, t, i);
      if (any) multiply(first, count, t);
    }
    std::copy_n(room_.carry_h, count * s_.channels, space_.start_h + first * s_.channels);
    std::copy_n(room_.carry_c, count * s_.channels, space_.start_cell + first * s_.channels);
  }

 private:
  const kernels::RecurrentKernels& kernels() const { return *c_.kernel.table->recurrent; }

  // Whether the step is no padding.
  bool step(int64_t sequence, int64_t t, int64_t place) {
    const int64_t row = sequence * s_.steps + t;
    int32_t* const carry_h = room_.carry_h + place * s_.channels;
    int32_t* const grad_x = space_.gradients + row * s_.gates;
    const Tensor& output = c_.grad_output();
    const int64_t offset = row * s_.channels * element_bytes(output.type);
    kernels().add_output_gradient({static_cast<const std::byte*>(output.data) + offset,
                                   8 * static_cast<int>(element_bytes(output.type))},
                                  -lift_of(output), carry_h, s_.channels, room_.grad_h);
    if (t >= steps_.lengths[sequence]) {  // the gradient belongs to the step before
      std::copy_n(room_.grad_h, s_.channels, carry_h);
      std::fill_n(grad_x, s_.gates, 0);
      return false;
    }
    const int64_t before = s_.state_before(row), after = s_.state_after(row);
    const int64_t record = s_.channels * Cell::kRecord;
    int32_t* const grad_s = room_.grad_s + place * s_.gates;
    cell_kernels<Cell>(c_).backward({.channels = s_.channels,
                                     .h_before = steps_.h + before * s_.channels,
                                     .h = steps_.h + after * s_.channels,
                                     .before = steps_.records + before * record,
                                     .record = steps_.records + after * record,
                                     .grad_h = room_.grad_h,
                                     .grad_x = grad_x,
                                     .grad_s = grad_s,
                                     .carry_h = carry_h,
                                     .carry_c = room_.carry_c + place * s_.channels,
                                     .peepholes = peepholes_of<Cell>(c_)});
    shift_[static_cast<size_t>(place)] =
        kernels().shorten(std::is_same_v<Cell, GruCell> ? grad_s : grad_x, space_.shifts, s_.gates,
                          room_.short_s + place * s_.gates);
    return true;
  }

  // carry_h += the recurrent product's gradient for the step before.
  void multiply(int64_t first, int64_t count, int64_t t) {
    const Tensor& table = c_.parameters[0].mantissa;
    const int64_t columns = padded_columns(s_.channels);
    kernels().products({.a = room_.short_s,
                        .a_row = s_.gates,
                        .b = space_.weights,
                        .rows = count,
                        .columns = columns,
                        .depth = s_.gates,
                        .block = kernels::block_of(weight_bits(table), kShortGradientBits),
                        .sums = room_.sums});
    for (int64_t i = 0; i < count; ++i) {
      if (t >= steps_.lengths[first + i]) continue;
      const int shift = -(table.largest_exponent() + shift_[static_cast<size_t>(i)]);
      kernels().add_carry(room_.sums + i * columns, shift, s_.channels,
                          room_.carry_h + i * s_.channels);
    }
  }

  const OpContext& c_;
  const Sizes& s_;
  const Steps& steps_;
  const BackwardSpace& space_;
  const BackwardRoom& room_;
  std::array<int, kSequencesAtOnce> shift_ = {};
};

template <typename Cell>
BackwardSpace go_back(const OpContext& c, const Sizes& s, const Steps& steps, bool of_weights) {
  const BackwardSpace space(c.memory.workspace, s, of_weights);
  pack_columns(c.parameters[0].mantissa, s, space);
  for_sequences<BackwardRoom>(c, s, space.rooms,
                              [&](int64_t first, int64_t count, const BackwardRoom& room) {
                                BackwardSequences<Cell>(c, s, steps, space, room).run(first, count);
                              });
  return space;
}

template <typename Cell>
void backward_input(const OpContext& c) {
  const Sizes s(c.grad_output().shape, Cell::kGates);
  const Steps steps(c.memory.saved, s, Cell::kRecord);
  const BackwardSpace space = c.memory.workspace_is_left
                                  ? BackwardSpace(c.memory.workspace, s, true)
                                  : go_back<Cell>(c, s, steps, false);
  const auto write = [&](size_t input, const int32_t* gradients) {
    if (input >= c.grad_inputs.size() || c.grad_inputs[input].empty()) return;
    const Tensor& to = c.grad_inputs[input];
    write_wide_gradient(c, to, *c.grad_output().exponent - lift_of(c.grad_output()),
                        [&](int64_t i) -> int64_t { return gradients[i]; });
  };
  write(kGatesInput, space.gradients);
  write(kStartInput, space.start_h);
  write(kStartCellInput, space.start_cell);
}

}  // namespace mantissa::ops

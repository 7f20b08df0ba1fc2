// The backward pass of recurrent layers in integers. Each phase goes back through time by itself:
// the same gradients in both. Source: METHODS, "Exact non-linear functions in integers"; fixed
// points in ops/recurrent_cells.h and docs/operators.md.
#pragma once

#include <array>

#include "kernels/kernel_table.h"
#include "numerics/exponent.h"
#include "ops/narrowing.h"
#include "ops/recurrent_memory.h"
#include "ops/rows.h"
#include "ops/wide_values.h"

namespace mantissa::ops {

constexpr int kGradientBits = 15;  // of gradients that are multiplied, without the sign
constexpr int kShortBits = 7;      // of h where weights' gradients are summed, without the sign

// Bits that gradients are shifted up by: then those of so few bits keep some behind the point.
inline int lift_of(const Tensor& grad_output) { return 21 - grad_output.bits; }

// Packs the weights' columns, all at the largest exponent of their rows.
inline void pack_columns(const Tensor& table, const Sizes& s, int16_t* to) {
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

inline int16_t short_gradient(int64_t n, int shift) {
  return static_cast<int16_t>(
      saturate(shift_right_rne(n, shift), mantissa_limit(kGradientBits + 1)));
}

// Rounds numbers to kGradientBits; returns the shift that did it.
inline int shorten(const int64_t* from, int64_t count, int16_t* to) {
  const int shift = shift_to(kGradientBits, from, count);
  for (int64_t i = 0; i < count; ++i) {
    to[i] = short_gradient(from[i], shift);
  }
  return shift;
}

// carry_h += what the recurrent product hands back to the step before.
inline void add_recurrent(const OpContext& c, const Sizes& s, const int16_t* weights,
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
    const int64_t before = s.state_before(row), record = s.channels * Cell::kRecord;
    step.h_before = steps.h + before * s.channels;
    step.h = step.h_before + s.channels;
    step.before = steps.records + before * record;
    step.record = step.before + record;
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
    add_recurrent(c, s, space.weights, room);
  }
  for (int64_t j = 0; j < s.channels; ++j) {
    space.start_h[sequence * s.channels + j] = static_cast<int32_t>(room.carry_h[j]);
    space.start_cell[sequence * s.channels + j] = static_cast<int32_t>(room.carry_c[j]);
  }
}

template <typename Cell>
BackwardSpace go_back(const OpContext& c, const Sizes& s, const Steps& steps, bool of_input) {
  const BackwardSpace space(c.workspace, s, !of_input);
  pack_columns(c.parameters[0].mantissa, s, space.weights);
  for_sequences<BackwardRoom>(c, s, space.rooms, [&](int64_t sequence, const BackwardRoom& room) {
    backward_sequence<Cell>(c, s, steps, space, of_input, sequence, room);
  });
  return space;
}

template <typename Cell>
void backward_input(const OpContext& c) {
  const Sizes s(c.grad_output.shape, Cell::kGates);
  const Steps steps(c.saved, s, Cell::kRecord);
  const BackwardSpace space = go_back<Cell>(c, s, steps, true);
  const auto write = [&](size_t input, const int32_t* gradients) {
    if (input >= c.grad_inputs.size() || c.grad_inputs[input].empty()) return;
    const Tensor& to = c.grad_inputs[input];
    narrow_gradient(c, to, *c.grad_output.exponent - lift_of(c.grad_output), [&](int shift) {
      return narrow_elements(c, to, true, shift,
                             [&](int64_t i) -> int64_t { return gradients[i]; });
    });
  };
  write(kGatesInput, space.gradients);
  write(kStartInput, space.start_h);
  write(kStartCellInput, space.start_cell);
}

// The shifts of the two operands of the weights' gradients.
struct SumShifts {
  int gradients, h;
};

// Writes the operands, with the rows of the batch side by side.
inline SumShifts prepare_sums(const Sizes& s, const Steps& steps, const BackwardSpace& space) {
  const SumShifts shifts = {shift_to(kGradientBits, space.gradients, s.rows() * s.gates),
                            shift_to(kShortBits, steps.h, s.states() * s.channels)};
  for (int64_t row = 0; row < s.rows(); ++row) {
    for (int64_t k = 0; k < s.gates; ++k) {
      space.short_grad[k * s.rows() + row] =
          short_gradient(space.gradients[row * s.gates + k], shifts.gradients);
    }
    const int16_t* h_before = steps.h + s.state_before(row) * s.channels;
    for (int64_t j = 0; j < s.channels; ++j) {
      space.short_h[j * s.rows() + row] = static_cast<int16_t>(
          saturate(shift_right_rne(h_before[j], shifts.h), mantissa_limit(kShortBits + 1)));
    }
  }
  return shifts;
}

inline void add_sum(const Tensor& gradient, int64_t at, int64_t sum, int exponent) {
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
    const auto cell_of = [&](int64_t state, int64_t j) {
      return int64_t{steps.records[(state * Cell::kRecord + 4) * s.channels + j]};
    };
    const auto cell_before = [&](int64_t row, int64_t j) {
      return cell_of(s.state_before(row), j);
    };
    const auto cell = [&](int64_t row, int64_t j) { return cell_of(s.state_before(row) + 1, j); };
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
}  // namespace mantissa::ops

// The gradients of recurrent layers' weights in integers: sums over the batch of the gradients of
// pre-activations times h, peepholes' cells, or one. Source: see recurrent_gradient.h.
#pragma once

#include <algorithm>
#include <array>

#include "ops/sequences/recurrent_gradient.h"

namespace mantissa::ops {

constexpr int kShortBits = 7;  // of h in sums for the weights' gradients, without the sign

// The shifts of the two operands of the weights' gradients.
struct SumShifts {
  int gradients, h;
};

// The gradients of the recurrent part's sums of a row. They are the gradients of the input's part,
// except for GRU's candidate, which is computed in `room`.
template <typename Cell>
const int32_t* recurrent_part(const Sizes& s, const Steps& steps, const BackwardSpace& space,
                              int64_t row, int32_t* room) {
  const int32_t* const grad_x = space.gradients + row * s.gates;
  if constexpr (!std::is_same_v<Cell, GruCell>) return grad_x;
  std::copy_n(grad_x, s.gates, room);
  const int16_t* const reset = steps.records + s.state_after(row) * s.channels * Cell::kRecord;
  for (int64_t j = 0; j < s.channels; ++j) {
    int32_t& candidate = room[2 * s.channels + j];
    candidate = static_cast<int32_t>(ref_times_gate(candidate, reset[j]));
  }
  return room;
}

// Calls function(begin, end, part, room) on ranges of pairs of rows.
template <typename Function>
void for_row_pairs(const OpContext& c, const Sizes& s, const BackwardSpace& space,
                   const Function& function) {
  const int64_t room_bytes = BackwardRoom(nullptr, s).bytes;
  kernels::parallel_ranges(*c.kernel.pool, s.row_pairs(), 1,
                           [&](int64_t begin, int64_t end, int64_t part) {
                             const BackwardRoom room(space.rooms + part * room_bytes, s);
                             function(begin, end, part, room);
                           });
}

// Writes the operands as pairs of rows of the batch.
template <typename Cell>
SumShifts prepare_sums(const OpContext& c, const Sizes& s, const Steps& steps,
                       const BackwardSpace& space) {
  const kernels::RecurrentKernels& kernels = *c.kernel.table->recurrent;
  std::array<uint64_t, kernels::kMaximumParts> largest_of_parts = {};
  for_row_pairs(c, s, space, [&](int64_t begin, int64_t end, int64_t part, const auto& room) {
    uint64_t& largest = largest_of_parts[static_cast<size_t>(part)];
    for (int64_t row = 2 * begin; row < std::min(2 * end, s.rows()); ++row) {
      const int32_t* const gradients = recurrent_part<Cell>(s, steps, space, row, room.grad_s);
      largest = std::max(largest, kernels.largest_gradient(gradients, s.gates));
    }
  });
  const uint64_t largest = *std::max_element(largest_of_parts.begin(), largest_of_parts.end());
  const SumShifts shifts = {
      exact_shift(largest, kShortGradientBits + 1),
      exact_shift(kernels.largest_state(steps.h, s.states() * s.channels), kShortBits + 1)};
  const int64_t columns = padded_columns(s.channels);
  const auto h_before = [&](int64_t row) { return steps.h + s.state_before(row) * s.channels; };
  for_row_pairs(c, s, space, [&](int64_t begin, int64_t end, int64_t, const auto& room) {
    for (int64_t pair = begin; pair < end; ++pair) {
      const int64_t even = 2 * pair, odd = even + 1;
      const bool has_odd = odd < s.rows();
      kernels.pair_gradients(
          recurrent_part<Cell>(s, steps, space, even, room.grad_s),
          has_odd ? recurrent_part<Cell>(s, steps, space, odd, room.grad_s + s.gates) : nullptr,
          s.gates, shifts.gradients, kShortGradientBits, space.short_grad + even * s.gates);
      int16_t* const short_h = space.short_h + even * columns;
      kernels.pair_states(h_before(even), has_odd ? h_before(odd) : nullptr, s.channels, shifts.h,
                          kShortBits, short_h);
      std::fill(short_h + 2 * s.channels, short_h + 2 * columns, int16_t{0});
    }
  });
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
    const int64_t k = gate * s.channels + j;
    int64_t sum = 0;
    for (int64_t row = 0; row < s.rows(); ++row) {
      sum += space.short_grad[(row / 2 * s.gates + k) * 2 + row % 2] * int64_t{with(row, j)};
    }
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
    const auto cell = [&](int64_t row, int64_t j) { return cell_of(s.state_after(row), j); };
    const int of_cells = exponent - kPreFraction;
    add_diagonal(s, space, gradient, 0, 0, of_cells, cell_before);
    add_diagonal(s, space, gradient, s.channels, 1, of_cells, cell_before);
    add_diagonal(s, space, gradient, 2 * s.channels, 3, of_cells, cell);
  }
}

// Sums over the batch of gradients times h before each step.
inline void add_products(const OpContext& c, const Sizes& s, const BackwardSpace& space,
                         int exponent) {
  const int64_t columns = padded_columns(s.channels), room_bytes = BackwardRoom(nullptr, s).bytes;
  const auto add_rows = [&](int64_t first, int64_t count, int64_t* sums) {
    c.kernel.table->recurrent->products({.a = space.short_grad + 2 * first,
                                         .a_row = 2,
                                         .a_pair = 2 * s.gates,
                                         .b = space.short_h,
                                         .rows = count,
                                         .columns = columns,
                                         .depth = 2 * s.row_pairs(),
                                         .block = kernels::block_of(kShortBits, kShortGradientBits),
                                         .sums = sums});
    for (int64_t i = 0; i < count * s.channels; ++i) {
      const int64_t k = i / s.channels, j = i % s.channels;
      add_sum(c.parameters[0].gradient, (first + k) * s.channels + j, sums[k * columns + j],
              exponent);
    }
  };
  kernels::parallel_ranges(*c.kernel.pool, s.gates, 1,
                           [&](int64_t begin, int64_t end, int64_t part) {
                             const BackwardRoom room(space.rooms + part * room_bytes, s);
                             for (int64_t k = begin; k < end; k += kSequencesAtOnce) {
                               add_rows(k, std::min(kSequencesAtOnce, end - k), room.sums);
                             }
                           });
}

template <typename Cell>
void backward_weights(const OpContext& c) {
  const Sizes s(c.grad_output().shape, Cell::kGates);
  const Steps steps(c.memory.saved, s, Cell::kRecord);
  const BackwardSpace space = go_back<Cell>(c, s, steps, true);
  const SumShifts shifts = prepare_sums<Cell>(c, s, steps, space);
  const int exponent = *c.grad_output().exponent - lift_of(c.grad_output()) + shifts.gradients;
  small_parameters<Cell>(c, s, steps, space, exponent);
  if (c.parameters[0].gradient.empty()) return;
  add_products(c, s, space, exponent - kGateFraction + shifts.h);
}

}  // namespace mantissa::ops

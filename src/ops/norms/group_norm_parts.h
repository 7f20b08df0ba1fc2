// Common to the forward and the backward pass of group norm: its sizes and memory, and passes over
// examples.
#pragma once

#include <algorithm>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "ops/attributes.h"
#include "ops/norms/batch_norm_parts.h"
#include "ops/wide_values.h"

namespace mantissa::ops {

// `channels` and `groups` of one example, and of all; each group has `count` elements.
struct GroupSizes {
  int64_t examples, rows, channels, groups, count;
  GroupSizes(const Shape& shape, const Attributes& attributes)
      : examples(shape[0]),
        rows(shape.count() / shape[0] / shape.last()),
        channels(shape.last()),
        groups(attributes.as<GroupNormAttributes>().groups),
        count(rows * channels / groups) {}

  int64_t all_channels() const { return examples * channels; }
  int64_t all_groups() const { return examples * groups; }
  int64_t per_group() const { return channels / groups; }
  // Of channel i of all.
  int64_t group_of(int64_t i) const { return i / per_group(); }
};

inline GroupSizes group_sizes_of(const OpContext& c) { return {c.inputs[0].shape, *c.node.attributes}; }

// Reals are kept as doubles, which hold them exactly.
struct GroupNormSaved {
  double *mean, *inverse_sigma;       // of q, by group
  int64_t *sum_grad, *sum_grad_in;    // by channel: of dy, and of dy * q, once has_sums says so
  int64_t* has_sums;
  GroupNormSaved(std::byte* base, const GroupSizes& sizes) {
    Carve carve(base);
    mean = carve.take<double>(sizes.all_groups());
    inverse_sigma = carve.take<double>(sizes.all_groups());
    sum_grad = carve.take<int64_t>(sizes.all_channels());
    sum_grad_in = carve.take<int64_t>(sizes.all_channels());
    has_sums = carve.take<int64_t>(1);
  }
  static int64_t bytes(const GroupSizes& sizes) {
    return 2 * carved_bytes(sizes.all_groups(), 8) + 2 * carved_bytes(sizes.all_channels(), 8) +
           carved_bytes(1, 8);
  }
};

// The exponent of an example's integers.
struct UnitOfExample {
  int exponent = 0;
  bool is_finite = true;
};

// By channel of each example; `reals` has three for each.
struct GroupNormWorkspace {
  int64_t *sum, *sum_squares;
  int32_t *minimum, *maximum;
  int32_t *multiplier, *in_multiplier;
  int64_t* offset;
  Real *reals, *of_groups;  // two for each group
  UnitOfExample* units;
  std::byte* saved;  // where nothing is kept
  GroupNormWorkspace(std::byte* base, const GroupSizes& sizes) {
    const int64_t channels = sizes.all_channels();
    Carve carve(base);
    sum = carve.take<int64_t>(channels);
    sum_squares = carve.take<int64_t>(channels);
    minimum = carve.take<int32_t>(channels);
    maximum = carve.take<int32_t>(channels);
    multiplier = carve.take<int32_t>(channels);
    in_multiplier = carve.take<int32_t>(channels);
    offset = carve.take<int64_t>(channels);
    reals = carve.take<Real>(3 * channels);
    of_groups = carve.take<Real>(2 * sizes.all_groups());
    units = carve.take<UnitOfExample>(sizes.examples);
    saved = carve.take<std::byte>(0);
  }
  static int64_t bytes(const GroupSizes& sizes) {
    const int64_t channels = sizes.all_channels();
    return 3 * carved_bytes(channels, 8) + 4 * carved_bytes(channels, 4) +
           carved_bytes(3 * channels, sizeof(Real)) +
           carved_bytes(2 * sizes.all_groups(), sizeof(Real)) +
           carved_bytes(sizes.examples, sizeof(UnitOfExample)) + GroupNormSaved::bytes(sizes);
  }
};

inline GroupNormSaved saved_of(const OpContext& c, const GroupSizes& sizes) {
  if (c.memory.saved != nullptr) return {c.memory.saved, sizes};
  return {GroupNormWorkspace(c.memory.workspace, sizes).saved, sizes};
}

// Calls function(example) on all threads.
template <typename Function>
void for_examples(const OpContext& c, const GroupSizes& sizes, const Function& function) {
  kernels::parallel_ranges(*c.kernel.pool, sizes.examples, 1,
                           [&](int64_t begin, int64_t end, int64_t) {
                             for (int64_t n = begin; n < end; ++n) function(n);
                           });
}

// As batch norm's pass over pieces of rows: piece(begin, end, seen, example) gets rows of one
// example.
template <typename Piece, typename WideOf>
kernels::WideStatistics write_examples(const OpContext& c, const GroupSizes& sizes, const Tensor& to,
                                       const kernels::PassCounts& counts, const Piece& piece,
                                       const WideOf& wide_of) {
  return write_pieces(
      c, to, sizes.examples * sizes.rows, batch_norm_grain(sizes.channels), counts,
      [&](int64_t begin, int64_t end, uint64_t seen) {
        kernels::WideStatistics found;
        for (int64_t at = begin, next = 0; at < end; at = next) {
          const int64_t example = at / sizes.rows;
          next = std::min(end, (example + 1) * sizes.rows);
          found += piece(at, next, std::max(seen, found.maximum), example);
        }
        return found;
      },
      wide_of);
}

// group_norm_gradient.cpp
void group_norm_backward_weights(const OpContext& context);
void group_norm_backward_input(const OpContext& context);

}  // namespace mantissa::ops

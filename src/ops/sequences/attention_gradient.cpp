// The backward pass of attention: P again, from it the gradients of the scores, and from these the
// gradients of queries, keys, values and the bias.
#include "ops/sequences/attention_gradient.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>

#include "kernels/kernel_table.h"
#include "ops/narrowing.h"
#include "ops/sequences/attention_heads.h"

namespace mantissa::ops {
namespace {

// Bits after the point of the backward pass: of probabilities, of products of two of them, and one
// more of the shift of scores' gradients, which keeps these within int32.
struct ProbabilityUnits {
  int one, product, shift;
};

ProbabilityUnits units_of(const OpContext& c) {
  const bool is_relative =
      c.attributes<AttentionAttributes>().probabilities == Probabilities::kOfRow;
  constexpr int kBits = REF_GRADIENT_PROBABILITY_BITS;
  return is_relative ? ProbabilityUnits{kBits, kBits, 23}
                     : ProbabilityUnits{kernels::kProbabilityBits, 2 * kernels::kProbabilityBits, 22};
}

// The gradients of one head in units that keep all sums within int64.
kernels::AttentionGradient gradient_of_head(const OpContext& c, const AttentionSizes& s) {
  const Real scale = Real(1) / sqrt(Real(s.channels));
  constexpr int64_t kMostScale = int64_t{1} << kernels::kGradientScaleBits;
  const int bits = bit_length(static_cast<uint64_t>(s.channels - 1));
  return {.grad_out_bits = c.grad_output().bits,
          .grad_p_shift =
              std::max(0, c.grad_output().bits - 16) + std::max(0, s.v.shared_bits() - 8),
          .scale = to_fixed_point(scale, fixed_point_shift(scale, kernels::kGradientScaleBits),
                                  kMostScale),
          .shift = units_of(c).shift + bits,
          .stride = s.width,
          .key_stride = s.key_width};
}

// The exponents of a segment's wide gradients, by input. Those of the first two depend on the rows
// of the others.
using InputExponents = std::array<int, 3>;

// The exponent of the gradient of a segment's scores.
int score_exponent(const OpContext& c, const AttentionSizes& s,
                   const kernels::AttentionGradient& g, const Segment& at) {
  const Real scale = Real(1) / sqrt(Real(s.channels));
  const int64_t valid = valid_keys(c, s, at);
  return *c.grad_output().exponent + key_exponent(c.inputs[2], s, at, valid) +
         g.grad_p_shift - units_of(c).product + g.shift -
         fixed_point_shift(scale, kernels::kGradientScaleBits);
}

InputExponents gradient_exponents(const OpContext& c, const AttentionSizes& s,
                                  const kernels::AttentionGradient& g, const Segment& at) {
  const int64_t valid = valid_keys(c, s, at);
  const int scores = score_exponent(c, s, g, at);
  return {scores + key_exponent(c.inputs[1], s, at, valid),
          scores + query_exponent(c.inputs[0], s, at, valid_queries(c, s, at)),
          *c.grad_output().exponent - units_of(c).one};
}

// The largest exponent of scores' gradients: those of the bias get it.
int bias_exponent(const OpContext& c, const AttentionSizes& s,
                  const kernels::AttentionGradient& g) {
  int largest = score_exponent(c, s, g, segment_of_row(c, s.queries, 0));
  if (!has_rows(c.inputs[2])) return largest;
  for_all_segments(c, s, [&](const Segment& at) {
    largest = std::max(largest, score_exponent(c, s, g, at));
  });
  return largest;
}

// The exponents that all segments' gradients get.
InputExponents largest_exponents(const OpContext& c, const AttentionSizes& s,
                                 const kernels::AttentionGradient& g) {
  InputExponents largest = gradient_exponents(c, s, g, segment_of_row(c, s.queries, 0));
  if (!has_rows(c.inputs[0])) return largest;
  for_all_segments(c, s, [&](const Segment& at) {
    const InputExponents found = gradient_exponents(c, s, g, at);
    for (size_t i = 0; i < found.size(); ++i) largest[i] = std::max(largest[i], found[i]);
  });
  return largest;
}

// Adds a head's sums to those of all sequences. Whole numbers add up alike in any order.
void add_bias_sums(const int64_t* sums, int shift, int64_t count, int64_t* totals) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t part = rescale_rne(sums[i], shift);
    if (part != 0) std::atomic_ref(totals[i]).fetch_add(part, std::memory_order_relaxed);
  }
}

// `bias`: the exponent of the bias's sums, if they are wanted.
void backward_head(const OpContext& c, const AttentionSizes& s, const HeadOf& at,
                   const HeadRoom& room, const WideResults& wide, std::optional<int> bias) {
  const int64_t valid = valid_keys(c, s, at.segment);
  const QueryRun all{0, valid_queries(c, s, at.segment),
                     key_exponent(c.inputs[1], s, at.segment, valid),
                     key_exponent(c.inputs[2], s, at.segment, valid)};
  const int64_t first = s.first_key(at.segment);
  if (at.place == 0) {
    pack_keys(c, c.inputs[1], first, valid, at.key_head, all.k_exponent, s, room.k);
    pack_keys(c, c.inputs[2], first, valid, at.key_head, all.v_exponent, s, room.v);
  }
  const kernels::AttentionHead head = pack(c, s, at, all, room, wide.bias, true);
  pack_rows(c.grad_output(), at.offset, head.queries, s.channels, room.grad_out);
  kernels::AttentionGradient g = gradient_of_head(c, s);
  g.grad_out = room.grad_out;
  g.grad_q = wide.q + at.offset;
  g.grad_k = wide.k + at.key_offset;
  g.grad_v = wide.v + at.key_offset;
  g.adds_to_keys = at.place > 0;
  if (bias) {
    g.grad_bias = room.grad_bias;
    std::fill_n(g.grad_bias, s.bias_table, int64_t{0});
  }
  c.kernel.table->attention->backward(head, room.kernel, g);
  clear_padding(s, at, head.queries, wide.q);
  if (!bias) return;
  add_bias_sums(g.grad_bias, *bias - score_exponent(c, s, g, at.segment), s.bias_table,
                wide.grad_bias + at.head * s.bias_table);
}

// Brings a segment's wide gradients to the exponents of all. These are the largest, so the rounded
// bits lie far below the bits that narrowing leaves.
void align_segment(const OpContext& c, const AttentionSizes& s, const kernels::AttentionGradient& g,
                   const InputExponents& to, const WideResults& wide, const Segment& at) {
  const InputExponents from = gradient_exponents(c, s, g, at);
  const int64_t keys = is_packed(c) ? at.rows : s.keys;
  int64_t* const firsts[] = {wide.q + s.first_query(at) * s.width,
                             wide.k + s.first_key(at) * s.key_width,
                             wide.v + s.first_key(at) * s.key_width};
  const int64_t sizes[] = {at.rows * s.width, keys * s.key_width, keys * s.key_width};
  for (size_t i = 0; i < from.size(); ++i) {
    const int shift = to[i] - from[i];
    if (shift == 0) continue;
    for (int64_t k = 0; k < sizes[i]; ++k) firsts[i][k] = rescale_rne(firsts[i][k], shift);
  }
}

void align_segments(const OpContext& c, const AttentionSizes& s,
                    const kernels::AttentionGradient& g, const InputExponents& to,
                    const WideResults& wide) {
  kernels::parallel_ranges(*c.kernel.pool, s.sequences, 1,
                           [&](int64_t begin, int64_t end, int64_t) {
                             for (int64_t i = begin; i < end; ++i) {
                               for_segments(c, s.queries, i, [&](const Segment& at) {
                                 align_segment(c, s, g, to, wide, at);
                               });
                             }
                           });
}

// Fills the wide gradients, those of the bias if they are wanted.
void go_back(const OpContext& c, const AttentionSizes& s, const WideResults& wide, bool of_bias) {
  const kernels::AttentionGradient g = gradient_of_head(c, s);
  std::optional<int> bias;
  if (of_bias) {
    bias = bias_exponent(c, s, g);
    std::fill_n(wide.grad_bias, s.heads * s.bias_table, int64_t{0});
  }
  prepare_bias(c, s, wide.bias);
  for_key_heads(c, s, wide.rooms, true,
                [&](const Segment& at, int64_t first, const HeadRoom& room) {
                  for (int64_t i = first; i < first + s.group; ++i) {
                    backward_head(c, s, HeadOf(s, at, i), room, wide, bias);
                  }
                });
  if (has_rows(c.inputs[0])) align_segments(c, s, g, largest_exponents(c, s, g), wide);
}

}  // namespace

void attention_backward(const OpContext& c) {
  const AttentionSizes s(c);
  const WideResults wide(c.memory.workspace, s, true);
  if (!c.memory.workspace_is_left) go_back(c, s, wide, false);
  const InputExponents exponents = largest_exponents(c, s, gradient_of_head(c, s));
  const int64_t* sums[] = {wide.q, wide.k, wide.v};
  for (int i = 0; i < 3; ++i) {
    const Tensor& gradient = c.grad_inputs[i];
    if (gradient.empty()) continue;
    narrow_gradient(c, gradient, exponents[i], [&](int shift, const kernels::PassCounts& counts) {
      return narrow_wide(c, sums[i], gradient, true, shift, counts);
    });
  }
}

void attention_backward_bias(const OpContext& c) {
  constexpr int kRootBits = 15, kMostSumBits = 62 - kRootBits;
  const AttentionSizes s(c);
  const WideResults wide(c.memory.workspace, s, true);
  go_back(c, s, wide, true);
  const Tensor& gradient = c.parameters[0].gradient;
  const Real root = sqrt(Real(s.channels));
  const int fraction = fixed_point_shift(root, kRootBits);
  const int64_t factor = to_fixed_point(root, fraction, int64_t{1} << kRootBits);
  const int shift = *gradient.exponent - bias_exponent(c, s, gradient_of_head(c, s)) + fraction;
  for (int64_t i = 0; i < gradient.count(); ++i) {
    const int below = std::max(0, bit_length(magnitude(wide.grad_bias[i])) - kMostSumBits);
    const int64_t product = shift_right_rne(wide.grad_bias[i], below) * factor;
    int64_t& total = gradient.as<int64_t>()[i];
    total = accumulate(total, rescale_rne(product, shift - below));
  }
}

}  // namespace mantissa::ops

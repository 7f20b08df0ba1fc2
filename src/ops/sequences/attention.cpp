// Scaled dot-product attention of several heads, self or cross, causal or not, with padding. Head
// by head and row by row: no tensor has queries times keys elements. Source: METHODS, "Exact
// non-linear functions"; exponents in docs/operators.md.
#include <algorithm>
#include <array>
#include <string>

#include "kernels/kernel_table.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/sequences/attention_heads.h"

namespace mantissa::ops {
namespace {

constexpr AttributeSpec kSchema[] = {whole<&AttentionAttributes::heads>("heads", 1, 1, 4096),
                                     whole<&AttentionAttributes::kv_heads>("kv_heads", 0, 0, 4096),
                                     flag<&AttentionAttributes::causal>("causal", false),
                                     flag<&AttentionAttributes::cross>("cross", false),
                                     whole<&AttentionAttributes::window>("window", 0, 0,
                                                                         kernels::kMostQueries)};
// Queries, keys, values, and how many positions of each sequence are no padding.
constexpr Element kInputElements[] = {Element::kMantissa, Element::kMantissa, Element::kMantissa,
                                      Element::kIndex};

bool same_front(const Shape& a, const Shape& b, int dims) {
  return a.rank == b.rank && std::equal(a.dims.begin(), a.dims.begin() + dims, b.dims.begin());
}

Status check_heads(const AttentionAttributes& attributes, const Shape& q, const Shape& k) {
  const int64_t heads = attributes.heads, key_heads = attributes.key_heads();
  if (q.last() % heads != 0 || q.last() / heads > kernels::kMostHeadChannels) {
    return invalid_input("wants heads that divide " + std::to_string(q.last()) +
                         " channels into at most " + std::to_string(kernels::kMostHeadChannels) +
                         " each");
  }
  if (heads % key_heads != 0) {
    return invalid_input("wants kv_heads that divide " + std::to_string(heads) + " heads, not " +
                         std::to_string(key_heads));
  }
  const int64_t channels = q.last() / heads * key_heads;
  if (k.last() != channels) {
    return invalid_input("wants keys and values of " + std::to_string(channels) +
                         " channels for queries " + to_string(q) + ", got " + to_string(k));
  }
  // The sum of a key's gradients over all queries that meet it stays exact.
  const int64_t most = kernels::kMostQueries / (heads / key_heads);
  if (q[q.rank - 2] > most || k[k.rank - 2] > kernels::kMostQueries) {
    return invalid_input("wants at most " + std::to_string(most) + " positions");
  }
  return {};
}

Result<Shape> infer(const Attributes& given, std::span<const Shape> inputs) {
  const auto& attributes = given.as<AttentionAttributes>();
  const bool has_lengths = inputs.size() == 4;
  if ((inputs.size() != 3 && !has_lengths) || inputs[0].rank < 2) {
    return invalid_input(
        "wants queries, keys and values, [..., positions, C] each, and perhaps lengths");
  }
  const Shape &q = inputs[0], &k = inputs[1], &v = inputs[2];
  const bool has_channels = attributes.kv_heads != 0 || q.last() == k.last();
  if (k != v || !same_front(q, k, q.rank - 2) || !has_channels) {
    return invalid_input("wants queries, keys and values of as many channels, got " + to_string(q) +
                         ", " + to_string(k) + " and " + to_string(v));
  }
  MANTISSA_RETURN_IF_ERROR(check_heads(attributes, q, k));
  const bool is_cross = attributes.cross;
  if (is_cross && attributes.window != 0) {
    return invalid_input("has a window within one sequence, not across two");
  }
  if (is_cross && attributes.causal) {
    return invalid_input("is causal within one sequence, not across two");
  }
  if (!is_cross && q[q.rank - 2] != k[k.rank - 2]) {
    return invalid_input("wants as many queries as keys, but with 'cross'");
  }
  if (has_lengths && (q.rank != 2 || inputs[3].rank != 0)) {
    return invalid_input("wants one length for an example's one sequence");
  }
  return q;
}

int64_t workspace_bytes(const AttentionSizes& s, int threads, bool is_backward, bool is_cached) {
  const int64_t parts = std::min<int64_t>(threads, kernels::kMaximumParts);
  return WideResults(nullptr, s, is_backward).bytes +
         parts * HeadRoom(nullptr, s, is_backward, is_cached).bytes;
}

OpMemory memory(const OpShapes& shapes, const PlanningContext& planning) {
  const AttentionSizes s(shapes.attributes->as<AttentionAttributes>(), shapes.inputs[0],
                         shapes.inputs[1], shapes.cached_positions);
  const bool is_cached = shapes.cached_positions > 0;
  const auto room = [&](bool is_backward) -> RowMemory {
    return {.workspace_bytes = workspace_bytes(s, planning.threads, is_backward, is_cached)};
  };
  return {.cache_bytes = is_cached ? 2 * s.key_heads * s.key_bytes() : 0,
          .forward = room(false),
          .grad_input = room(true)};
}

// The largest magnitude of wide values.
uint64_t maximum_of(const OpContext& c, const int64_t* wide, const Tensor& tensor) {
  return narrow_wide(c, wide, tensor, false, 0).maximum;
}

void forward(const OpContext& c) {
  const AttentionSizes s(c);
  const WideResults wide(c.memory.workspace, s, false);
  for_heads(c, s, wide.rooms, false, [&](const HeadOf& at, const HeadRoom& room) {
    const kernels::AttentionHead head = pack(c, s, at, room, false);
    if (head.queries > 0) {
      c.kernel.table->attention->forward(head, room.kernel, wide.q + at.offset, s.width);
    }
    clear_padding(s, at, head.queries, wide.q);
  });
  if (has_rows(c.output())) {
    const auto exponent_at = [&](int64_t row) {
      const int64_t sequence = row / s.queries;
      return key_exponent(c.inputs[2], s, sequence, valid_keys(c, s, sequence)) -
             kernels::kProbabilityBits;
    };
    return write_rows(c, exponent_at, [&](int64_t row, int, int64_t* row_wide) {
      std::copy_n(wide.q + row * s.width, s.width, row_wide);
    });
  }
  const int wide_exponent = *c.inputs[2].exponent - kernels::kProbabilityBits;
  calibrate(c, wide_exponent, [&](int64_t i) { return wide.q[i]; });
  const auto write = [&](int shift, const kernels::PassCounts& counts) {
    return narrow_wide(c, wide.q, c.output(), true, shift, counts).saturated;
  };
  narrow_by_maximum(c, maximum_of(c, wide.q, c.output()), wide_exponent, write);
}

// The gradients of one head in units that keep all sums within int64.
kernels::AttentionGradient gradient_of_head(const OpContext& c, const AttentionSizes& s) {
  const Real scale = Real(1) / sqrt(Real(s.channels));
  constexpr int64_t kMostScale = int64_t{1} << kernels::kGradientScaleBits;
  const int bits = bit_length(static_cast<uint64_t>(s.channels - 1));
  return {.grad_out_bits = c.grad_output().bits,
          .grad_p_shift =
              std::max(0, c.grad_output().bits - 16) + std::max(0, shared_bits(c.inputs[2]) - 8),
          .scale = to_fixed_point(scale, fixed_point_shift(scale, kernels::kGradientScaleBits),
                                  kMostScale),
          .shift = 22 + bits,
          .stride = s.width,
          .key_stride = s.key_width};
}

// The exponents of a sequence's wide gradients, by input. Those of the first two depend on the rows
// of the others.
using InputExponents = std::array<int, 3>;

InputExponents gradient_exponents(const OpContext& c, const AttentionSizes& s,
                                  const kernels::AttentionGradient& g, int64_t sequence) {
  const Real scale = Real(1) / sqrt(Real(s.channels));
  const int64_t valid = valid_keys(c, s, sequence);
  const int scores = *c.grad_output().exponent + key_exponent(c.inputs[2], s, sequence, valid) +
                     g.grad_p_shift - 2 * kernels::kProbabilityBits + g.shift -
                     fixed_point_shift(scale, kernels::kGradientScaleBits);
  return {scores + key_exponent(c.inputs[1], s, sequence, valid),
          scores + query_exponent(c.inputs[0], s, sequence, valid_queries(c, s, sequence)),
          *c.grad_output().exponent - kernels::kProbabilityBits};
}

// The exponents that all sequences' gradients get.
InputExponents largest_exponents(const OpContext& c, const AttentionSizes& s,
                                 const kernels::AttentionGradient& g) {
  InputExponents largest = gradient_exponents(c, s, g, 0);
  if (!has_rows(c.inputs[0])) return largest;
  for (int64_t sequence = 1; sequence < s.sequences; ++sequence) {
    const InputExponents found = gradient_exponents(c, s, g, sequence);
    for (size_t i = 0; i < found.size(); ++i) largest[i] = std::max(largest[i], found[i]);
  }
  return largest;
}

void backward_head(const OpContext& c, const AttentionSizes& s, const HeadOf& at,
                   const HeadRoom& room, const WideResults& wide) {
  const kernels::AttentionHead head = pack(c, s, at, room, true);
  pack_rows(c.grad_output(), at.offset, head.queries, s, room.grad_out);
  kernels::AttentionGradient g = gradient_of_head(c, s);
  g.grad_out = room.grad_out;
  g.grad_q = wide.q + at.offset;
  g.grad_k = wide.k + at.key_offset;
  g.grad_v = wide.v + at.key_offset;
  g.adds_to_keys = at.place > 0;
  c.kernel.table->attention->backward(head, room.kernel, g);
  clear_padding(s, at, head.queries, wide.q);
}

// Brings a sequence's wide gradients to the exponents of all. These are the largest, so the rounded
// bits lie far below the bits that narrowing leaves.
void align_sequence(const OpContext& c, const AttentionSizes& s,
                    const kernels::AttentionGradient& g, const InputExponents& to,
                    const WideResults& wide, int64_t sequence) {
  const InputExponents from = gradient_exponents(c, s, g, sequence);
  int64_t* const gradients[] = {wide.q, wide.k, wide.v};
  const int64_t sizes[] = {s.queries * s.width, s.keys * s.key_width, s.keys * s.key_width};
  for (size_t i = 0; i < from.size(); ++i) {
    const int shift = to[i] - from[i];
    int64_t* const first = gradients[i] + sequence * sizes[i];
    if (shift == 0) continue;
    for (int64_t k = 0; k < sizes[i]; ++k) first[k] = rescale_rne(first[k], shift);
  }
}

void align_sequences(const OpContext& c, const AttentionSizes& s,
                     const kernels::AttentionGradient& g, const InputExponents& to,
                     const WideResults& wide) {
  kernels::parallel_ranges(*c.kernel.pool, s.sequences, 1,
                           [&](int64_t begin, int64_t end, int64_t) {
                             for (int64_t sequence = begin; sequence < end; ++sequence) {
                               align_sequence(c, s, g, to, wide, sequence);
                             }
                           });
}

void backward(const OpContext& c) {
  const AttentionSizes s(c);
  const WideResults wide(c.memory.workspace, s, true);
  for_heads(c, s, wide.rooms, true,
            [&](const HeadOf& at, const HeadRoom& room) { backward_head(c, s, at, room, wide); });
  const kernels::AttentionGradient g = gradient_of_head(c, s);
  const InputExponents exponents = largest_exponents(c, s, g);
  if (has_rows(c.inputs[0])) align_sequences(c, s, g, exponents, wide);
  const int64_t* sums[] = {wide.q, wide.k, wide.v};
  for (int i = 0; i < 3; ++i) {
    const Tensor& gradient = c.grad_inputs[i];
    if (gradient.empty()) continue;
    narrow_gradient(c, gradient, exponents[i], [&](int shift, const kernels::PassCounts& counts) {
      return narrow_wide(c, sums[i], gradient, true, shift, counts);
    });
  }
}

int64_t multiply_adds(const OpShapes& shapes) {
  const AttentionSizes s(shapes.attributes->as<AttentionAttributes>(), shapes.inputs[0],
                         shapes.inputs[1], shapes.cached_positions);
  const auto& attributes = shapes.attributes->as<AttentionAttributes>();
  const int64_t all = 2 * s.sequences * s.queries * s.width;
  const int64_t sides = attributes.causal ? 1 : 2;
  if (attributes.window != 0) return all * std::min(s.keys, sides * attributes.window);
  return attributes.causal ? all * s.keys / 2 : all * s.keys;
}

}  // namespace

const Op kAttention = {.name = "attention",
                       .traits = {.takes = TakenExponents::kOfRows},
                       .attributes = schema<AttentionAttributes>(kSchema),
                       .infer_shape = infer,
                       .input_elements = kInputElements,
                       .multiply_adds = multiply_adds,
                       .integer = {.memory = memory,
                                   .forward = {.run = forward},
                                   .grad_input = {.run = backward},
                                   .kernel = kernel_name<&kernels::KernelTable::attention>},
                       .emit_gradient = emit_gradient_by_inputs,
                       .fp32 = &fp32::kAttention};

}  // namespace mantissa::ops

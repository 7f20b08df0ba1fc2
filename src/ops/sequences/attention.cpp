// Scaled dot-product attention of several heads, self or cross, causal or not, with padding. Head
// by head and row by row: no tensor has queries times keys elements. Source: METHODS, "Exact
// non-linear functions"; exponents in docs/operators.md.
#include <algorithm>
#include <string>

#include "kernels/kernel_table.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/sequences/attention_gradient.h"
#include "ops/sequences/attention_heads.h"

namespace mantissa::ops {
namespace {

constexpr AttributeSpec kSchema[] = {whole<&AttentionAttributes::heads>("heads", 1, 1, 4096),
                                     whole<&AttentionAttributes::kv_heads>("kv_heads", 0, 0, 4096),
                                     flag<&AttentionAttributes::causal>("causal", false),
                                     flag<&AttentionAttributes::cross>("cross", false),
                                     whole<&AttentionAttributes::window>("window", 0, 0,
                                                                         kernels::kMostQueries),
                                     whole<&AttentionAttributes::bias_height>(
                                         "bias_height", 1, 1, kernels::kMostQueries),
                                     whole<&AttentionAttributes::bias_width>(
                                         "bias_width", 0, 0, kernels::kMostQueries),
                                     text<&AttentionAttributes::probabilities>(
                                         "probabilities", "fixed", "fixed row"),
                                     whole<&AttentionAttributes::input_bits>("input_bits", 0, 0,
                                                                             16)};
// Queries, keys, values, and how many positions of each sequence are no padding, or where the
// segments of packed ones begin (segments.h).
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

// Whether the biases are those of so many positions.
Status check_bias(const AttentionAttributes& a, int64_t positions) {
  if (a.bias_width == 0) {
    if (a.bias_height == 1) return {};
    return invalid_input("has a bias_height, and wants a bias_width with it");
  }
  if (a.cross) return invalid_input("has a bias by distance within one sequence, not across two");
  if (a.bias_height == 1 && positions <= a.bias_width) return {};
  if (a.bias_height > 1 && positions == a.bias_height * a.bias_width) return {};
  return invalid_input("has biases for " +
                       (a.bias_height == 1 ? "" : std::to_string(a.bias_height) + " x ") +
                       std::to_string(a.bias_width) + " positions, and " +
                       std::to_string(positions) + " of them");
}

// The fourth input: a length, or the starts of segments.
Status check_fourth(const AttentionAttributes& attributes, const Shape& q, const Shape& fourth) {
  if (q.rank == 2 && fourth.rank == 0) return {};
  if (q.rank != 2 || fourth != Shape{q[0]}) {
    return invalid_input(
        "wants one length for an example's one sequence, or the start of the segment of each of "
        "its positions");
  }
  if (!attributes.cross && attributes.bias_height == 1) return {};
  return invalid_input("has no segments across two sequences, nor in a grid of positions");
}

Result<Shape> infer(const Attributes& given, std::span<const Shape> inputs) {
  const auto& attributes = given.as<AttentionAttributes>();
  const bool has_fourth = inputs.size() == 4;
  if ((inputs.size() != 3 && !has_fourth) || inputs[0].rank < 2) {
    return invalid_input(
        "wants queries, keys and values, [..., positions, C] each, and perhaps lengths, or the "
        "starts of segments");
  }
  const Shape &q = inputs[0], &k = inputs[1], &v = inputs[2];
  const bool has_channels = attributes.kv_heads != 0 || q.last() == k.last();
  if (k != v || !same_front(q, k, q.rank - 2) || !has_channels) {
    return invalid_input("wants queries, keys and values of as many channels, got " + to_string(q) +
                         ", " + to_string(k) + " and " + to_string(v));
  }
  MANTISSA_RETURN_IF_ERROR(check_heads(attributes, q, k));
  MANTISSA_RETURN_IF_ERROR(check_bias(attributes, q[q.rank - 2]));
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
  if (has_fourth) MANTISSA_RETURN_IF_ERROR(check_fourth(attributes, q, inputs[3]));
  return q;
}

// Biases are numbers of 16 bits and no weights: decay leaves them alone.
std::vector<Parameter> parameters(const Attributes& given, std::span<const Shape>) {
  const auto& attributes = given.as<AttentionAttributes>();
  if (attributes.bias_width == 0) return {};
  return {{.name = "bias",
           .shape = Shape{attributes.heads, attributes.biases_of_head()},
           .storage = Storage::kMantissa16}};
}

int64_t workspace_bytes(const AttentionSizes& s, int threads, bool is_backward) {
  const int64_t parts = std::min<int64_t>(threads, kernels::kMaximumParts);
  return WideResults(nullptr, s, is_backward).bytes +
         parts * HeadRoom(nullptr, s, is_backward).bytes;
}

OpMemory memory(const OpShapes& shapes, const PlanningContext& planning) {
  const AttentionSizes s(shapes);
  const auto room = [&](bool is_backward) -> RowMemory {
    return {.workspace_bytes = workspace_bytes(s, planning.threads, is_backward)};
  };
  return {.cache_bytes = shapes.cached_positions > 0 ? CachedKeys(nullptr, s).bytes : 0,
          .forward = room(false),
          .grad_input = room(true),
          .grad_weights = s.bias_table == 0 ? RowMemory{} : room(true)};
}

// The largest magnitude of wide values.
uint64_t maximum_of(const OpContext& c, const int64_t* wide, const Tensor& tensor) {
  return narrow_wide(c, wide, tensor, false, 0).maximum;
}

// The wide results of a segment's heads from `first` on, which share keys and values. These are
// packed once for each run of queries.
void forward_heads(const OpContext& c, const AttentionSizes& s, const WideResults& wide,
                   const Segment& segment, int64_t first, const HeadRoom& room) {
  const KeyRows rows = key_rows(c, s, segment);
  const int64_t queries = valid_queries(c, s, segment), first_query = s.first_query(segment);
  for_runs(queries, wide.k_exponents + first_query, wide.v_exponents + first_query,
           [&](const QueryRun& run) {
             for (int64_t i = first; i < first + s.group; ++i) {
               const HeadOf at(s, segment, i);
               const kernels::AttentionHead head = pack(c, s, at, run, room, wide.bias, false);
               if (i == first) {
                 pack_keys(c, rows.k, rows.first, head.valid_keys, at.key_head, run.k_exponent, s,
                           room.k);
                 pack_keys(c, rows.v, rows.first, head.valid_keys, at.key_head, run.v_exponent, s,
                           room.v);
               }
               int64_t* const to = wide.q + at.offset + run.begin * s.width;
               c.kernel.table->attention->forward(head, room.kernel, to, s.width);
             }
           });
  for (int64_t i = first; i < first + s.group; ++i) {
    clear_padding(s, HeadOf(s, segment, i), queries, wide.q);
  }
}

void forward(const OpContext& c) {
  const AttentionSizes s(c);
  const WideResults wide(c.memory.workspace, s, false);
  prepare_bias(c, s, wide.bias);
  remember_keys(c, s);
  for_all_segments(c, s, [&](const Segment& at) {
    const KeyRows rows = key_rows(c, s, at);
    const int64_t first = s.first_query(at);
    write_shared_exponents(c, s, at, rows.k, rows.first, wide.k_exponents + first);
    write_shared_exponents(c, s, at, rows.v, rows.first, wide.v_exponents + first);
  });
  for_key_heads(c, s, wide.rooms, false,
                [&](const Segment& at, int64_t first, const HeadRoom& room) {
                  forward_heads(c, s, wide, at, first, room);
                });
  if (has_rows(c.output())) {
    const auto exponent_at = [&](int64_t row) {
      return wide.v_exponents[row] - kernels::kProbabilityBits;
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

// The first instruction, of attention with a bias, leaves the gradients of the inputs.
void emit_attention_gradient(GradientEmitter& e) {
  e.emit(e.rows().grad_weights, {e.inputs(), e.grad_outputs(), e.sums()});
  e.emit(e.rows().grad_input,
         {e.inputs(), e.grad_outputs(), e.left_workspace(), e.grad_inputs()});
}

int64_t multiply_adds(const OpShapes& shapes) {
  const AttentionSizes s(shapes);
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
                       .parameters = parameters,
                       .multiply_adds = multiply_adds,
                       .integer = {.memory = memory,
                                   .forward = {.run = forward},
                                   .grad_input = {.run = attention_backward},
                                   .grad_weights = {.run = attention_backward_bias},
                                   .kernel = kernel_name<&kernels::KernelTable::attention>},
                       .emit_gradient = emit_attention_gradient,
                       .fp32 = &fp32::kAttention};

}  // namespace mantissa::ops

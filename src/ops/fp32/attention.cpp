// Attention in fp32: a head of a sequence at a time, in blocks of queries, so that no memory grows
// with queries times keys.
#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/sequences/segments.h"

namespace mantissa::ops::fp32 {
namespace {

using kernels::FloatProduct;
using kernels::panels_size;

constexpr int64_t kBlockQueries = 48;

// A head of keys and values serves `group` heads of queries.
struct Sizes {
  int64_t sequences, queries, new_keys, keys, width, key_width, heads, key_heads, group, channels;
  Sizes(const AttentionAttributes& attributes, const Shape& q, const Shape& k,
        int64_t cached_positions) {
    queries = q[q.rank - 2], new_keys = k[k.rank - 2], width = q.last(), key_width = k.last();
    heads = attributes.heads, key_heads = attributes.key_heads(), group = heads / key_heads;
    channels = width / heads;
    sequences = q.count() / (queries * width);
    keys = cached_positions > 0 ? cached_positions : new_keys;
  }
  explicit Sizes(const OpContext& c)
      : Sizes(c.attributes<AttentionAttributes>(), c.inputs[0].shape, c.inputs[1].shape,
              c.memory.cache.exists() ? c.memory.cache.positions : 0) {}
};

// A head of a segment: its rows of queries lie `width` apart, of keys and values `key_width`.
struct Head {
  const float *q, *k, *v;
  int64_t at, key_at, valid, queries, first_query, window;
  int64_t all_queries, all_keys;  // with padding
  float scale;
  bool is_causal, adds_to_keys;
  const float* bias = nullptr;  // by distance
  int64_t bias_height, bias_width;
  Head(const OpContext& c, const Sizes& s, const Segment& segment, int64_t head)
      : first_query(c.step.scalars->position) {
    const int64_t sequence = segment.sequence, channel = head / s.group * s.channels;
    at = (sequence * s.queries + segment.first) * s.width + head * s.channels;
    key_at = (sequence * s.new_keys + segment.first) * s.key_width + channel;
    all_queries = segment.rows;
    all_keys = is_packed(c) ? segment.rows : s.new_keys;
    q = c.inputs[0].as<float>() + at;
    k = c.inputs[1].as<float>() + key_at;
    v = c.inputs[2].as<float>() + key_at;
    if (c.memory.cache.exists()) {
      auto* const rows = reinterpret_cast<float*>(c.memory.cache.of(sequence)) + channel;
      k = remember(s, k, rows);
      v = remember(s, v, rows + s.keys * s.key_width);
    }
    valid = is_packed(c) ? segment.rows : valid_keys(c, s, sequence);
    queries = c.attributes<AttentionAttributes>().cross ? s.queries : std::min(s.queries, valid);
    scale = 1 / std::sqrt(static_cast<float>(s.channels));
    is_causal = c.attributes<AttentionAttributes>().causal;
    window = c.attributes<AttentionAttributes>().window;
    adds_to_keys = head % s.group > 0;
    bias_height = c.attributes<AttentionAttributes>().bias_height;
    bias_width = c.attributes<AttentionAttributes>().bias_width;
    const int64_t biases = c.attributes<AttentionAttributes>().biases_of_head();
    if (biases > 0) bias = c.parameters[0].mantissa.as<float>() + head * biases;
  }
  // The keys of a sequence that are no padding.
  static int64_t valid_keys(const OpContext& c, const Sizes& s, int64_t sequence) {
    const int64_t length = c.inputs.size() < 4 ? s.keys : c.inputs[3].as<int32_t>()[sequence];
    return std::clamp<int64_t>(length, 0, s.keys);
  }
  // The place of the bias of a query and a key.
  int64_t bias_at(int64_t query, int64_t key) const {
    const int64_t from = first_query + query;
    const int64_t down = from / bias_width - key / bias_width,
                  right = from % bias_width - key % bias_width;
    return (down + bias_height - 1) * (2 * bias_width - 1) + right + bias_width - 1;
  }
  // The query meets the keys from the first one up to, and without, the other.
  int64_t keys_of(int64_t query) const {
    if (!is_causal && window == 0) return valid;
    return std::min(valid, first_query + query + (is_causal ? 1 : window));
  }
  int64_t first_key_of(int64_t query) const {
    return window == 0
               ? 0
               : std::clamp<int64_t>(first_query + query + 1 - window, 0, keys_of(query));
  }

  // Adds the rows of a piece to the rows of the positions before it, and returns both.
  const float* remember(const Sizes& s, const float* rows, float* all) const {
    for (int64_t i = 0; i < s.new_keys; ++i) {
      std::copy_n(rows + i * s.key_width, s.channels, all + (first_query + i) * s.key_width);
    }
    return all;
  }
};

// A thread's scratch. Panels of a head's keys and values, by channels and as columns of the
// products with queries; a block's probabilities; and backward the gradients of the scores, and
// panels of a block's queries and gradients.
struct Room {
  float *key_columns, *values, *p, *keys, *value_columns, *grad_scores, *queries, *grad_out;
  int64_t floats = 0;

  Room(const Sizes& s, float* base, bool backward) {
    const auto take = [&](int64_t count) { return base + std::exchange(floats, floats + count); };
    const int64_t columns = panels_size(s.channels, s.keys), rows = panels_size(s.keys, s.channels);
    const int64_t scores = kBlockQueries * s.keys;
    key_columns = take(columns);
    p = take(scores);
    values = take(backward ? 0 : rows);
    keys = take(backward ? rows : 0);
    value_columns = take(backward ? columns : 0);
    grad_scores = take(backward ? scores : 0);
    queries = take(backward ? panels_size(kBlockQueries, s.channels) : 0);
    grad_out = take(backward ? panels_size(kBlockQueries, s.channels) : 0);
  }
};

// Keys and values of the positions before. Those of another sequence come with each piece.
OpMemory memory(const OpShapes& shapes, const PlanningContext& planning) {
  const Sizes s(shapes.attributes->as<AttentionAttributes>(), shapes.inputs[0], shapes.inputs[1],
                shapes.cached_positions);
  const auto scratch = [&](bool backward) {
    return planning.threads * Room(s, nullptr, backward).floats * int64_t{sizeof(float)};
  };
  OpMemory memory;
  memory.forward.scratch_bytes = scratch(false);
  memory.grad_input.scratch_bytes = scratch(true);
  if (shapes.attributes->as<AttentionAttributes>().bias_width > 0) {
    memory.grad_weights.scratch_bytes = scratch(true);
  }
  if (!shapes.attributes->as<AttentionAttributes>().cross) {
    memory.cache_bytes =
        2 * shapes.cached_positions * shapes.inputs[1].last() * int64_t{sizeof(float)};
  }
  return memory;
}

// The queries [first, first + count) that attend to a key, and the keys of the last of them.
struct Block {
  int64_t first, count, keys;
};

// Zeros for a head's rows from `first` on.
void clear(int64_t channels, float* rows, int64_t width, int64_t first, int64_t count) {
  for (int64_t i = first; i < count; ++i) std::fill_n(rows + i * width, channels, 0.0F);
}

// A head's computation: its kernels, sizes, rows and scratch.
struct Computation {
  const kernels::FloatKernels& kernels;
  const Sizes& s;
  const Head& head;
  const Room& room;

  template <typename Visit>
  void for_blocks(const Visit& visit) const {
    for (int64_t i = 0; i < head.queries; i += kBlockQueries) {
      const int64_t count = std::min(kBlockQueries, head.queries - i);
      visit(Block{i, count, head.keys_of(i + count - 1)});
    }
  }

  // rows [count, channels] times columns of keys or values: [count, keys].
  void scores(const Block& block, const float* rows, const float* columns, float* to) const {
    kernels.product({.rows = block.count,
                     .columns = block.keys,
                     .depth = s.channels,
                     .a = rows + block.first * s.width,
                     .a_row = s.width,
                     .b = columns,
                     .panel_depth = s.channels,
                     .c = to,
                     .c_row = s.keys});
  }

  // The probabilities; zero before a query's first key and after its last.
  void probabilities(const Block& block) const {
    scores(block, head.q, room.key_columns, room.p);
    for (int64_t i = 0; i < block.count; ++i) {
      float* const row = room.p + i * s.keys;
      const int64_t keys = head.keys_of(block.first + i);
      const int64_t first = head.first_key_of(block.first + i);
      std::fill_n(row, first, 0.0F);
      for (int64_t j = first; head.bias != nullptr && j < keys; ++j) {
        row[j] += head.bias[head.bias_at(block.first + i, j)] / head.scale;
      }
      kernels.softmax(row + first, keys - first, head.scale);
      std::fill(row + keys, row + block.keys, 0.0F);
    }
  }

  // weights [count, keys] times rows of keys or values: [count, channels].
  void means(const Block& block, const float* weights, const float* rows, float* to) const {
    kernels.product({.rows = block.count,
                     .columns = s.channels,
                     .depth = block.keys,
                     .a = weights,
                     .a_row = s.keys,
                     .b = rows,
                     .panel_depth = head.valid,
                     .c = to + block.first * s.width,
                     .c_row = s.width});
  }

  // Adds weights [count, keys], transposed, times rows of queries or gradients: [keys, channels].
  void add_to_keys(const Block& block, const float* weights, const float* rows, float* to) const {
    kernels.product({.rows = block.keys,
                     .columns = s.channels,
                     .depth = block.count,
                     .a = weights,
                     .a_row = 1,
                     .a_depth = s.keys,
                     .b = rows,
                     .panel_depth = block.count,
                     .c = to,
                     .c_row = s.key_width,
                     .adds = true});
  }

  // Writes a head's result.
  void forward(float* out) const {
    kernels.pack_columns(head.k, s.key_width, s.channels, head.valid, room.key_columns);
    kernels.pack(head.v, s.key_width, head.valid, s.channels, room.values);
    for_blocks([&](const Block& block) {
      probabilities(block);
      means(block, room.p, room.values, out);
    });
    clear(s.channels, out, s.width, head.queries, head.all_queries);
  }

  // room.grad_scores of a block, whose probabilities are there.
  void gradient_of_scores(const Block& block, const float* grad_out) const {
    scores(block, grad_out, room.value_columns, room.grad_scores);
    for (int64_t i = 0; i < block.count; ++i) {
      kernels.softmax_backward(room.p + i * s.keys, room.grad_scores + i * s.keys, block.keys,
                               head.scale);
    }
  }

  // Adds a head's gradient of the bias.
  void add_to_bias(const float* grad_out, float* to) const {
    kernels.pack_columns(head.k, s.key_width, s.channels, head.valid, room.key_columns);
    kernels.pack_columns(head.v, s.key_width, s.channels, head.valid, room.value_columns);
    for_blocks([&](const Block& block) {
      probabilities(block);
      gradient_of_scores(block, grad_out);
      for (int64_t i = 0; i < block.count; ++i) {
        const int64_t query = block.first + i, keys = head.keys_of(query);
        for (int64_t j = head.first_key_of(query); j < keys; ++j) {
          to[head.bias_at(query, j)] += room.grad_scores[i * s.keys + j] / head.scale;
        }
      }
    });
  }

  // Writes a head's gradients; those that nobody wants are null.
  void backward(const float* grad_out, float* to_q, float* to_k, float* to_v) const {
    kernels.pack_columns(head.k, s.key_width, s.channels, head.valid, room.key_columns);
    kernels.pack_columns(head.v, s.key_width, s.channels, head.valid, room.value_columns);
    kernels.pack(head.k, s.key_width, head.valid, s.channels, room.keys);
    for (float* const to : {to_k, to_v}) {
      if (to != nullptr && !head.adds_to_keys) clear(s.channels, to, s.key_width, 0, head.all_keys);
    }
    for_blocks([&](const Block& block) {
      const int64_t at = block.first * s.width;
      probabilities(block);
      gradient_of_scores(block, grad_out);
      if (to_q != nullptr) means(block, room.grad_scores, room.keys, to_q);
      if (to_k != nullptr) {
        kernels.pack(head.q + at, s.width, block.count, s.channels, room.queries);
        add_to_keys(block, room.grad_scores, room.queries, to_k);
      }
      if (to_v != nullptr) {
        kernels.pack(grad_out + at, s.width, block.count, s.channels, room.grad_out);
        add_to_keys(block, room.p, room.grad_out, to_v);
      }
    });
    if (to_q != nullptr) clear(s.channels, to_q, s.width, head.queries, head.all_queries);
  }
};

// Calls visit(computation) for each head of each segment, on several threads. Heads that share keys
// follow each other on one thread.
template <typename Visit>
void for_heads(const OpContext& c, bool backward, const Visit& visit) {
  const Sizes s(c);
  auto* const scratch = reinterpret_cast<float*>(c.kernel.scratch.data());
  const int64_t floats = Room(s, scratch, backward).floats;
  kernels::parallel_ranges(*c.kernel.pool, s.sequences * s.key_heads, 1,
                           [&](int64_t begin, int64_t end, int64_t part) {
                             const Room room(s, scratch + part * floats, backward);
                             for (int64_t i = begin; i < end; ++i) {
                               const int64_t first = i % s.key_heads * s.group;
                               for_segments(c, s.queries, i / s.key_heads, [&](const Segment& at) {
                                 for (int64_t k = 0; k < s.group; ++k) {
                                   const Head head(c, s, at, first + k);
                                   visit(Computation{*c.kernel.table->floats, s, head, room});
                                 }
                               });
                             }
                           });
}

// Head by head, each on one thread: its sequences add to its biases in their order.
void backward_bias(const OpContext& c) {
  const Sizes s(c);
  auto* const scratch = reinterpret_cast<float*>(c.kernel.scratch.data());
  const int64_t floats = Room(s, scratch, true).floats;
  const int64_t biases = c.attributes<AttentionAttributes>().biases_of_head();
  kernels::parallel_ranges(
      *c.kernel.pool, s.heads, 1, [&](int64_t begin, int64_t end, int64_t part) {
        const Room room(s, scratch + part * floats, true);
        for (int64_t i = begin; i < end; ++i) {
          for (int64_t sequence = 0; sequence < s.sequences; ++sequence) {
            for_segments(c, s.queries, sequence, [&](const Segment& at) {
              const Head head(c, s, at, i);
              Computation{*c.kernel.table->floats, s, head, room}.add_to_bias(
                  c.grad_output().as<float>() + head.at,
                  c.parameters[0].gradient.as<float>() + i * biases);
            });
          }
        }
      });
}

void forward(const OpContext& c) {
  for_heads(c, false,
            [&](const Computation& of) { of.forward(c.output().as<float>() + of.head.at); });
}

void backward(const OpContext& c) {
  const auto gradient_at = [&](int input, int64_t at) {
    const Tensor& gradient = c.grad_inputs[input];
    return gradient.empty() ? nullptr : gradient.as<float>() + at;
  };
  for_heads(c, true, [&](const Computation& of) {
    of.backward(c.grad_output().as<float>() + of.head.at, gradient_at(0, of.head.at),
                gradient_at(1, of.head.key_at), gradient_at(2, of.head.key_at));
  });
}

}  // namespace

const OpRows kAttention = {.memory = memory,
                           .forward = {.run = forward},
                           .grad_input = {.run = backward},
                           .grad_weights = {.run = backward_bias},
                           .kernel = floats_name};

}  // namespace mantissa::ops::fp32

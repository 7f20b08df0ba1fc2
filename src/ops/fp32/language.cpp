// Embeddings, layer norm, RMS norm and attention in fp32; sums over rows in double.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/fp32/fp32.h"

namespace mantissa::ops::fp32 {
namespace {

void embedding(const OpContext& c) {
  const Tensor& table = c.parameters[0].mantissa;
  const int64_t channels = table.shape[1];
  const auto* indices = c.inputs[0].as<int32_t>();
  for_ranges(c, c.inputs[0].count(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = std::clamp<int64_t>(indices[i], 0, table.shape[0] - 1);
      std::copy_n(table.as<float>() + row * channels, channels,
                  c.output.as<float>() + i * channels);
    }
  });
}

void embedding_backward_weights(const OpContext& c) {
  const Tensor& gradient = c.parameters[0].gradient;
  const int64_t channels = gradient.shape[1];
  const auto* indices = c.inputs[0].as<int32_t>();
  for (int64_t i = 0; i < c.inputs[0].count(); ++i) {
    const int64_t row = std::clamp<int64_t>(indices[i], 0, gradient.shape[0] - 1);
    const float* from = c.grad_output.as<float>() + i * channels;
    float* to = gradient.as<float>() + row * channels;
    for (int64_t k = 0; k < channels; ++k) to[k] += from[k];
  }
}

// Elements of a sequence, which the positions' parameter has one of for each.
int64_t sequence_size(const Shape& shape) { return shape[shape.rank - 2] * shape.last(); }

void positions(const OpContext& c) {
  const int64_t size = sequence_size(c.output.shape);
  const auto *in = c.inputs[0].as<float>(), *table = c.parameters[0].mantissa.as<float>() +
                                                     c.scalars->position * c.output.shape.last();
  for_each(c, c.output.count(),
           [&](int64_t i) { c.output.as<float>()[i] = in[i] + table[i % size]; });
}

void positions_backward(const OpContext& c) {
  std::copy_n(c.grad_output.as<float>(), c.grad_inputs[0].count(), c.grad_inputs[0].as<float>());
}

void positions_backward_weights(const OpContext& c) {
  const int64_t size = sequence_size(c.grad_output.shape), count = c.grad_output.count();
  auto* gradient = c.parameters[0].gradient.as<float>();
  for_each(c, size, [&](int64_t i) {
    double sum = 0;
    for (int64_t at = i; at < count; at += size) sum += c.grad_output.as<float>()[at];
    gradient[i] += static_cast<float>(sum);
  });
}

// x^ = (x - mean) * inverse.
struct RowNorm {
  double mean = 0, inverse = 0;
};

template <bool kCentred>
RowNorm row_norm(const OpContext& c, const float* x, int64_t channels) {
  RowNorm norm;
  if (kCentred) {
    for (int64_t i = 0; i < channels; ++i) norm.mean += x[i];
    norm.mean /= static_cast<double>(channels);
  }
  double squares = 0;
  for (int64_t i = 0; i < channels; ++i) squares += (x[i] - norm.mean) * (x[i] - norm.mean);
  norm.inverse =
      1 / std::sqrt(squares / static_cast<double>(channels) + c.attributes->real("epsilon"));
  return norm;
}

template <bool kCentred>
void norm(const OpContext& c) {
  const int64_t channels = c.output.shape.last();
  const auto* scale = c.parameters[0].mantissa.as<float>();
  const float* offset = kCentred ? c.parameters[1].mantissa.as<float>() : nullptr;
  for_images(c, c.output.count() / channels, [&](int64_t row) {
    const float* x = c.inputs[0].as<float>() + row * channels;
    float* y = c.output.as<float>() + row * channels;
    const RowNorm of = row_norm<kCentred>(c, x, channels);
    for (int64_t i = 0; i < channels; ++i) {
      y[i] =
          static_cast<float>((x[i] - of.mean) * of.inverse * scale[i] + (kCentred ? offset[i] : 0));
    }
  });
}

template <bool kCentred>
void norm_backward_weights(const OpContext& c) {
  const int64_t channels = c.grad_output.shape.last();
  std::vector<double> of_scale(channels), of_offset(channels);
  for (int64_t row = 0; row < c.grad_output.count() / channels; ++row) {
    const float* x = c.inputs[0].as<float>() + row * channels;
    const float* g = c.grad_output.as<float>() + row * channels;
    const RowNorm of = row_norm<kCentred>(c, x, channels);
    for (int64_t i = 0; i < channels; ++i) {
      of_scale[i] += g[i] * (x[i] - of.mean) * of.inverse;
      of_offset[i] += g[i];
    }
  }
  for (int64_t i = 0; i < channels; ++i) {
    if (!c.parameters[0].gradient.empty()) {
      c.parameters[0].gradient.as<float>()[i] += static_cast<float>(of_scale[i]);
    }
    if (kCentred && !c.parameters[1].gradient.empty()) {
      c.parameters[1].gradient.as<float>()[i] += static_cast<float>(of_offset[i]);
    }
  }
}

template <bool kCentred>
void norm_backward(const OpContext& c) {
  const int64_t channels = c.grad_output.shape.last();
  const auto* scale = c.parameters[0].mantissa.as<float>();
  const auto n = static_cast<double>(channels);
  for_images(c, c.grad_output.count() / channels, [&](int64_t row) {
    const float* x = c.inputs[0].as<float>() + row * channels;
    const float* g = c.grad_output.as<float>() + row * channels;
    float* to = c.grad_inputs[0].as<float>() + row * channels;
    const RowNorm of = row_norm<kCentred>(c, x, channels);
    double sum = 0, sum_x = 0;
    for (int64_t i = 0; i < channels; ++i) {
      const double d = double{g[i]} * scale[i];
      sum += kCentred ? d : 0;
      sum_x += d * (x[i] - of.mean) * of.inverse;
    }
    for (int64_t i = 0; i < channels; ++i) {
      const double d = double{g[i]} * scale[i], normalised = (x[i] - of.mean) * of.inverse;
      to[i] = static_cast<float>(of.inverse * (d - sum / n - normalised * sum_x / n));
    }
  });
}

struct Sizes {
  int64_t sequences, queries, new_keys, keys, width, heads, channels;
  explicit Sizes(const OpContext& c) {
    const Shape &q = c.inputs[0].shape, &k = c.inputs[1].shape;
    queries = q[q.rank - 2], new_keys = k[k.rank - 2], width = q.last();
    heads = c.attributes->whole("heads"), channels = width / heads;
    sequences = q.count() / (queries * width);
    keys = c.cache.exists() ? c.cache.positions : new_keys;
  }
};

// A head of a sequence: its rows of queries, keys and values lie `width` apart.
struct Head {
  const float *q, *k, *v;
  int64_t at, key_at, valid, queries, first_query;
  double scale;
  bool is_causal;
  Head(const OpContext& c, const Sizes& s, int64_t i) : first_query(c.scalars->position) {
    const int64_t sequence = i / s.heads, channel = i % s.heads * s.channels;
    at = sequence * s.queries * s.width + channel;
    key_at = sequence * s.new_keys * s.width + channel;
    q = c.inputs[0].as<float>() + at;
    k = c.inputs[1].as<float>() + key_at;
    v = c.inputs[2].as<float>() + key_at;
    if (c.cache.exists()) {
      auto* const rows = reinterpret_cast<float*>(c.cache.of(sequence)) + channel;
      k = remember(s, k, rows);
      v = remember(s, v, rows + s.keys * s.width);
    }
    const int64_t length = c.inputs.size() < 4 ? s.keys : c.inputs[3].as<int32_t>()[sequence];
    valid = std::clamp<int64_t>(length, 0, s.keys);
    queries = c.attributes->is_set("cross") ? s.queries : std::min(s.queries, valid);
    scale = 1 / std::sqrt(static_cast<double>(s.channels));
    is_causal = c.attributes->is_set("causal");
  }
  int64_t keys_of(int64_t query) const {
    return is_causal ? std::min(valid, first_query + query + 1) : valid;
  }

  // Adds the rows of a piece to those of the positions before it, which it returns with them.
  const float* remember(const Sizes& s, const float* rows, float* all) const {
    for (int64_t i = 0; i < s.new_keys; ++i) {
      std::copy_n(rows + i * s.width, s.channels, all + (first_query + i) * s.width);
    }
    return all;
  }
};

// Keys and values of a head as columns, [channels, keys] each: inner loops run over keys.
struct Columns {
  std::vector<float> k, v;
  Columns(const Sizes& s, const Head& head) : k(s.channels * s.keys), v(s.channels * s.keys) {
    for (int64_t j = 0; j < s.keys; ++j) {
      for (int64_t c = 0; c < s.channels; ++c) {
        k[c * s.keys + j] = head.k[j * s.width + c];
        v[c * s.keys + j] = head.v[j * s.width + c];
      }
    }
  }
};

// sums[j] = the sum over channels of row[c] * columns[c, j], for the first `keys` keys.
void products(const Sizes& s, const float* row, const std::vector<float>& columns, int64_t keys,
              float* sums) {
  std::fill_n(sums, keys, 0.0F);
  for (int64_t c = 0; c < s.channels; ++c) {
    const float factor = row[c], *column = columns.data() + c * s.keys;
    for (int64_t j = 0; j < keys; ++j) sums[j] += factor * column[j];
  }
}

// p: the probabilities of the first `keys` keys.
void probabilities_of(const Sizes& s, const Head& head, const Columns& columns, int64_t query,
                      int64_t keys, float* p) {
  products(s, head.q + query * s.width, columns.k, keys, p);
  const float largest = keys == 0 ? 0 : *std::max_element(p, p + keys);
  double sum = 0;
  for (int64_t j = 0; j < keys; ++j) {
    p[j] = static_cast<float>(std::exp((double{p[j]} - largest) * head.scale));
    sum += p[j];
  }
  for (int64_t j = 0; j < keys; ++j) p[j] = static_cast<float>(p[j] / sum);
}

// Keys and values of the positions before. Those of another sequence come with each piece.
OpMemory attention_memory(const OpShapes& shapes, const PlanningContext&) {
  if (shapes.attributes->is_set("cross")) return {};
  return {.cache_bytes =
              2 * shapes.cached_positions * shapes.inputs[1].last() * int64_t{sizeof(float)}};
}

void attention(const OpContext& c) {
  const Sizes s(c);
  for_images(c, s.sequences * s.heads, [&](int64_t i) {
    const Head head(c, s, i);
    const Columns columns(s, head);
    std::vector<float> p(s.keys);
    for (int64_t query = 0; query < s.queries; ++query) {
      const int64_t keys = query < head.queries ? head.keys_of(query) : 0;
      probabilities_of(s, head, columns, query, keys, p.data());
      float* out = c.output.as<float>() + head.at + query * s.width;
      std::fill_n(out, s.channels, 0.0F);
      for (int64_t j = 0; j < keys; ++j) {
        for (int64_t k = 0; k < s.channels; ++k) out[k] += p[j] * head.v[j * s.width + k];
      }
    }
  });
}

// Where a head's gradient of an input goes; null where nobody wants it.
float* gradient_at(const OpContext& c, int input, int64_t at) {
  const Tensor& gradient = c.grad_inputs[input];
  return gradient.empty() ? nullptr : gradient.as<float>() + at;
}

void attention_backward_head(const OpContext& c, const Sizes& s, const Head& head) {
  const float* grad_out = c.grad_output.as<float>() + head.at;
  float *to_q = gradient_at(c, 0, head.at), *to_k = gradient_at(c, 1, head.key_at),
        *to_v = gradient_at(c, 2, head.key_at);
  const Columns columns(s, head);
  std::vector<float> p(s.keys), grad_scores(s.keys), grad_q(s.channels);
  Columns gradients(s, head);
  std::fill(gradients.k.begin(), gradients.k.end(), 0.0F);
  std::fill(gradients.v.begin(), gradients.v.end(), 0.0F);
  for (int64_t query = 0; query < s.queries; ++query) {
    const int64_t keys = query < head.queries ? head.keys_of(query) : 0;
    const float *q = head.q + query * s.width, *g = grad_out + query * s.width;
    probabilities_of(s, head, columns, query, keys, p.data());
    products(s, g, columns.v, keys, grad_scores.data());
    double row_term = 0;
    for (int64_t j = 0; j < keys; ++j) row_term += double{p[j]} * grad_scores[j];
    for (int64_t j = 0; j < keys; ++j) {
      grad_scores[j] = static_cast<float>(p[j] * (grad_scores[j] - row_term) * head.scale);
    }
    std::fill(grad_q.begin(), grad_q.end(), 0.0F);
    for (int64_t j = 0; j < keys; ++j) {
      for (int64_t k = 0; k < s.channels; ++k) {
        grad_q[k] += grad_scores[j] * head.k[j * s.width + k];
      }
    }
    for (int64_t k = 0; k < s.channels; ++k) {
      float *grad_k = gradients.k.data() + k * s.keys, *grad_v = gradients.v.data() + k * s.keys;
      for (int64_t j = 0; j < keys; ++j) {
        grad_k[j] += grad_scores[j] * q[k];
        grad_v[j] += p[j] * g[k];
      }
    }
    if (to_q != nullptr) std::copy_n(grad_q.data(), s.channels, to_q + query * s.width);
  }
  for (int64_t i = 0; i < s.keys * s.channels; ++i) {
    const int64_t from = i % s.channels * s.keys + i / s.channels;
    const int64_t to = i / s.channels * s.width + i % s.channels;
    if (to_k != nullptr) to_k[to] = gradients.k[from];
    if (to_v != nullptr) to_v[to] = gradients.v[from];
  }
}

void attention_backward(const OpContext& c) {
  const Sizes s(c);
  for_images(c, s.sequences * s.heads,
             [&](int64_t i) { attention_backward_head(c, s, Head(c, s, i)); });
}

template <bool kCentred>
constexpr OpFunctions norm_functions() {
  return {.forward = norm<kCentred>,
          .backward_input = norm_backward<kCentred>,
          .backward_weights = norm_backward_weights<kCentred>,
          .kernel = loops_name};
}

}  // namespace

const OpFunctions kEmbedding = {
    .forward = embedding, .backward_weights = embedding_backward_weights, .kernel = loops_name};
const OpFunctions kPositionEmbedding = {.forward = positions,
                                        .backward_input = positions_backward,
                                        .backward_weights = positions_backward_weights,
                                        .kernel = loops_name};
const OpFunctions kLayerNorm = norm_functions<true>();
const OpFunctions kRmsNorm = norm_functions<false>();
const OpFunctions kAttention = {.memory = attention_memory,
                                .forward = attention,
                                .backward_input = attention_backward,
                                .kernel = loops_name};

}  // namespace mantissa::ops::fp32

// Attention, and the rotation of positions in its queries and keys.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "onnx/evaluate/loops.h"
#include "onnx/evaluate/op_table.h"

namespace mantissa::onnx {
namespace {

// Queries, keys or values: [batch, heads, positions, size], or [batch, positions, heads * size].
struct Heads {
  int64_t batch = 0, heads = 0, positions = 0, size = 0;
  int64_t head_step = 0, position_step = 0;

  int64_t offset(int64_t b, int64_t head, int64_t position) const {
    return b * heads * positions * size + head * head_step + position * position_step;
  }
};

Result<Heads> heads_of(const Dims& dims, int64_t heads) {
  if (dims.size() == 4) {
    return Heads{dims[0], dims[1], dims[2], dims[3], dims[2] * dims[3], dims[3]};
  }
  if (dims.size() == 3 && heads > 0 && dims[2] % heads == 0) {
    const int64_t size = dims[2] / heads;
    return Heads{dims[0], heads, dims[1], size, size, dims[2]};
  }
  return invalid_input("a value of dims " + to_text(dims) + " in " + std::to_string(heads) +
                       " heads");
}

enum AttentionInput : size_t { kQuery, kKey, kValue, kMask, kPastKey, kPastValue, kValidKeys };

struct AttentionSetup {
  Heads query, key, value;
  int64_t past = 0, keys = 0;  // positions before those of the inputs; all of them
  bool causal = false;
  int64_t left = -1, right = -1;  // how far a query sees; -1: without end
  float scale = 1, cap = 0;
  int64_t score_mode = 0;
  Dims mask_strides;  // of [batch, heads, queries, keys]
  int64_t mask_keys = 0;
  std::vector<int64_t> valid_keys;
};

Status set_mask(OpCall& call, AttentionSetup& s) {
  if (!call.has(kMask)) return {};
  Dims dims = call.dims(kMask);
  if (dims.empty() || dims.size() > 4 || dims.back() > s.keys ||
      (call.type(kMask) != ElementType::kBool && call.type(kMask) != ElementType::kFloat)) {
    return invalid_input("a mask of " + std::string(element_name(call.type(kMask))) + " " +
                         to_text(dims));
  }
  s.mask_keys = dims.back() == 1 ? s.keys : dims.back();
  const Dims wanted = {s.query.batch, s.query.heads, s.query.positions, s.mask_keys};
  MANTISSA_ASSIGN(const Dims both, broadcast(wanted, dims));
  if (both != wanted) return invalid_input("a mask of dims " + to_text(dims));
  s.mask_strides = broadcast_strides(dims, wanted);
  return {};
}

Status set_past(OpCall& call, AttentionSetup& s) {
  if (call.has(kPastKey) != call.has(kPastValue) || (call.has(kPastKey) && call.has(kValidKeys))) {
    return invalid_input("one past input without the other, or with nonpad_kv_seqlen");
  }
  if (call.has(kPastKey)) {
    const Dims& past = call.dims(kPastKey);
    if (past.size() == 4) s.past = past[2];
    if (past != Dims{s.key.batch, s.key.heads, s.past, s.key.size} ||
        call.dims(kPastValue) != Dims{s.key.batch, s.key.heads, s.past, s.value.size}) {
      return invalid_input("a past of dims " + to_text(past));
    }
  }
  s.keys = s.past + s.key.positions;
  if (!call.has(kValidKeys)) return {};
  if (call.dims(kValidKeys) != Dims{s.query.batch}) {
    return invalid_input("nonpad_kv_seqlen of dims " + to_text(call.dims(kValidKeys)));
  }
  if (call.shapes_only()) return {};
  MANTISSA_ASSIGN(s.valid_keys, whole_numbers(call.input(kValidKeys)));
  return {};
}

Result<AttentionSetup> attention_setup(OpCall& call) {
  MANTISSA_RETURN_IF_ERROR(call.check_float(3));
  const int64_t heads = call.integer("q_num_heads", 0), key_heads = call.integer("kv_num_heads", 0);
  AttentionSetup s;
  MANTISSA_ASSIGN(s.query, heads_of(call.dims(kQuery), heads));
  MANTISSA_ASSIGN(s.key, heads_of(call.dims(kKey), key_heads));
  MANTISSA_ASSIGN(s.value, heads_of(call.dims(kValue), key_heads));
  if (s.key.batch != s.query.batch || s.value.batch != s.query.batch ||
      s.key.heads != s.value.heads || s.key.heads < 1 || s.query.heads % s.key.heads != 0 ||
      s.key.size != s.query.size || s.key.positions != s.value.positions || s.query.size < 1 ||
      call.rank(kKey) != call.rank(kQuery) || call.rank(kValue) != call.rank(kQuery)) {
    return invalid_input("queries, keys and values of dims " + to_text(call.dims(kQuery)) + ", " +
                         to_text(call.dims(kKey)) + " and " + to_text(call.dims(kValue)));
  }
  s.causal = call.integer("is_causal", 0) != 0;
  s.left = call.integer("left_window_size", -1);
  s.right = call.integer("right_window_size", -1);
  s.scale = call.real("scale", 1 / std::sqrt(static_cast<float>(s.query.size)));
  s.cap = call.real("softcap", 0);
  s.score_mode = call.integer("qk_matmul_output_mode", 0);
  if (s.score_mode < 0 || s.score_mode > 3) return invalid_input("qk_matmul_output_mode");
  MANTISSA_RETURN_IF_ERROR(set_past(call, s));
  MANTISSA_RETURN_IF_ERROR(set_mask(call, s));
  return s;
}

// Keys or values of all positions, [batch, heads, positions, size]: the past, then the input.
std::vector<float> with_past(OpCall& call, const AttentionSetup& s, const Heads& in, size_t input,
                             size_t past) {
  std::vector<float> all(in.batch * in.heads * s.keys * in.size);
  float* out = all.data();
  for (int64_t row = 0; row < in.batch * in.heads; ++row) {
    if (s.past > 0) {
      out = std::copy_n(call.data<float>(past) + row * s.past * in.size, s.past * in.size, out);
    }
    for (int64_t p = 0; p < in.positions; ++p) {
      const float* from = call.data<float>(input) + in.offset(row / in.heads, row % in.heads, p);
      out = std::copy_n(from, in.size, out);
    }
  }
  return all;
}

constexpr float kHidden = -std::numeric_limits<float>::infinity();

// What is added to the score of a query and a key.
float bias_of_score(OpCall& call, const AttentionSetup& s, int64_t b, int64_t head, int64_t i,
                    int64_t j) {
  const int64_t first = s.valid_keys.empty() ? s.past : s.valid_keys[b] - s.query.positions;
  const int64_t distance = i + first - j;
  if ((s.causal && distance < 0) || (s.left >= 0 && distance > s.left) ||
      (s.right >= 0 && -distance > s.right) || (!s.valid_keys.empty() && j >= s.valid_keys[b])) {
    return kHidden;
  }
  if (!call.has(kMask)) return 0;
  if (j >= s.mask_keys) return kHidden;
  const int64_t place = b * s.mask_strides[0] + head * s.mask_strides[1] + i * s.mask_strides[2] +
                        j * s.mask_strides[3];
  if (call.type(kMask) == ElementType::kFloat) return call.data<float>(kMask)[place];
  return call.data<bool>(kMask)[place] ? 0 : kHidden;
}

// Probabilities of scores; a query that sees nothing has none.
void soften(std::vector<float>& scores) {
  const float most = *std::max_element(scores.begin(), scores.end());
  float sum = 0;
  for (float& score : scores) {
    score = most == kHidden ? 0 : std::exp(score - most);
    sum += score;
  }
  for (float& score : scores) score = sum == 0 ? 0 : score / sum;
}

// One query: its scores, which are copied to `kept` as the mode wants, and its result.
void attend(OpCall& call, const AttentionSetup& s, const float* keys, const float* values,
            int64_t row, int64_t i, float* kept, float* out) {
  const int64_t b = row / s.query.heads, head = row % s.query.heads;
  const float* query = call.data<float>(kQuery) + s.query.offset(b, head, i);
  std::vector<float> scores(s.keys), raw(s.keys);
  for (int64_t j = 0; j < s.keys; ++j) {
    float product = 0;
    for (int64_t k = 0; k < s.query.size; ++k) product += query[k] * keys[j * s.query.size + k];
    product *= s.scale;
    raw[j] = product;
    if (s.cap > 0) product = s.cap * std::tanh(product / s.cap);
    if (s.score_mode == 1) raw[j] = product;
    scores[j] = product + bias_of_score(call, s, b, head, i, j);
  }
  if (s.score_mode == 2) raw = scores;
  if (!scores.empty()) soften(scores);
  if (s.score_mode == 3) raw = scores;
  if (kept != nullptr) std::copy(raw.begin(), raw.end(), kept);
  std::fill_n(out, s.value.size, 0.0f);
  for (int64_t j = 0; j < s.keys; ++j) {
    for (int64_t k = 0; k < s.value.size; ++k) out[k] += scores[j] * values[j * s.value.size + k];
  }
}

Status attention(OpCall& call) {
  MANTISSA_ASSIGN(const AttentionSetup s, attention_setup(call));
  const Heads& q = s.query;
  const bool is_flat = call.rank(kQuery) == 3;
  const Dims dims = is_flat ? Dims{q.batch, q.positions, q.heads * s.value.size}
                            : Dims{q.batch, q.heads, q.positions, s.value.size};
  MANTISSA_ASSIGN(const Heads result, heads_of(dims, q.heads));
  const ElementType type = ElementType::kFloat;
  MANTISSA_RETURN_IF_ERROR(call.make(0, type, dims));
  MANTISSA_RETURN_IF_ERROR(call.make(1, type, {q.batch, s.key.heads, s.keys, q.size}));
  MANTISSA_RETURN_IF_ERROR(call.make(2, type, {q.batch, s.key.heads, s.keys, s.value.size}));
  if (call.wants(3)) {
    MANTISSA_RETURN_IF_ERROR(call.make(3, type, {q.batch, q.heads, q.positions, s.keys}));
  }
  if (call.shapes_only()) return {};
  const std::vector<float> keys = with_past(call, s, s.key, kKey, kPastKey);
  const std::vector<float> values = with_past(call, s, s.value, kValue, kPastValue);
  std::copy(keys.begin(), keys.end(), call.out<float>(1));
  std::copy(values.begin(), values.end(), call.out<float>(2));
  const int64_t sharing = q.heads / s.key.heads;  // queries' heads that share keys
  call.pool().parallel_for(q.batch * q.heads * q.positions, [&](int64_t task, int) {
    const int64_t row = task / q.positions, i = task % q.positions;
    const int64_t b = row / q.heads, head = row % q.heads;
    const int64_t key_row = (b * s.key.heads + head / sharing) * s.keys;
    attend(call, s, keys.data() + key_row * q.size, values.data() + key_row * s.value.size, row, i,
           call.wants(3) ? call.out<float>(3) + task * s.keys : nullptr,
           call.out<float>(0) + result.offset(b, head, i));
  });
  return {};
}

// Pairs of numbers turn by angles whose cosines and sines are inputs, [batch, positions, pairs], or
// [places, pairs] with the place of each position.
Status rotary_embedding(OpCall& call) {
  MANTISSA_RETURN_IF_ERROR(call.check_float(3));
  MANTISSA_ASSIGN(const Heads h, heads_of(call.dims(0), call.integer("num_heads", 0)));
  const int64_t given = call.integer("rotary_embedding_dim", 0);
  const int64_t turned = given == 0 ? h.size : given;
  const int64_t pairs = turned / 2;
  const bool interleaved = call.integer("interleaved", 0) != 0;
  const bool by_place = call.has(3);
  const int64_t places = by_place && call.rank(1) == 2 ? call.dims(1)[0] : 0;
  const Dims wanted = by_place ? Dims{places, pairs} : Dims{h.batch, h.positions, pairs};
  if (turned < 0 || turned > h.size || turned % 2 != 0 || call.dims(1) != wanted ||
      call.dims(2) != wanted || (by_place && call.dims(3) != Dims{h.batch, h.positions})) {
    return invalid_input("cosines of dims " + to_text(call.dims(1)) + " for a value of dims " +
                         to_text(call.dims(0)));
  }
  MANTISSA_RETURN_IF_ERROR(call.make(0, ElementType::kFloat, call.dims(0)));
  if (call.shapes_only()) return {};
  std::vector<int64_t> rows;
  if (by_place) {
    MANTISSA_ASSIGN(rows, whole_numbers(call.input(3)));
  }
  for (const int64_t row : rows) {
    if (row < 0 || row >= places) return invalid_input("position " + std::to_string(row));
  }
  for (int64_t i = 0; i < h.batch * h.heads * h.positions; ++i) {
    const int64_t b = i / h.heads / h.positions, p = i % h.positions;
    const int64_t offset = h.offset(b, i / h.positions % h.heads, p);
    const int64_t row = by_place ? rows[b * h.positions + p] : b * h.positions + p;
    const float* in = call.data<float>(0) + offset;
    float* out = call.out<float>(0) + offset;
    for (int64_t k = 0; k < pairs; ++k) {
      const float c = call.data<float>(1)[row * pairs + k];
      const float s = call.data<float>(2)[row * pairs + k];
      const int64_t first = interleaved ? 2 * k : k;
      const int64_t second = interleaved ? 2 * k + 1 : k + pairs;
      out[first] = c * in[first] - s * in[second];
      out[second] = s * in[first] + c * in[second];
    }
    std::copy(in + turned, in + h.size, out + turned);
  }
  return {};
}

constexpr const char* kAttentionAttributes =
    "is_causal kv_num_heads left_window_size q_num_heads qk_matmul_output_mode right_window_size "
    "scale softcap softmax_precision";

constexpr OpRow kAttentionRows[] = {
    {"Attention", 23, attention, {3, 7}, kAttentionAttributes, kNewestOpset, 4},
    {"RotaryEmbedding", 23, rotary_embedding, {3, 4}, "interleaved num_heads rotary_embedding_dim"},
};

}  // namespace

std::span<const OpRow> attention_operators() { return kAttentionRows; }

}  // namespace mantissa::onnx

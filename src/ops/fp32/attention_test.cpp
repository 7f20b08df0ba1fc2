// Attention in fp32 against its definition in double: blocks of queries, lengths, causal and across
// sequences, with a bias by distance.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/system/thread_pool.h"
#include "kernels/kernel_table.h"
#include "ops/fp32.h"
#include "ops/ops.h"

namespace mantissa::ops {
namespace {

struct Case {
  int64_t sequences, queries, keys, heads, channels;
  bool causal, cross;
  std::vector<int32_t> lengths;  // of keys; empty: all of them
  int64_t group = 1, window = 0;
  int64_t bias_height = 1, bias_width = 0;
  int64_t biases() const {
    return bias_width == 0 ? 0 : (2 * bias_height - 1) * (2 * bias_width - 1);
  }
};

const Case kCases[] = {
    {1, 1, 1, 1, 1, false, false, {}},           {2, 100, 100, 2, 16, false, false, {}},
    {2, 100, 100, 3, 7, true, false, {100, 61}}, {3, 50, 50, 1, 33, false, false, {0, 1, 49}},
    {2, 97, 40, 2, 8, false, true, {40, 3}},     {2, 100, 100, 6, 8, true, false, {}, 3, 7},
    {2, 60, 60, 4, 5, false, false, {60, 31}, 4, 9}, {1, 70, 90, 2, 8, false, true, {}, 2},
    {2, 60, 60, 2, 8, true, false, {60, 31}, 1, 0, 1, 64},
    {2, 54, 54, 4, 6, false, false, {}, 2, 0, 6, 9},
};

std::vector<float> noise(int64_t count, uint64_t seed) {
  std::vector<float> numbers;
  for (uint64_t state = seed; count > 0; --count) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    numbers.push_back(static_cast<float>(state >> 40) * 0x1p-22F - 2);
  }
  return numbers;
}

using Reals = std::vector<double>;

// The definition, head by head: each adds to the result and to the gradients.
struct Definition {
  const Case& of;
  const std::vector<float>&q, &k, &v, &grad, &bias;
  Reals y, dq, dk, dv, dbias;

  Definition(const Case& of_, const std::vector<float>& q_, const std::vector<float>& k_,
             const std::vector<float>& v_, const std::vector<float>& grad_,
             const std::vector<float>& bias_)
      : of(of_),
        q(q_),
        k(k_),
        v(v_),
        grad(grad_),
        bias(bias_),
        y(q.size()),
        dq(q.size()),
        dk(k.size()),
        dv(k.size()),
        dbias(bias.size()) {
    for (int64_t n = 0; n < of.sequences; ++n) {
      for (int64_t head = 0; head < of.heads; ++head) {
        const int64_t valid = of.lengths.empty() ? of.keys : of.lengths[n];
        const int64_t queries = of.cross ? of.queries : std::min(of.queries, valid);
        for (int64_t i = 0; i < queries; ++i) {
          const int64_t after = of.causal ? 1 : of.window;
          add(row(n, head, i, of.queries, width()),
              row(n, head / of.group, 0, of.keys, key_width()),
              of.window == 0 ? 0 : std::max<int64_t>(0, i + 1 - of.window),
              after == 0 ? valid : std::min(valid, i + after), head, i);
        }
      }
    }
  }
  int64_t width() const { return of.heads * of.channels; }
  int64_t key_width() const { return width() / of.group; }
  int64_t row(int64_t n, int64_t head, int64_t i, int64_t rows, int64_t row_width) const {
    return (n * rows + i) * row_width + head * of.channels;
  }
  // Of the keys [begin, end); key 0 is at `first_key`.
  void add(int64_t query, int64_t first_key, int64_t begin, int64_t end, int64_t head, int64_t i) {
    const auto bias_at = [&](int64_t j) {
      const int64_t w = of.bias_width, key = begin + j;
      const int64_t down = i / w - key / w, right = i % w - key % w;
      return head * of.biases() + (down + of.bias_height - 1) * (2 * w - 1) + right + w - 1;
    };
    first_key += begin * key_width();
    const int64_t keys = end - begin;
    const double scale = 1 / std::sqrt(static_cast<double>(of.channels));
    const auto dot = [&](const std::vector<float>& a, const std::vector<float>& b, int64_t j) {
      double sum = 0;
      for (int64_t c = 0; c < of.channels; ++c) {
        sum += double{a[query + c]} * b[first_key + j * key_width() + c];
      }
      return sum;
    };
    Reals p, dp;
    double sum = 0, mean = 0;
    for (int64_t j = 0; j < keys; ++j) {
      p.push_back(std::exp(dot(q, k, j) * scale + (bias.empty() ? 0 : bias[bias_at(j)])));
      sum += p.back();
    }
    for (int64_t j = 0; j < keys; ++j) {
      p[j] /= sum;
      dp.push_back(dot(grad, v, j));
      mean += p[j] * dp[j];
    }
    for (int64_t j = 0; j < keys; ++j) {
      const double ds = p[j] * (dp[j] - mean) * scale;
      if (!bias.empty()) dbias[bias_at(j)] += ds / scale;
      for (int64_t c = 0; c < of.channels; ++c) {
        const int64_t key = first_key + j * key_width() + c;
        y[query + c] += p[j] * v[key];
        dq[query + c] += ds * k[key];
        dk[key] += ds * q[query + c];
        dv[key] += p[j] * grad[query + c];
      }
    }
  }
};

void expect_near(const std::vector<float>& found, const Reals& expected, const char* name) {
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-5) << name << i;
}

TEST(Fp32Attention, IsItsDefinition) {
  for (const Case& of : kCases) {
    for (const Isa isa : kAllIsas) {
      if (!is_supported(isa)) continue;
      const int64_t width = of.heads * of.channels;
      const Shape shape_q{of.sequences, of.queries, width},
          shape_k{of.sequences, of.keys, width / of.group};
      std::vector<float> q = noise(shape_q.count(), 1), k = noise(shape_k.count(), 2),
                         v = noise(shape_k.count(), 3), grad = noise(shape_q.count(), 4);
      std::vector<float> y(q.size(), 9), dq(q.size(), 9), dk(k.size(), 9), dv(k.size(), 9);
      const auto tensor = [](std::vector<float>& data, const Shape& shape) {
        Tensor made;
        made.data = data.data(), made.type = DataType::kFloat, made.shape = shape;
        return made;
      };
      std::vector<Tensor> inputs = {tensor(q, shape_q), tensor(k, shape_k), tensor(v, shape_k)};
      std::vector<int32_t> lengths = of.lengths;
      if (!lengths.empty()) {
        inputs.emplace_back().data = lengths.data();
        inputs.back().type = DataType::kInt32, inputs.back().shape = Shape{of.sequences};
      }
      const std::vector<Tensor> gradients = {tensor(dq, shape_q), tensor(dk, shape_k),
                                             tensor(dv, shape_k)};
      const Op& op = kAttention;
      const Attributes attributes = *complete(
          {{"heads", of.heads},
           {"kv_heads", of.heads / of.group},
           {"causal", of.causal},
           {"cross", of.cross},
           {"window", of.window},
           {"bias_height", of.bias_height},
           {"bias_width", of.bias_width}},
          op.attributes);
      const kernels::KernelTable table = kernels::select_kernels(isa);
      const std::vector<Shape> shapes = {shape_q, shape_k, shape_k};
      const OpMemory memory = op.fp32->memory({.attributes = &attributes, .inputs = shapes},
                                              {.kernels = &table, .threads = 2});
      ThreadPool pool(2);
      const StepScalars scalars;
      std::vector<std::byte> forward(memory.forward.scratch_bytes, std::byte{0xff}),
          backward(memory.grad_input.scratch_bytes, std::byte{0xff});
      OpContext c;
      c.node.attributes = &attributes;
      c.step.scalars = &scalars;
      c.inputs = inputs;
      const Tensor output_view = tensor(y, shape_q);
      c.outputs = {&output_view, 1};
      const Tensor grad_view = tensor(grad, shape_q);
      c.grad_outputs = {&grad_view, 1};
      c.grad_inputs = gradients;
      c.kernel = {&pool, forward};
      c.kernel.table = &table;
      std::vector<float> bias = noise(of.heads * of.biases(), 5), dbias(bias.size());
      ParameterView parameter;
      const Shape shape_bias{of.heads, of.biases()};
      parameter.mantissa = tensor(bias, shape_bias), parameter.gradient = tensor(dbias, shape_bias);
      if (!bias.empty()) c.parameters = {&parameter, 1};
      op.fp32->forward.run(c);
      c.kernel.scratch = backward;
      op.fp32->grad_input.run(c);
      std::vector<std::byte> weights(memory.grad_weights.scratch_bytes, std::byte{0xff});
      c.kernel.scratch = weights;
      if (!bias.empty()) op.fp32->grad_weights.run(c);
      const Definition expected(of, q, k, v, grad, bias);
      expect_near(y, expected.y, "y ");
      expect_near(dq, expected.dq, "dq ");
      expect_near(dk, expected.dk, "dk ");
      expect_near(dv, expected.dv, "dv ");
      for (float& number : dbias) number /= 16;  // sums of many
      Reals sums = expected.dbias;
      for (double& number : sums) number /= 16;
      expect_near(dbias, sums, "dbias ");
    }
  }
}

}  // namespace
}  // namespace mantissa::ops

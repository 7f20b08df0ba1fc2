// The definition in double of each operator, chosen by the node of a graph.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "base/random.h"
#include "ops/attributes.h"
#include "ops/ops.h"
#include "tests/operators/definitions.h"
#include "tests/operators/real_values.h"

namespace mantissa::testing {

// An op in double: outputs from inputs (concatenated operands of the node) and parameters.
using Function =
    std::function<Reals(const std::vector<Reals>& inputs, const std::vector<Reals>& parameters)>;

inline bool is_recurrent(const Op* op) {
  return op == &ops::kRnn || op == &ops::kLstm || op == &ops::kGru;
}

// Dropout by the definition of its key: 16 bits of a Philox block for each element.
inline Reals dropped(int node, const Attributes& a, Reals x) {
  const int64_t threshold = std::llrint(a.as<ops::DropoutAttributes>().probability * 65536);
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
    const auto words =
        philox({static_cast<uint32_t>(i / 128 * 16 + i % 16), static_cast<uint32_t>(node), 0,
                static_cast<uint32_t>(RandomStream::kDropout)},
               {0, 0});
    const bool kept = (words[i / 32 % 4] >> (i / 16 % 2 * 16) & 0xffff) >= threshold;
    x[i] = kept ? x[i] * 65536 / static_cast<double>(65536 - threshold) : 0;
  }
  return x;
}

// The op of a node in double, without the ReLU that may be fused into it. `c` is the context of its
// forward instruction. The graph outlives the function.
inline Function function_of(const Graph& graph, int node, const OpContext& c) {
  const Op* op = graph.nodes[node].op;
  const Attributes& a = graph.nodes[node].attributes;
  const Shape in = c.inputs[0].shape, out = c.output().shape;
  if (op == &ops::kConvolution || op == &ops::kLinear) {
    const Shape w = graph.parameters[graph.nodes[node].parameters[0]].shape;
    return [=](const auto& x, const auto& p) {
      return convolution(a.as<ops::LayerAttributes>(), in, out, w, x[0], p);
    };
  }
  if (op == &ops::kTransposedConvolution) {
    const Shape w = graph.parameters[graph.nodes[node].parameters[0]].shape;
    return [=](const auto& x, const auto& p) {
      return transposed_convolution(a.as<ops::TransposedAttributes>(), in, out, w, x[0], p);
    };
  }
  if (op == &ops::kUpsample) {
    return [=](const auto& x, const auto&) { return upsample(in, out, x[0]); };
  }
  if (op == &ops::kBilinearResize) {
    return [=](const auto& x, const auto&) {
      return bilinear_resize(a.as<ops::ResizeAttributes>(), in, out, x[0]);
    };
  }
  if (op == &ops::kBatchNorm) {
    return [=](const auto& x, const auto& p) { return batch_norm(in.last(), x[0], p); };
  }
  if (op == &ops::kRescale) {
    return [&a](const auto& x, const auto& p) {
      return rescale(a.as<ops::QuantiseAttributes>(), x[0], p);
    };
  }
  if (op == &ops::kQuantise) {
    return [&a](const auto& x, const auto& p) {
      return quantise(a.as<ops::QuantiseAttributes>(), x[0], p);
    };
  }
  if (op == &ops::kLayerNorm || op == &ops::kRmsNorm) {
    const bool is_centred = op == &ops::kLayerNorm;
    return [=](const auto& x, const auto& p) {
      const auto& norm = a.as<ops::RowNormAttributes>();
      return row_norm(norm, in.last() / norm.heads, is_centred, x[0], p);
    };
  }
  if (op == &ops::kGroupNorm) {
    return [=](const auto& x, const auto& p) {
      return group_norm(a.as<ops::GroupNormAttributes>(), in, x[0], p);
    };
  }
  if (is_recurrent(op)) {
    const int gates = static_cast<int>(in.last() / out.last());
    const int64_t steps = out[out.rank - 2], n = out.last();
    return [=](const auto& x, const auto& p) { return recurrent(gates, steps, n, x[0], p); };
  }
  if (op == &ops::kPositionEmbedding) {
    return [](const auto& x, const auto& p) {
      Reals y = x[0];
      for (size_t i = 0; i < y.size(); ++i) y[i] += p[0][i % p[0].size()];
      return y;
    };
  }
  if (op == &ops::kSinusoidalPositions) {
    return [=](const auto& x, const auto&) {
      return sinusoidal(a.as<ops::SinusoidalAttributes>(), in, x[0]);
    };
  }
  if (op == &ops::kPrependRows) {
    return [=](const auto& x, const auto& p) { return prepended(in, x[0], p[0]); };
  }
  if (op == &ops::kConcatPositions) {
    std::vector<int64_t> sizes;
    for (const Tensor& input : c.inputs) {
      sizes.push_back(input.shape[input.shape.rank - 2] * input.shape.last());
    }
    return [=](const auto& x, const auto&) { return joined(sizes, x); };
  }
  if (op == &ops::kRotary) {
    return [=](const auto& x, const auto&) {
      return rotary(a.as<ops::RotaryAttributes>(), in, x[0]);
    };
  }
  if (op == &ops::kEmbedding) {
    return [n = out.last()](const auto& x, const auto& p) {
      Reals y;
      for (const double token : x[0]) {
        const auto row = p[0].begin() + static_cast<int64_t>(token) * n;
        y.insert(y.end(), row, row + n);
      }
      return y;
    };
  }
  if (op == &ops::kMaxPool || op == &ops::kOverlappingMaxPool) {
    return [=](const auto& x, const auto&) {
      return max_pool(a.as<ops::PoolAttributes>(), in, out, x[0]);
    };
  }
  if (op == &ops::kAveragePool) {
    return [=](const auto& x, const auto&) {
      return average_pool(a.as<ops::PoolAttributes>(), in, out, x[0]);
    };
  }
  if (op == &ops::kConcat) {
    std::vector<int64_t> channels;
    for (const Tensor& input : c.inputs) channels.push_back(input.shape.last());
    return [=](const auto& x, const auto&) { return concat(channels, x); };
  }
  if (op == &ops::kGlobalAveragePool) {
    return [=](const auto& x, const auto&) { return average(in, x[0]); };
  }
  if (op == &ops::kRelu) {
    return [](const auto& x, const auto&) {
      Reals y = x[0];
      for (double& value : y) value = std::max(0.0, value);
      return y;
    };
  }
  if (op == &ops::kPrelu) {
    return [](const auto& x, const auto& p) { return prelu(x[0], p[0]); };
  }
  if (op == &ops::kRequantise) return [](const auto& x, const auto&) { return x[0]; };
  if (op == &ops::kAdd) {
    return [](const auto& x, const auto&) {
      Reals y = x[0];
      for (size_t i = 0; i < y.size(); ++i) y[i] += x[1][i];
      return y;
    };
  }
  if (op == &ops::kSubtract) {
    return [](const auto& x, const auto&) {
      Reals y = x[0];
      for (size_t i = 0; i < y.size(); ++i) y[i] -= x[1][i];
      return y;
    };
  }
  if (op == &ops::kReduceMax || op == &ops::kReduceMean || op == &ops::kReduceSum) {
    const Reduce how = op == &ops::kReduceMax    ? Reduce::kMax
                       : op == &ops::kReduceMean ? Reduce::kMean
                                                 : Reduce::kSum;
    const ops::Reduction r = ops::reduction_of(in, a.as<ops::ReduceAttributes>().over);
    return [=](const auto& x, const auto&) { return reduced(how, r, x[0]); };
  }
  if (op == &ops::kSoftmax) {
    const ops::Reduction r = ops::reduction_of(in, a.as<ops::ReduceAttributes>().over);
    return [=](const auto& x, const auto&) { return softmax(r, x[0]); };
  }
  if (op == &ops::kGatherRows) {
    return [=, &a](const auto& x, const auto&) {
      return gathered(a.as<ops::RowsAttributes>(), in, x[0]);
    };
  }
  if (op == &ops::kScatterRows) {
    return [=, &a](const auto& x, const auto&) {
      return scattered(a.as<ops::RowsAttributes>(), in, x[0]);
    };
  }
  if (op == &ops::kMultiply) {
    return [=](const auto& x, const auto&) { return product(in, x[0], x[1]); };
  }
  if (op == &ops::kScale) {
    return [&a](const auto& x, const auto&) {
      Reals y = x[0];
      for (double& value : y) value *= a.as<ops::ScaleAttributes>().factor;
      return y;
    };
  }
  if (op == &ops::kDropout) {
    return [node, &a](const auto& x, const auto&) { return dropped(node, a, x[0]); };
  }
  if (op == &ops::kPad)
    return [=](const auto& x, const auto&) {
      return pad(a.as<ops::PadAttributes>(), in, out, x[0]);
    };
  if (op == &ops::kDepthTaps) {
    return [=](const auto& x, const auto&) {
      return depth_taps(a.as<ops::DepthTapsAttributes>(), in, out, x[0]);
    };
  }
  if (op == &ops::kSlice) {
    return [=](const auto& x, const auto&) {
      return slice(a.as<ops::SliceAttributes>(), in, out, x[0]);
    };
  }
  if (op == &ops::kChannelShuffle) {
    return [=](const auto& x, const auto&) {
      return shuffle(a.as<ops::ShuffleAttributes>(), in, x[0]);
    };
  }
  if (op == &ops::kReverse) return [=](const auto& x, const auto&) { return reverse(in, x[0]); };
  if (const auto function = pointwise(op, a); function != nullptr) {
    return [=](const auto& x, const auto&) {
      Reals y = x[0];
      for (double& value : y) value = function(value);
      return y;
    };
  }
  EXPECT_EQ(op, &ops::kNormaliseInput);
  return [&a](const auto& x, const auto&) {
    Reals y = x[0];
    for (double& value : y)
      value = (value - static_cast<double>(a.as<ops::InputAttributes>().means[0])) / 64;
    return y;
  };
}

}  // namespace mantissa::testing

#include "networks/language/smoothing.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "numerics/exponential.h"
#include "numerics/rounding.h"

namespace mantissa {
namespace {

using Powers = std::vector<int>;
constexpr int kMostPower = 12;

// In Q24, without the logarithms of a library.
int64_t log2_of(float number) {
  constexpr int kBits = 24;  // of the mantissa, and after the point
  int exponent = 0;
  const float mantissa = std::frexp(number, &exponent);
  const auto whole = static_cast<uint64_t>(std::ldexp(mantissa, kBits));
  return log2_q24(whole) + (int64_t{exponent} - kBits) * (int64_t{1} << kBits);
}

// Channels without numbers get the median, which is 0 in the end.
Powers balance(const std::vector<float>& values, const std::vector<float>& weights) {
  std::vector<std::optional<int>> found;
  Powers known;
  for (size_t c = 0; c < values.size(); ++c) {
    found.emplace_back();
    if (values[c] == 0 || weights[c] == 0) continue;
    const int64_t twice = log2_of(values[c]) - log2_of(weights[c]);
    known.push_back(static_cast<int>(shift_right_rne(twice, 25)));
    found.back() = known.back();
  }
  int median = 0;
  if (!known.empty()) {
    const auto middle = known.begin() + std::ssize(known) / 2;
    std::nth_element(known.begin(), middle, known.end());
    median = *middle;
  }
  Powers powers;
  for (const std::optional<int>& power : found) {
    powers.push_back(std::clamp(power.value_or(median) - median, -kMostPower, kMostPower));
  }
  return powers;
}

struct Range {
  int least = 0, most = 0;
  void take(const Powers& powers) {
    for (const int power : powers) {
      least = std::min(least, power);
      most = std::max(most, power);
    }
  }
  std::string text() const { return std::to_string(least) + " to " + std::to_string(most); }
};

class Smoother {
 public:
  Smoother(const DecoderSizes& sizes, onnx::ImportedNetwork& network) : sizes_(sizes) {
    for (onnx::ImportedParameter& parameter : network.parameters) {
      parameters_[parameter.name] = &parameter;
    }
  }

  void smooth(const std::string& block, const BlockMaxima& maxima) {
    front_ = block + ".";
    norms_.take(smooth_norm("norm1.scale", {"query", "key", "value"}, maxima.normed));
    norms_.take(smooth_norm("norm2.scale", {"gate", "up"}, maxima.inner));
    gated_.take(smooth_gated(maxima.gated));
    heads_.take(smooth_heads(maxima.heads));
    scores_.take(smooth_scores(maxima.queries, maxima.keys));
  }

  std::string text() const {
    return "norms " + norms_.text() + ", gated layers " + gated_.text() + ", heads " +
           heads_.text() + ", queries and keys " + scores_.text();
  }

 private:
  // Null: the network has none, such as biases.
  onnx::ImportedParameter* find(const std::string& name) {
    const auto found = parameters_.find(front_ + name);
    return found == parameters_.end() ? nullptr : found->second;
  }

  // Multiplies rows, or elements of a vector, by 2^(sign * power).
  void scale_rows(const std::string& name, const Powers& powers, int sign) {
    onnx::ImportedParameter* const parameter = find(name);
    if (parameter == nullptr) return;
    const size_t row = parameter->floats.size() / powers.size();
    for (size_t i = 0; i < parameter->floats.size(); ++i) {
      parameter->floats[i] = std::ldexp(parameter->floats[i], sign * powers[i / row]);
    }
  }
  void scale_layer_rows(const std::string& layer, const Powers& powers, int sign) {
    scale_rows(layer + ".weights", powers, sign);
    scale_rows(layer + ".bias", powers, sign);
  }

  void scale_columns(const std::string& layer, const Powers& powers) {
    std::vector<float>& weights = find(layer + ".weights")->floats;
    for (size_t i = 0; i < weights.size(); ++i) {
      weights[i] = std::ldexp(weights[i], powers[i % powers.size()]);
    }
  }

  // The largest weight of each column, in all of the layers.
  std::vector<float> column_maxima(const std::vector<std::string>& layers, size_t columns) {
    std::vector<float> maxima(columns);
    for (const std::string& layer : layers) {
      const std::vector<float>& weights = find(layer + ".weights")->floats;
      for (size_t i = 0; i < weights.size(); ++i) {
        maxima[i % columns] = std::max(maxima[i % columns], std::abs(weights[i]));
      }
    }
    return maxima;
  }

  Powers smooth_norm(const std::string& scale, const std::vector<std::string>& layers,
                     const std::vector<float>& values) {
    const Powers powers = balance(values, column_maxima(layers, values.size()));
    scale_rows(scale, powers, -1);
    for (const std::string& layer : layers) scale_columns(layer, powers);
    return powers;
  }

  Powers smooth_gated(const std::vector<float>& values) {
    const Powers powers = balance(values, column_maxima({"down"}, values.size()));
    scale_layer_rows("up", powers, -1);
    scale_columns("down", powers);
    return powers;
  }

  // The channel of a value that channel c of the heads of queries reads.
  size_t shared(size_t c) const {
    const auto channels = static_cast<size_t>(sizes_.head_channels);
    const auto group = static_cast<size_t>(sizes_.heads / sizes_.key_heads);
    return c / channels / group * channels + c % channels;
  }

  Powers smooth_heads(const std::vector<float>& values) {
    const std::vector<float> columns = column_maxima({"project"}, values.size());
    const auto channels = static_cast<size_t>(sizes_.key_heads * sizes_.head_channels);
    std::vector<float> of_values(channels), of_weights(channels);
    for (size_t c = 0; c < values.size(); ++c) {
      of_values[shared(c)] = std::max(of_values[shared(c)], values[c]);
      of_weights[shared(c)] = std::max(of_weights[shared(c)], columns[c]);
    }
    const Powers powers = balance(of_values, of_weights);
    Powers of_columns;
    for (size_t c = 0; c < values.size(); ++c) of_columns.push_back(powers[shared(c)]);
    scale_layer_rows("value", powers, -1);
    scale_columns("project", of_columns);
    return powers;
  }

  // The first channel of the pair that a channel of keys is in.
  size_t pair_of(size_t c) const {
    const auto channels = static_cast<size_t>(sizes_.head_channels);
    return c / channels * channels + c % (channels / 2);
  }

  // The same of the head that stands for all, whose norms have one scale.
  size_t pair_of_norm(size_t c) const { return pair_of(c) % channels_of_head(); }
  size_t channels_of_head() const { return static_cast<size_t>(sizes_.head_channels); }

  Powers smooth_scores(const std::vector<float>& queries, const std::vector<float>& keys) {
    const bool has_norms = sizes_.head_norms;
    const size_t count = has_norms ? channels_of_head() : keys.size();
    const auto place = [&](size_t c) { return has_norms ? pair_of_norm(c) : pair_of(c); };
    std::vector<float> of_queries(count), of_keys(count);
    for (size_t c = 0; c < queries.size(); ++c) {
      float& most = of_queries[place(shared(c))];
      most = std::max(most, queries[c]);
    }
    for (size_t c = 0; c < keys.size(); ++c) {
      of_keys[place(c)] = std::max(of_keys[place(c)], keys[c]);
    }
    const Powers pairs = balance(of_queries, of_keys);
    if (has_norms) {
      Powers of_scales;
      for (size_t c = 0; c < count; ++c) of_scales.push_back(pairs[place(c)]);
      scale_rows("query_norm.scale", of_scales, -1);
      scale_rows("key_norm.scale", of_scales, 1);
      return pairs;
    }
    Powers of_key_rows, of_query_rows;
    for (size_t c = 0; c < keys.size(); ++c) of_key_rows.push_back(pairs[pair_of(c)]);
    for (size_t c = 0; c < queries.size(); ++c) of_query_rows.push_back(of_key_rows[shared(c)]);
    scale_layer_rows("query", of_query_rows, -1);
    scale_layer_rows("key", of_key_rows, 1);
    return pairs;
  }

  const DecoderSizes& sizes_;
  std::map<std::string, onnx::ImportedParameter*> parameters_;
  std::string front_;  // of the names in a block
  Range norms_, gated_, heads_, scores_;
};

}  // namespace

std::string smooth(const DecoderSizes& sizes, const std::vector<BlockMaxima>& blocks,
                   onnx::ImportedNetwork& network) {
  Smoother smoother(sizes, network);
  for (size_t i = 0; i < blocks.size(); ++i) {
    smoother.smooth("block" + std::to_string(i + 1), blocks[i]);
  }
  return smoother.text();
}

}  // namespace mantissa

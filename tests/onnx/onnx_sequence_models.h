// Models of sequences, and their import compared with a plain evaluation.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/onnx/onnx_models.h"

namespace mantissa::testing {

inline constexpr int64_t kBatch = Model::kBatch, kSteps = 5, kChannels = 8, kTokens = 9;
inline constexpr ElementType kReal = ElementType::kFloat, kWhole = ElementType::kInt64;

inline Result<ImportedNetwork> import_sequences(const ModelData& model, int64_t sequence = 0) {
  return onnx::import_network(model,
                              {.mean = {}, .deviation = {}, .output = "", .sequence = sequence});
}

// Mantissas at 2^-12, [N, T, C], or tokens, [N, T].
inline std::vector<int16_t> numbers(int64_t channels) {
  std::vector<int16_t> all(static_cast<size_t>(kBatch * kSteps * channels));
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<int16_t>(uniform("numbers", static_cast<int64_t>(i)) * 16384 - 8192);
  }
  return all;
}
inline std::vector<int32_t> tokens() {
  std::vector<int32_t> all(static_cast<size_t>(kBatch * kSteps));
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<int32_t>(uniform("tokens", static_cast<int64_t>(i)) * kTokens);
  }
  return all;
}

// As the model wants them: with `steps_first` positions before examples.
template <typename To, typename From>
TensorData given(const std::vector<From>& from, ElementType type, bool steps_first, Wholes more,
                 double unit) {
  const int64_t size = std::ssize(from) / (kBatch * kSteps);
  std::vector<To> to(from.size());
  for (int64_t n = 0; n < kBatch; ++n) {
    for (int64_t t = 0; t < kSteps; ++t) {
      const int64_t row = steps_first ? t * kBatch + n : n * kSteps + t;
      for (int64_t c = 0; c < size; ++c) {
        to[row * size + c] = static_cast<To>(from[(n * kSteps + t) * size + c] * unit);
      }
    }
  }
  Wholes dims = steps_first ? Wholes{kSteps, kBatch} : Wholes{kBatch, kSteps};
  dims.insert(dims.end(), more.begin(), more.end());
  return tensor_of("x", type, dims, std::move(to));
}

// The result, [N, ...] or [N, T, ...], is compared with a plain evaluation.
template <typename From>
ImportedNetwork compare(Model& model, const std::string& output, const TensorData& x,
                        const std::vector<From>& examples, int64_t sequence) {
  const ModelData& data = model.finish(output);
  auto network = import_sequences(data, sequence);
  EXPECT_TRUE(network.ok()) << (network.ok() ? "" : network.error().message);
  if (!network.ok()) return {};
  expect_json(*network);
  ThreadPool pool(1);
  const auto expected = onnx::evaluate(data, {{"x", x}}, pool);
  EXPECT_TRUE(expected.ok()) << (expected.ok() ? "" : expected.error().message);
  auto run = ImportedRun::create(*network, kBatch, false);
  EXPECT_TRUE(run.ok()) << (run.ok() ? "" : run.error().message);
  if (!run.ok() || !expected.ok()) return {};
  const auto logits = (*run)->logits(examples);
  EXPECT_TRUE(logits.ok()) << (logits.ok() ? "" : logits.error().message);
  if (logits.ok()) expect_near((*expected)[0], *logits, network->graph);
  return std::move(*network);
}

inline ImportedNetwork expect_numbers(Model& model, const std::string& output, int64_t channels,
                                      bool steps_first = false, int64_t sequence = 0) {
  const auto examples = numbers(channels);
  return compare(model, output, given<float>(examples, kReal, steps_first, {channels}, 0x1p-12),
                 examples, sequence);
}

inline ImportedNetwork expect_tokens(Model& model, const std::string& output,
                                     bool steps_first = false, int64_t sequence = 0) {
  const auto examples = tokens();
  return compare(model, output, given<int64_t>(examples, kWhole, steps_first, {}, 1), examples,
                 sequence);
}

inline std::string refusal(Model& model, const std::string& output) {
  const auto network = import_sequences(model.finish(output));
  return network.ok() ? "imported" : network.error().message;
}

inline std::string linear(Model& m, const std::string& name, const std::string& from, int64_t in,
                          int64_t out) {
  const std::string product =
      m.add("MatMul", name + ".product", {from, m.weights(name + ".w", {in, out})});
  return m.add("Add", name, {m.weights(name + ".bias", {out}), product});
}

struct Kind {
  const char* op;
  int64_t gates;
  const char* ours;

  // The form that is possible, of GRU.
  std::vector<NodeAttribute> attributes() const {
    if (gates != 3) return {};
    return {{"linear_before_reset", int64_t{1}}};
  }
};
inline constexpr Kind kKinds[] = {{"RNN", 1, "rnn"}, {"LSTM", 4, "lstm"}, {"GRU", 3, "gru"}};

// W, R, B, no lengths, a start of zeros, and peepholes.
inline std::vector<std::string> recurrent_inputs(Model& m, const Kind& kind,
                                                 const std::string& name, const std::string& x,
                                                 int64_t in, bool more, int64_t directions = 1) {
  const int64_t rows = kind.gates * kChannels;
  std::vector<std::string> inputs = {x, m.weights(name + "W", {directions, rows, in}, -1, 1),
                                     m.weights(name + "R", {directions, rows, kChannels}, -1, 1),
                                     m.weights(name + "B", {directions, 2 * rows}, -1, 1)};
  if (!more) return inputs;
  inputs.push_back("");
  inputs.push_back(m.weights(name + "h", {1, kBatch, kChannels}, 0, 0));
  if (kind.gates == 4) {
    inputs.push_back(inputs.back());
    inputs.push_back(m.weights(name + "P", {1, 3 * kChannels}, -1, 1));
  }
  return inputs;
}

// Queries, keys and values of two heads, [N, H, T, D] each; keys [N, H, D, T].
struct Heads {
  std::string q, k, v;
};
inline Heads heads_of(Model& m, const std::string& from) {
  const std::string shape = m.wholes("split", {kBatch, kSteps, 2, kChannels / 2});
  const auto part = [&](const std::string& name, const Wholes& perm) {
    const std::string cut =
        m.add("Reshape", name + ".cut", {linear(m, name, from, kChannels, kChannels), shape});
    return m.add("Transpose", name + ".heads", {cut}, {{"perm", perm}});
  };
  return {part("q", {0, 2, 1, 3}), part("k", {0, 2, 3, 1}), part("v", {0, 2, 1, 3})};
}

inline std::string join_heads(Model& m, const std::string& from) {
  const std::string turned = m.add("Transpose", "join.t", {from}, {{"perm", Wholes{0, 2, 1, 3}}});
  return m.add("Reshape", "join", {turned, m.wholes("joined", {kBatch, kSteps, kChannels})});
}

inline std::string causal_mask(Model& m, float below, float above) {
  std::vector<float> mask;
  for (int64_t i = 0; i < kSteps * kSteps; ++i) {
    mask.push_back(i % kSteps > i / kSteps ? above : below);
  }
  return m.numbers("mask", {1, 1, kSteps, kSteps}, mask);
}

}  // namespace mantissa::testing

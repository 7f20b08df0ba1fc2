// Sequence networks that tests export: examples, and a comparison of the file's logits with the
// logits of `predict`.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/test_folder.h"
#include "mantissa/runs.h"
#include "mantissa/training.h"
#include "onnx/evaluate/evaluate.h"
#include "onnx/files/reader.h"

namespace mantissa::testing {

using onnx::ElementType;

inline constexpr int64_t kExamples = 24, kSteps = 7, kTokens = 9, kChannels = 12, kClasses = 5;

// Numbers from 0 to 1 that look random, the same everywhere.
class Numbers {
 public:
  double next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state_ >> 40) * 0x1p-24;
  }
  int32_t below(int64_t limit) { return static_cast<int32_t>(next() * static_cast<double>(limit)); }

 private:
  uint64_t state_ = 1;
};

// Sequences of tokens, or rows of numbers, one of each example; padding is 0.
struct Sequences {
  std::string tokens_input, lengths_input;  // of the network; "": there is no padding
  std::string ids_input, mask_input;        // of the model
  int64_t steps = kSteps;
  bool has_numbers = false;  // kChannels for each position, in place of a token
  std::vector<int32_t> tokens = {}, lengths = {};
  std::vector<float> numbers = {};

  void draw(Numbers& random) {
    for (int64_t n = 0; n < kExamples; ++n) {
      lengths.push_back(static_cast<int32_t>(steps));
      if (!lengths_input.empty()) lengths.back() = 1 + random.below(steps);
      for (int64_t t = 0; t < steps; ++t) {
        const int32_t seen = t < lengths.back() ? 1 : 0;
        tokens.push_back(seen * random.below(kTokens));
        for (int64_t c = 0; c < (has_numbers ? kChannels : 0); ++c) {
          numbers.push_back(static_cast<float>(seen * (random.below(4096) - 2048)) / 1024);
        }
      }
    }
  }
  std::vector<int64_t> mask() const {
    std::vector<int64_t> seen;
    for (const int32_t length : lengths) {
      for (int64_t t = 0; t < steps; ++t) seen.push_back(t < length ? 1 : 0);
    }
    return seen;
  }
};
inline Sequences source(bool with_lengths) {
  return {"tokens", with_lengths ? "lengths" : "", "input_ids", "attention_mask"};
}

// A translator's.
inline Sequences of_translator() {
  return {"source", "source_length", "input_ids", "attention_mask"};
}
inline Sequences target() { return {"target", "", "decoder_input_ids", ""}; }

struct Examples {
  std::vector<Sequences> sequences;
  Dims label_dims;  // of one example
  std::vector<int32_t> labels;

  Examples(std::vector<Sequences> of, bool labels_of_rows) : sequences(std::move(of)) {
    Numbers random;
    for (Sequences& each : sequences) each.draw(random);
    if (labels_of_rows) label_dims = {sequences.back().steps};
    const int64_t rows = labels_of_rows ? sequences.back().steps : 1;
    for (int64_t i = 0; i < kExamples * rows; ++i) labels.push_back(random.below(kClasses));
  }

  // One example: a sequence without padding.
  Examples alone(int64_t n) const {
    Examples one = *this;
    Sequences& all = one.sequences[0];
    const auto first = all.tokens.begin() + n * all.steps;
    all.tokens = std::vector<int32_t>(first, first + all.lengths[n]);
    if (all.has_numbers) {
      const auto row = all.numbers.begin() + n * all.steps * kChannels;
      all.numbers = std::vector<float>(row, row + all.lengths[n] * kChannels);
    }
    all.steps = all.lengths[n];
    all.lengths = {all.lengths[n]};
    return one;
  }

  ArraySet arrays() const {
    ArraySet set = {kExamples, {}};
    for (const Sequences& each : sequences) {
      set.arrays.push_back(
          each.has_numbers
              ? Array{each.tokens_input,
                      Elements::kFloat,
                      {each.steps, kChannels},
                      each.numbers.data()}
              : Array{each.tokens_input, Elements::kInt32, {each.steps}, each.tokens.data()});
      if (each.lengths_input.empty()) continue;
      set.arrays.push_back({each.lengths_input, Elements::kInt32, {}, each.lengths.data()});
    }
    set.arrays.push_back({"labels", Elements::kInt32, label_dims, labels.data()});
    return set;
  }
};

class ExportedSequencesTest : public ::testing::Test {
 protected:
  // The network with parameters from -0.6 to 0.6, frozen.
  static Model frozen(const Network& network, const Examples& examples, const std::string& format) {
    auto trainer = Trainer::create(network, {{"format", format}, {"batch-size", "8"}});
    EXPECT_TRUE(trainer.ok()) << trainer.error();
    Numbers random;
    for (const ParameterInfo& parameter : network.parameters()) {
      std::vector<double> numbers = trainer->parameter(parameter.name)->numbers;
      for (double& number : numbers) number = 1.2 * random.next() - 0.6;
      EXPECT_TRUE(trainer->set_parameter(parameter.name, numbers).ok());
    }
    auto model = trainer->freeze(examples.arrays());
    EXPECT_TRUE(model.ok()) << model.error();
    return *model;
  }

  Outcome<ExportedModel> exported(const Model& model) const {
    const std::string file = (folder_ / "net.safetensors").string();
    EXPECT_TRUE(model.save(file).ok());
    return export_model({{"checkpoint", file}, {"out", (folder_ / "net.onnx").string()}});
  }

  // The file's logits, computed in float.
  std::vector<double> computed(const Examples& examples) const {
    auto model = onnx::read_model(folder_ / "net.onnx");
    EXPECT_TRUE(model.ok()) << model.error().message;
    onnx::Tensors inputs;
    std::vector<std::vector<int64_t>> kept;  // reserved: the lists must not move
    kept.reserve(2 * examples.sequences.size());
    for (const Sequences& each : examples.sequences) {
      const auto give = [&](const std::string& name, const std::vector<int64_t>& numbers) {
        kept.push_back(numbers);
        inputs[name] = {name,
                        ElementType::kInt64,
                        {std::ssize(each.lengths), each.steps},
                        std::as_bytes(std::span(kept.back())),
                        nullptr};
      };
      if (each.has_numbers) {
        inputs[each.ids_input] = {each.ids_input,
                                  ElementType::kFloat,
                                  {std::ssize(each.lengths), each.steps, kChannels},
                                  std::as_bytes(std::span(each.numbers)),
                                  nullptr};
      } else {
        give(each.ids_input, {each.tokens.begin(), each.tokens.end()});
      }
      if (!each.lengths_input.empty()) give(each.mask_input, each.mask());
    }
    ThreadPool pool(1);
    const auto outputs = onnx::evaluate(*model, inputs, pool);
    EXPECT_TRUE(outputs.ok()) << (outputs.ok() ? "" : outputs.error().message);
    if (!outputs.ok()) return {};
    const auto* numbers = reinterpret_cast<const float*>((*outputs)[0].bytes.data());
    return {numbers, numbers + (*outputs)[0].bytes.size() / sizeof(float)};
  }

  // Exports the network in real numbers and in integers, and compares its logits with ours: in
  // integers they may be `most` apart. In real numbers an example's last state is the same without
  // padding.
  void expect_near(const Network& network, const Examples& examples, double most = 0.06,
                   double least_cosine = 0.9997) const {
    for (const char* format : {"fp32", "bfp8", "bfp:block=channel"}) {
      const Model model = frozen(network, examples, format);
      const Outcome<ExportedModel> outcome = exported(model);
      ASSERT_EQ(outcome.error(), "") << format;
      const std::vector<double> wanted = (*model.predict(examples.arrays()))[0];
      const std::vector<double> found = computed(examples);
      ASSERT_EQ(found.size(), wanted.size());
      double product = 0, of_found = 0, of_wanted = 0, distance = 0;
      for (size_t i = 0; i < found.size(); ++i) {
        product += found[i] * wanted[i];
        of_found += found[i] * found[i];
        of_wanted += wanted[i] * wanted[i];
        distance = std::max(distance, std::abs(found[i] - wanted[i]));
      }
      const bool is_real = std::string(format) == "fp32";
      EXPECT_LT(distance, is_real ? 1e-5 : most) << format << " " << network.name();
      EXPECT_GT(product / std::sqrt(of_found * of_wanted), is_real ? 0.9999999 : least_cosine)
          << format << " " << network.name();
      if (!is_real || !examples.label_dims.empty()) continue;
      for (int64_t n = 0; n < kExamples; ++n) {
        const std::vector<double> alone = computed(examples.alone(n));
        for (int64_t k = 0; k < kClasses; ++k)
          EXPECT_NEAR(alone[k], wanted[n * kClasses + k], 1e-5);
      }
    }
  }

  TestFolder folder_;
};

}  // namespace mantissa::testing

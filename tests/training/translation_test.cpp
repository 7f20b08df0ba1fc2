// Networks that translate learn, with the same bits on any threads and instruction set. In fp32
// padding is not seen.
#include "models/translation.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/harness.h"

namespace mantissa::testing {
namespace {

constexpr int64_t kWords = 6, kSource = 5, kTarget = kSource + 1, kPairs = 16;
constexpr int32_t kEnd = 0;  // end of a sentence; targets begin with it, too

using Build = Result<Graph> (*)(std::string_view, const TranslationSizes&);

Graph translator(Build build, bool tied) {
  auto graph = build("translator", {.vocabulary = kWords + 1,
                                    .source = kSource,
                                    .target = kTarget,
                                    .layers = build == lstm_translator ? 2 : 1,
                                    .channels = 32,
                                    .tied = tied});
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
  return std::move(*graph);
}

// Sentences of a language that is translated word by word, the last word first.
struct Sentences {
  std::vector<int32_t> source, lengths, target, labels;

  Sentences(int64_t step, int32_t padding) {
    for (int64_t n = 0; n < kPairs; ++n) {
      const auto draw = [&](int64_t place, uint64_t below) {
        const uint64_t bits = random_bits(9, RandomStream::kShuffle, static_cast<uint32_t>(step),
                                          static_cast<uint64_t>(n * (kSource + 1) + place));
        return static_cast<int32_t>(uniform_below(bits, below));
      };
      const int32_t length = 1 + draw(kSource, kSource);
      lengths.push_back(length);
      std::vector<int32_t> words;
      for (int64_t i = 0; i < kSource; ++i) {
        if (i < length) words.push_back(1 + draw(i, kWords));
        source.push_back(i < length ? words.back() : padding);
      }
      int32_t before = kEnd;
      for (int32_t i = 0; i < kTarget; ++i) {
        const int32_t word = i < length ? (words[length - 1 - i] + 1) % kWords + 1 : kEnd;
        target.push_back(before);
        labels.push_back(i <= length ? word : -1);
        before = word;
      }
    }
  }

  std::array<const void*, 4> inputs() const {
    return {source.data(), lengths.data(), target.data(), labels.data()};
  }
};

struct Translator {
  std::string format = "bfp8";
  int threads = 1;
  Isa isa = best_isa();
  int64_t micro_batch = kPairs;
  bool tied = false;
  int32_t padding = kEnd;
  Build build = transformer_translator;
};

class Translation {
 public:
  explicit Translation(const Translator& choice)
      : padding_(choice.padding),
        harness_({.format = choice.format,
                  .optimizer = OptimizerKind::kAdam,
                  .batch_size = kPairs,
                  .micro_batch_size = choice.micro_batch,
                  .threads = choice.threads,
                  .isa = choice.isa,
                  .seed = 3},
                 translator(choice.build, choice.tied)) {}

  // The loss of the last step.
  double train(int steps) {
    double loss = NAN;
    for (int i = 0; i < steps; ++i) {
      const Sentences sentences(steps_, padding_);
      const auto result = harness_.executor().train_step(
          sentences.inputs(), {.learning_rate = 0.003,
                               .gradient_scale = 1.0 / static_cast<double>(kPairs * kTarget),
                               .step = steps_++});
      EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
      loss = result.ok() ? result->loss : NAN;
    }
    return loss;
  }

  std::string sha256() const { return harness_.state_sha256(); }

 private:
  int32_t padding_;
  Harness harness_;
  int64_t steps_ = 0;
};

TEST(Translation, LearnsInEachFormat) {
  for (const char* format : {"bfp8", "dfp8", "fp32"}) {
    Translation translation({.format = format, .threads = 2});
    EXPECT_GT(translation.train(1), 0.8) << format;
    EXPECT_LT(translation.train(400), 0.25) << format;
  }
}

TEST(Translation, LearnsByRecurrentLayers) {
  for (const char* format : {"bfp8", "dfp8", "fp32"}) {
    Translation translation({.format = format, .threads = 2, .build = lstm_translator});
    EXPECT_GT(translation.train(1), 0.8) << format;
    EXPECT_LT(translation.train(400), 0.4) << format;
  }
}

TEST(Translation, LearnsWithOneTableForAll) {
  for (const char* format : {"bfp8", "fp32"}) {
    Translation translation({.format = format, .threads = 2, .tied = true});
    EXPECT_GT(translation.train(1), 0.8) << format;
    EXPECT_LT(translation.train(400), 0.4) << format;
  }
}

TEST(Translation, HasTheSameBitsOverThreadsInstructionSetsAndMicroBatches) {
  for (const Build build : {transformer_translator, lstm_translator}) {
    for (const char* format : {"bfp8", "dfp8", "bfp:g=8,gr=stochastic"}) {
      Translation scalar({.format = format, .isa = Isa::kScalar, .build = build});
      scalar.train(4);
      for (const int threads : {1, 3}) {
        Translation other({.format = format, .threads = threads, .build = build});
        other.train(4);
        EXPECT_EQ(other.sha256(), scalar.sha256()) << format << " " << threads;
      }
      Translation one({.format = format, .micro_batch = 4, .build = build});
      Translation three({.format = format, .threads = 3, .micro_batch = 4, .build = build});
      one.train(4);
      three.train(4);
      EXPECT_EQ(one.sha256(), three.sha256()) << format;
    }
  }
}

// In fp32 words share no exponent with the padding.
TEST(Translation, DoesNotSeeTheSourcesPadding) {
  for (const Build build : {transformer_translator, lstm_translator}) {
    Translation ends({.format = "fp32", .build = build});
    Translation words({.format = "fp32", .padding = 2, .build = build});
    EXPECT_EQ(ends.train(5), words.train(5));
    EXPECT_EQ(ends.sha256(), words.sha256());
  }
}

TEST(Translation, RefusesImpossibleSizes) {
  const auto layers =
      transformer_translator("n", {.vocabulary = 8, .source = 4, .target = 4, .layers = 0});
  ASSERT_FALSE(layers.ok());
  EXPECT_EQ(layers.error().message, "a network that translates has at least one layer");
  const auto heads = transformer_translator(
      "n", {.vocabulary = 8, .source = 4, .target = 4, .channels = 30, .heads = 4});
  ASSERT_FALSE(heads.ok());
  EXPECT_NE(heads.error().message.find("heads that divide 30"), std::string::npos);
}

}  // namespace
}  // namespace mantissa::testing

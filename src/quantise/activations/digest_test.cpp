// The same bits with every compiler and on every machine: a digest of results of all quantisers.
// If the digest changes, quantised networks compute something else. Fused multiplications would
// change it.
#include <gtest/gtest.h>

#include <bit>

#include "base/hash.h"
#include "quantise/activations/activations.h"
#include "quantise/starts.h"
#include "quantise/test_numbers.h"
#include "quantise/weights/adaround.h"
#include "quantise/weights/codebook.h"
#include "quantise/weights/weights.h"

namespace mantissa::quantise {
namespace {

class Digest {
 public:
  void add(double number) { add_bits(std::bit_cast<uint64_t>(number)); }
  void add(int64_t number) { add_bits(static_cast<uint64_t>(number)); }
  template <typename Numbers>
  void add_all(const Numbers& numbers) {
    for (const auto number : numbers) add_bits(static_cast<uint64_t>(number));
  }
  std::string hex() { return sha256_.hex_digest().substr(0, 16); }

 private:
  void add_bits(uint64_t bits) { sha256_.update(std::as_bytes(std::span(&bits, 1))); }
  Sha256 sha256_;
};

TEST(SameBits, OfWeights) {
  Digest digest;
  const auto weights = normal_numbers(2400, 1);
  for (const int bits : {1, 2, 3, 4, 8, 16, 24}) {
    for (const auto method : {WeightMethod::kMmse, WeightMethod::kUniform,
                              WeightMethod::kPercentile, WeightMethod::kKullbackLeibler}) {
      if (method == WeightMethod::kKullbackLeibler && bits == 1) continue;
      for (const int scale_bits : {1, 24, 53}) {
        WeightSettings settings;
        settings.method = method;
        settings.range = *mantissa_range(bits, RangeConvention::kFull);
        settings.parts = bits % 2 == 0 ? 8 : 1;
        settings.scale_bits = scale_bits;
        const auto result = *quantise_weights(std::span<const double>(weights), settings);
        for (const double scale : result.scales) digest.add(scale);
        digest.add_all(result.mantissas);
      }
    }
  }
  const auto codebook = *cluster_weights(std::span<const double>(weights), 4, 2);
  for (const double value : codebook.values) digest.add(value);
  digest.add_all(codebook.indices);
  EXPECT_EQ(digest.hex(), "696597215dd5feae");
}

TEST(SameBits, OfActivations) {
  Digest digest;
  ActivationStatistics statistics;
  for (int input = 0; input < 20; ++input) {
    const auto numbers = normal_numbers(300, input);
    statistics.add(std::vector<float>(numbers.begin(), numbers.end()));
  }
  for (const int bits : {1, 2, 4, 8, 16}) {
    for (const auto method : {ActivationMethod::kMmse, ActivationMethod::kMinMax,
                              ActivationMethod::kPercentile, ActivationMethod::kKullbackLeibler}) {
      for (const auto convention : {RangeConvention::kUnsigned, RangeConvention::kFull}) {
        const auto grid = *fit_activations(
            statistics, {.method = method, .bits = bits, .convention = convention});
        digest.add(grid.scale);
        digest.add(grid.offset);
        digest.add(squared_error(statistics, grid));
      }
    }
  }
  EXPECT_EQ(digest.hex(), "6695aa6018af3672");
}

TEST(SameBits, OfRoundingByTraining) {
  Digest digest;
  const auto weights = normal_numbers(60, 3), numbers = normal_numbers(50 * 12, 4);
  const std::vector<float> inputs(numbers.begin(), numbers.end());
  const std::vector<double> scales = {0.4};
  const auto rounded = *round_by_training(
      {inputs, {}, weights, 5, scales, *mantissa_range(3, RangeConvention::kFull)}, {.steps = 200});
  digest.add_all(rounded.mantissas);
  digest.add(rounded.error);
  EXPECT_EQ(digest.hex(), "fc1af9fb5be8482a");
}

TEST(SameBits, OfStartsAndGradients) {
  Digest digest;
  for (const auto method : {TrainingMethod::kWrpn, TrainingMethod::kDorefa, TrainingMethod::kPact,
                            TrainingMethod::kHalfWaveGaussian, TrainingMethod::kUniform,
                            TrainingMethod::kLsq, TrainingMethod::kLsqPlus}) {
    const WeightForm form = weight_form(method, {-8, 7}, 0.3);
    const LinearGrid grid{0.3, -1, {0, 15}};
    for (const double number : normal_numbers(200, 5)) {
      const auto weight = gradient(form, number, 0.7);
      const auto activation = gradient(method, grid, 3 * number, 0.7);
      digest.add(form.quantised(number));
      digest.add(latent_weight(form, 3, number));
      for (const double x :
           {weight.weight, weight.scale, activation.input, activation.scale, activation.offset}) {
        digest.add(x);
      }
    }
  }
  EXPECT_EQ(digest.hex(), "d0235b154318a237");
}

}  // namespace
}  // namespace mantissa::quantise

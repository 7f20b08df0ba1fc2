// Batch norm inverted from its output: the loss is the same, or nearly so after ReLU6, and the
// gradients are nearly the gradients of the definition.
#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "ops/norms/batch_norm.h"
#include "ops/ops.h"
#include "tests/harness.h"
#include "tests/operators/gradient_check.h"

namespace mantissa::testing {
namespace {

// A channel of a batch norm as a step left it: its rows of the input and of the gradients.
struct Channel {
  std::string name;
  double gamma = 0;
  Reals input, grad_output, grad_input;
  double grad_gamma = 0;
  double grad_unit = 0;  // of grad_input

  // The largest error from rounding the gradient.
  double rounding() const { return 0.51 * grad_unit * std::sqrt(double(input.size())); }
};

struct Gradients {
  Reals input;
  double gamma = 0;
};

double root_of_squares(const Reals& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

// The gradients by the definition. x^ is zero in a channel that is left out.
Gradients gradients(const Channel& c, bool left_out = false) {
  const auto n = static_cast<double>(c.input.size());
  double mean = 0, variance = 0, sum = 0;
  for (const double x : c.input) mean += x / n;
  for (const double x : c.input) variance += (x - mean) * (x - mean) / n;
  const double sigma = std::sqrt(variance + ops::kBatchNormEpsilon);
  Gradients result;
  for (size_t k = 0; k < c.input.size(); ++k) {
    sum += c.grad_output[k];
    if (!left_out) result.gamma += c.grad_output[k] * (c.input[k] - mean) / sigma;
  }
  for (size_t k = 0; k < c.input.size(); ++k) {
    const double normalised = (c.input[k] - mean) / sigma;
    result.input.push_back(c.gamma / sigma *
                           (c.grad_output[k] - sum / n - normalised * result.gamma / n));
  }
  return result;
}

bool is_constant(const Channel& c) {
  return std::all_of(c.input.begin(), c.input.end(), [&](double x) { return x == c.input[0]; });
}

double error_of(const Channel& c, const Gradients& expected) {
  Reals error = expected.input;
  for (size_t k = 0; k < error.size(); ++k) error[k] -= c.grad_input[k];
  return root_of_squares(error);
}

// Keeps the scales and offsets of a batch norm, to put them back.
class Parameters {
 public:
  explicit Parameters(std::span<const ParameterView> views) : gamma(reals(views[0].mantissa)) {
    for (const ParameterView& view : views.first(2)) {
      const auto* numbers = view.mantissa.as<int16_t>();
      kept_.push_back(
          {view.mantissa, {numbers, numbers + view.mantissa.count()}, *view.mantissa.exponent});
    }
  }
  void put_back() const {
    for (const Kept& kept : kept_) {
      std::copy(kept.numbers.begin(), kept.numbers.end(), kept.tensor.as<int16_t>());
      *kept.tensor.exponent = kept.exponent;
    }
  }
  Reals gamma;

 private:
  struct Kept {
    Tensor tensor;
    std::vector<int16_t> numbers;
    int16_t exponent;
  };
  std::vector<Kept> kept_;
};

// Takes a step, and reads all channels of the inverted batch norms.
std::vector<Channel> step_and_read(Harness& harness, StepResult* result = nullptr) {
  const Program& program = harness.program();
  Executor& executor = harness.executor();
  std::vector<int> found;
  std::vector<Parameters> before;
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.op != &ops::kBatchNormInverted) continue;
    if (kind_of(instruction) != SegmentKind::kGradWeights) continue;
    found.push_back(i);
    before.emplace_back(executor.context(i).parameters);
  }
  const StepResult step = harness.step();
  if (result != nullptr) *result = step;
  std::vector<Channel> channels;
  for (size_t at = 0; at < found.size(); ++at) {
    const int node = program.instructions[found[at]].node;
    int forward = 0;
    while (program.instructions[forward].node != node) ++forward;
    const Reals input = reals(executor.context(forward).inputs[0]);
    const OpContext& weights = executor.context(found[at]);
    for (const ParameterView& p : weights.parameters.first(2)) {
      std::memset(p.gradient.data, 0, static_cast<size_t>(p.gradient.count()) * 8);
    }
    // Once more with the old parameters: the update has overwritten the sums.
    before[at].put_back();
    ops::kBatchNormInverted.integer.grad_weights.run(weights);
    const Reals grad_gamma = reals(weights.parameters[0].gradient);
    const Tensor& gradient = executor.context(found[at] + 1).grad_inputs[0];
    Reals grad_output = reals(weights.grad_output());
    const Reals grad_input = reals(gradient), output = reals(weights.output());
    // A fused ReLU stops gradients.
    for (size_t i = 0; weights.mode.relu && i < output.size(); ++i) {
      if (output[i] <= 0) grad_output[i] = 0;
    }
    const size_t count = grad_gamma.size();
    for (size_t k = 0; k < count; ++k) {
      Channel channel;
      channel.name = harness.graph().nodes[node].name + ", channel " + std::to_string(k);
      channel.gamma = before[at].gamma[k];
      channel.grad_gamma = grad_gamma[k];
      channel.grad_unit = std::ldexp(1.0, *gradient.exponent);
      for (size_t i = k; i < input.size(); i += count) {
        channel.input.push_back(input[i]);
        channel.grad_output.push_back(grad_output[i]);
        channel.grad_input.push_back(grad_input[i]);
      }
      channels.push_back(std::move(channel));
    }
  }
  return channels;
}

struct InvertedNetwork {
  const char* model;
  double width = 1;
};
constexpr InvertedNetwork kMobilenet = {"mobilenet_v2", 0.25};
// ReLU after the batch norms; and after that strides, residual sums, pools and branches.
constexpr InvertedNetwork kReluNetworks[] = {
    {"resnet8"}, {"vgg8b", 0.125}, {"inception_small", 0.5}};

HarnessOptions options_of(const InvertedNetwork& network, const std::string& format) {
  return {.model = network.model,
          .format = format,
          .batch_size = 32,
          .micro_batch_size = 32,
          .threads = 2,
          .width = network.width,
          .reuses_memory = false};
}

void guard_everything(Harness& harness) {
  auto guards = harness.state().bytes(harness.state().layout().guards);
  std::fill(guards.begin(), guards.end(), std::byte{1});
}

// The loss moves by less than one percent. Only the input of ReLU6 differs a little: the inversion
// needs all of the output of a batch norm.
TEST(Inversion, LeavesTheForwardPassAsItIs) {
  for (const std::string keys : {"", "linear=16", "a=12,linear=16"}) {
    Harness plain(options_of(kMobilenet, "bfp:" + keys));
    Harness inverted(options_of(kMobilenet, "bfp:inversion=yes," + keys));
    const auto loss = static_cast<double>(plain.step().loss_q24);
    EXPECT_NEAR(static_cast<double>(inverted.step().loss_q24), loss, 0.01 * loss) << keys;
  }
}

// After a ReLU the loss is the same as with a fused ReLU, whatever becomes of negatives.
TEST(Inversion, LeavesTheBitsOfWhatReluPasses) {
  for (const InvertedNetwork& network : kReluNetworks) {
    for (const std::string format :
         {"bfp:", "bfp:linear=16", "bfp:a=12,linear=16", "bfp:a=7,unsigned=yes", "bfp:a=6",
          "bfp:exponents=exact", "dfp:warmup=0"}) {
      SCOPED_TRACE(std::string(network.model) + " " + format);
      const std::string comma = format.back() == ':' ? "" : ",";
      Harness plain(options_of(network, format));
      Harness inverted(options_of(network, format + comma + "inversion=yes"));
      const StepResult expected = plain.step(), found = inverted.step();
      EXPECT_EQ(found.loss_q24, expected.loss_q24);
      EXPECT_EQ(found.correct, expected.correct);
    }
  }
}

// METHODS section 4: within half a percent in `good_percent` of the channels, plus the rounding of
// the gradient itself. More in channels of few rows in tensors with an outlier, which makes units
// large. `worst` is the limit for any channel: exponents that are decided before clip a few
// outputs.
struct Wanted {
  double worst = 0.03;
  size_t good_percent = 95;
  bool guarded = false;
};

void expect_definition(const InvertedNetwork& network, const char* format,
                       const Wanted& wanted = {}) {
  const auto [worst, good_percent, guarded] = wanted;
  SCOPED_TRACE(std::string(network.model) + " " + format + (guarded ? ", guarded" : ""));
  Harness harness(options_of(network, format));
  if (guarded) guard_everything(harness);
  harness.train(20);
  StepResult result;
  const std::vector<Channel> channels = step_and_read(harness, &result);
  ASSERT_GT(channels.size(), 60u);
  EXPECT_EQ(result.norm_channels_left_out, 0);
  size_t good = 0;
  double grad_gamma_errors = 0;
  for (const Channel& c : channels) {
    if (is_constant(c)) {
      EXPECT_EQ(root_of_squares(c.grad_input), 0) << c.name;
      ++good;
      continue;
    }
    const Gradients expected = gradients(c);
    const double size = root_of_squares(expected.input), error = error_of(c, expected);
    EXPECT_LE(error, worst * size + c.rounding()) << c.name;
    good += error <= 0.005 * size + c.rounding();
    const double grads = root_of_squares(c.grad_output);
    const double of_gamma = std::abs(c.grad_gamma - expected.gamma);
    EXPECT_LE(of_gamma, 0.35 * grads) << c.name;
    if (grads > 0) grad_gamma_errors += of_gamma / grads;
  }
  EXPECT_GE(good * 100, channels.size() * good_percent);
  EXPECT_LE(grad_gamma_errors / double(channels.size()), 0.05);
}

TEST(Inversion, GradientsAreThoseOfTheDefinition) {
  expect_definition(kMobilenet, "bfp:inversion=yes");
  expect_definition(kMobilenet, "bfp:inversion=yes,linear=16");
  expect_definition(kMobilenet, "bfp:inversion=yes", {.guarded = true});
  expect_definition(kMobilenet, "dfp:inversion=yes,warmup=2", {.worst = 0.5});
}

TEST(Inversion, GradientsBehindReluAreThoseOfTheDefinition) {
  for (const InvertedNetwork& network : kReluNetworks) {
    expect_definition(network, "bfp:inversion=yes");
    expect_definition(network, "bfp:inversion=yes,linear=16", {.good_percent = 85});
    expect_definition(network, "bfp:inversion=yes", {.guarded = true});
    expect_definition(network, "dfp:inversion=yes,warmup=2", {.worst = 0.2, .good_percent = 85});
  }
}

// One convolution with an inverted batch norm. It has as many channels as leave room for two kept
// ones.
Graph small_network(const Op& activation = ops::kRelu6) {
  const int64_t channels = &activation == &ops::kRelu ? 48 : 16;
  GraphBuilder builder("small", Shape{28, 28, 1});
  int value = builder.add(ops::kNormaliseInput, "normalise", {builder.input()},
                          {{"means", WholeList{128}}});
  value = builder.add(ops::kConvolution, "convolution", {value},
                      {{"channels", channels}, {"kernel", 3}, {"stride", 2}, {"bias", 0}});
  value = builder.add(ops::kBatchNorm, "norm", {value});
  value = builder.add(activation, "activation", {value});
  value = builder.add(ops::kFlatten, "flatten", {value});
  value = builder.add(ops::kLinear, "linear", {value}, {{"channels", 10}, {"classifier", 1}});
  return std::move(*builder.finish(value));
}

// Sets the scales of some channels. Their offsets become 1, unless given, so that ReLU and ReLU6
// let them through.
void set_scales(Harness& harness, const std::map<int, int16_t>& mantissas, int16_t offset = 4096) {
  const StateLayout& layout = harness.state().layout();
  for (size_t p = 0; p < harness.graph().parameters.size(); ++p) {
    const Parameter& parameter = harness.graph().parameters[p];
    if (parameter.storage != Storage::kMantissa16) continue;
    const bool is_scale = parameter.initialiser == Initialiser::kOne;
    auto* numbers = harness.state().data<int16_t>(layout.parameters[p].mantissa);
    auto& exponent = *harness.state().data<int16_t>(layout.parameters[p].exponent);
    if (!is_scale) exponent = -12;
    for (const auto& [channel, mantissa] : mantissas) {
      numbers[channel] = is_scale ? mantissa : offset;
    }
  }
}

HarnessOptions small(const std::string& format = "bfp:inversion=yes") {
  return {.format = format,
          .batch_size = 32,
          .micro_batch_size = 32,
          .threads = 2,
          .learning_rate = 1e-6,
          .reuses_memory = false};
}

TEST(Inversion, ScalesOfAlmostZeroKeepTheInput) {
  for (const Op* activation : {&ops::kRelu6, &ops::kRelu}) {
    for (const char* format : {"bfp:inversion=yes", "bfp:inversion=yes,linear=16",
                               "bfp:inversion=yes,g=8", "bfp:inversion=yes,a=12,linear=16"}) {
      SCOPED_TRACE(std::string(activation->name) + " " + format);
      Harness harness(small(format), small_network(*activation));
      set_scales(harness, {{3, 0}, {12, 7}});
      StepResult result;
      const std::vector<Channel> channels = step_and_read(harness, &result);
      EXPECT_EQ(result.norm_channels_left_out, 0);
      for (const int k : {3, 12}) {
        const Channel& c = channels[k];
        const Gradients expected = gradients(c);
        EXPECT_LE(error_of(c, expected), c.rounding() + 1e-5 * root_of_squares(expected.input));
        EXPECT_NE(expected.gamma, 0);
        EXPECT_NEAR(c.grad_gamma, expected.gamma, 1e-5 * std::abs(expected.gamma)) << k;
      }
      EXPECT_EQ(channels[3].gamma, 0);
      EXPECT_EQ(root_of_squares(channels[3].grad_input), 0);
      EXPECT_NE(root_of_squares(channels[4].grad_input), 0);
    }
  }
}

// In a kept channel, too, the gradient passes only if the output is positive. With a tiny scale and
// a negative offset that is nowhere.
TEST(Inversion, ReluStopsTheGradientsOfKeptChannels) {
  Harness harness(small(), small_network(ops::kRelu));
  set_scales(harness, {{3, 7}, {12, 7}}, -4096);
  set_scales(harness, {{12, 7}});
  const std::vector<Channel> channels = step_and_read(harness);
  EXPECT_EQ(channels[3].grad_gamma, 0);
  EXPECT_EQ(root_of_squares(channels[3].grad_input), 0);
  EXPECT_NE(channels[12].grad_gamma, 0);
}

// gamma x^ + beta of the network's batch norm after a step, in the order of its output.
Reals normalised(const OpContext& c) {
  const int64_t channels = c.output().shape.last();
  const Reals gamma = reals(c.parameters[0].mantissa), beta = reals(c.parameters[1].mantissa);
  Reals result = reals(c.inputs[0]);
  for (int64_t k = 0; k < channels; ++k) {
    const auto rows = static_cast<double>(std::ssize(result) / channels);
    double mean = 0, variance = 0;
    for (int64_t i = k; i < std::ssize(result); i += channels) mean += result[i] / rows;
    for (int64_t i = k; i < std::ssize(result); i += channels) {
      variance += (result[i] - mean) * (result[i] - mean) / rows;
    }
    const double sigma = std::sqrt(variance + ops::kBatchNormEpsilon);
    for (int64_t i = k; i < std::ssize(result); i += channels) {
      result[i] = gamma[k] * (result[i] - mean) / sigma + beta[k];
    }
  }
  return result;
}

// Numbers far below zero have a larger unit than those that the ReLU passes. They are not clipped.
TEST(Inversion, NegativesHaveAUnitOfTheirOwn) {
  for (const std::string format : {"bfp:inversion=yes", "bfp:inversion=yes,a=12,linear=16"}) {
    SCOPED_TRACE(format);
    Harness harness(small(format), small_network(ops::kRelu));
    std::map<int, int16_t> quarters;
    for (int k = 0; k < 48; ++k) quarters[k] = 4096;  // of 2^-14
    set_scales(harness, quarters, 0);
    set_scales(harness, {{5, 16384}, {9, 16384}}, -12288);  // 1, and -3
    const std::vector<Channel> channels = step_and_read(harness);
    for (const Channel& c : channels) {
      const Gradients expected = gradients(c);
      EXPECT_LE(error_of(c, expected), c.rounding() + 0.02 * root_of_squares(expected.input))
          << c.name;
    }
    const auto& instructions = harness.program().instructions;
    const auto norm = std::find_if(instructions.begin(), instructions.end(),
                                   [](const auto& i) { return i.op == &ops::kBatchNormInverted; });
    const OpContext& c = harness.executor().context(static_cast<int>(norm - instructions.begin()));
    const Reals wanted = normalised(c);
    const double unit = std::ldexp(1.0, *c.output().exponent),
                 most = mantissa_limit(c.output().bits);
    double negative_unit = unit;
    while (*std::min_element(wanted.begin(), wanted.end()) < -(most + 1) * negative_unit) {
      negative_unit *= 2;
    }
    EXPECT_GT(negative_unit, unit);
    for (int64_t i = 0; i < std::ssize(wanted); ++i) {
      const double mantissa = element(c.output(), i), of_sign = mantissa > 0 ? unit : negative_unit;
      ASSERT_NEAR(mantissa * of_sign, wanted[i], 0.51 * of_sign + 0.51 * unit) << i;
    }
  }
}

// The bits of written values are counted by pieces; with more threads than parts, all at once. The
// counts are the same, also if channels are overwritten afterwards.
TEST(Inversion, BitsOfKeptChannelsAreCounted) {
  const auto state_with = [](int threads) {
    HarnessOptions options = small("dfp:inversion=yes");
    options.threads = threads;
    Harness harness(options, small_network());
    std::map<int, int16_t> others;
    for (int channel = 0; channel < 16; ++channel) others[channel] = 16384;
    for (int i = 0; i < 3; ++i) {
      set_scales(harness, others, -20480);  // ReLU6 lets none of these through
      set_scales(harness, {{3, 1900}, {12, 1900}});
      EXPECT_EQ(harness.step().norm_channels_left_out, 0);
    }
    return harness.state_sha256();
  };
  EXPECT_EQ(state_with(2), state_with(65));
}

// There is room for two of 16 channels; each has its turn.
TEST(Inversion, ChannelsTakeTurnsWhereRoomIsShort) {
  Harness harness(small(), small_network());
  const std::vector<int> dead = {0, 2, 3, 7, 15};
  std::map<int, int> turns;
  for (int step = 0; step < 5; ++step) {
    for (const int k : dead) set_scales(harness, {{k, 5}});
    StepResult result;
    const std::vector<Channel> channels = step_and_read(harness, &result);
    EXPECT_EQ(result.norm_channels_left_out, 3);
    for (const int k : dead) {
      const Channel& c = channels[k];
      const bool left_out = c.grad_gamma == 0;
      turns[k] += !left_out;
      const Gradients expected = gradients(c, left_out);
      EXPECT_LE(error_of(c, expected), c.rounding() + 1e-5 * root_of_squares(expected.input));
    }
  }
  for (const int k : dead) EXPECT_EQ(turns[k], 2) << k;
}

// Pixels that are all alike: nothing to normalise, nothing to divide by.
TEST(Inversion, ChannelsThatAreConstantHaveNoGradient) {
  Harness harness(small(), small_network());
  const int64_t weights = harness.state().layout().parameters[0].mantissa;
  auto bytes = harness.state().bytes(static_cast<int>(weights));
  std::fill(bytes.begin(), bytes.begin() + 9, std::byte{0});
  const std::vector<Channel> channels = step_and_read(harness);
  EXPECT_EQ(root_of_squares(channels[0].input), 0);
  EXPECT_EQ(root_of_squares(channels[0].grad_input), 0);
  EXPECT_EQ(channels[0].grad_gamma, 0);
  EXPECT_NE(channels[1].grad_gamma, 0);
}

}  // namespace
}  // namespace mantissa::testing

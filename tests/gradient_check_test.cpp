// Every op's integer forward and backward against its definition in double, on a real program: each
// instruction's operands are read back after a step, the op is computed from them in double, and
// its gradients are compared with central differences of  L = sum(grad_output * op(inputs)).
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "numerics/rounding.h"
#include "ops/ops.h"
#include "tests/definitions.h"
#include "tests/harness.h"

namespace mantissa::testing {
namespace {

double element(const Tensor& tensor, int64_t i) {
  switch (tensor.type) {
    case DataType::kUint8:
      return tensor.as<uint8_t>()[i];
    case DataType::kInt8:
      return tensor.as<int8_t>()[i];
    case DataType::kInt16:
      return tensor.as<int16_t>()[i];
    case DataType::kInt32:
      return tensor.as<int32_t>()[i];
    case DataType::kInt64:
      return static_cast<double>(tensor.as<int64_t>()[i]);
    case DataType::kFloat:
      return tensor.as<float>()[i];
    case DataType::kDouble:
      return tensor.as<double>()[i];
  }
  return 0;
}

int exponent_of(const Tensor& tensor, int64_t i) {
  if (tensor.exponent == nullptr || tensor.type == DataType::kUint8) return 0;  // pixels
  const bool guarded = tensor.guarded != nullptr && *tensor.guarded != 0;
  return *tensor.exponent + (guarded ? tensor.channel_exponent[i % tensor.shape.last()] : 0);
}

Reals reals(const Tensor& tensor) {
  Reals values(static_cast<size_t>(tensor.count()));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    values[i] = std::ldexp(element(tensor, i), exponent_of(tensor, i));
  }
  return values;
}

double largest(const Reals& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

// An op in double: outputs from inputs (concatenated operands of the node) and parameters.
using Function =
    std::function<Reals(const std::vector<Reals>& inputs, const std::vector<Reals>& parameters)>;

// A small network on random pixels, its arena without reuse.
class Checked {
 public:
  Checked(Graph graph, int64_t batch, ops::LossKind loss = ops::LossKind::kCrossEntropy,
          int64_t smoothing = 0)
      : graph_(std::move(graph)), batch_(batch), smoothing_(smoothing) {
    auto state = State::create(training_layout(graph_, Format{}, OptimizerKind::kMomentum));
    state_.emplace(std::move(*state));
    initialise(graph_, Format{}, 3, *state_);
    const kernels::KernelTable table = kernels::select_kernels(best_isa());
    auto program = compile(
        graph_,
        {.micro_batch_size = batch, .micro_batches = 1, .loss = loss, .label_smoothing = smoothing},
        {&table, 2});
    EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().message);
    program_ = std::move(*program);
    spread_out(program_);  // every buffer still holds its data after the step
    auto arena = AlignedMemory::create(program_.arena_bytes);
    arena_.emplace(std::move(*arena));
    executor_.emplace(graph_, program_, *state_, arena_->span(), pool_, best_isa());
    const int64_t pixels = batch * graph_.values[graph_.input].shape.count();
    for (int64_t i = 0; i < pixels; ++i) {
      pixels_.push_back(static_cast<uint8_t>(random_bits(5, RandomStream::kAugment, 0, i)));
    }
    for (int64_t i = 0; i < batch; ++i) {
      labels_.push_back(static_cast<uint8_t>(i % graph_.classes()));
    }
  }

  StepResult step(double learning_rate) {
    const StepScalars scalars{.learning_rate = learning_rate,
                              .momentum = 0.5,
                              .gradient_scale = 1 / static_cast<double>(batch_)};
    const auto result = executor_->train_step(pixels_.data(), labels_.data(), scalars);
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
    return result.ok() ? *result : StepResult{};
  }

  // Trains a little, so that scales, offsets and predictors are not those of the start; then keeps
  // the parameters that the checked step works with.
  void run() {
    for (int i = 0; i < 5; ++i) step(0.05);
    for (size_t i = 0; i < graph_.parameters.size(); ++i) parameters_.push_back(parameter(i));
    loss_ = step(0).loss;
  }

  // Compares everything; returns the names of the ops that were checked, "+relu" where fused.
  std::vector<std::string> check() {
    std::vector<std::string> names;
    for (int i = 0; i < static_cast<int>(program_.instructions.size()); ++i) {
      const Instruction& instruction = program_.instructions[i];
      if (instruction.phase == Phase::kUpdate || instruction.phase == Phase::kUpdateStatistics) {
        continue;
      }
      SCOPED_TRACE(std::string(phase_name(instruction.phase)) + " " + instruction.op->name + " " +
                   instruction.name);
      names.push_back(std::string(phase_name(instruction.phase)) + " " + instruction.op->name +
                      (instruction.relu ? "+relu" : ""));
      if (instruction.op == &ops::kSoftmaxCrossEntropy) {
        if (instruction.phase == Phase::kBackwardInput) check_cross_entropy(i);
      } else if (instruction.op == &ops::kMeanSquaredError) {
        if (instruction.phase == Phase::kBackwardInput) check_squared_error(i);
      } else if (instruction.op == &ops::kSumGradients) {
        check_sum(i);
      } else if (instruction.phase == Phase::kForward) {
        check_forward(i);
      } else if (instruction.phase == Phase::kBackwardInput) {
        check_backward_input(i);
      } else {
        check_backward_weights(i);
      }
    }
    return names;
  }

  Executor& executor() { return *executor_; }
  State& state() { return *state_; }
  const Graph& graph() const { return graph_; }

 private:
  Reals parameter(size_t index) {
    const ParameterState& tensors = state_->layout().parameters[index];
    const StateTensor& tensor = state_->layout().tensors[tensors.mantissa];
    Tensor view;
    view.data = state_->bytes(tensors.mantissa).data();
    view.type = tensor.type;
    view.shape = tensor.shape;
    if (tensors.exponent >= 0) view.exponent = state_->data<int16_t>(tensors.exponent);
    return reals(view);
  }

  // The forward instruction of a node, whose operands all phases share.
  const OpContext& forward_of(int node) const {
    for (int i = 0;; ++i) {
      const Instruction& candidate = program_.instructions[i];
      if (candidate.node == node && candidate.phase == Phase::kForward)
        return executor_->context(i);
    }
  }

  std::vector<Reals> node_parameters(int node) const {
    std::vector<Reals> list;
    for (const int index : graph_.nodes[node].parameters) list.push_back(parameters_[index]);
    return list;
  }

  // The op of a node in double, without the ReLU that may be fused into it.
  Function function_of(int node) const {
    const OpContext& c = forward_of(node);
    const Op* op = graph_.nodes[node].op;
    const Attributes& a = graph_.nodes[node].attributes;
    const Shape in = c.inputs[0].shape, out = c.output.shape;
    if (op == &ops::kConvolution || op == &ops::kLinear) {
      const Shape w = graph_.parameters[graph_.nodes[node].parameters[0]].shape;
      return [=](const auto& x, const auto& p) { return convolution(a, in, out, w, x[0], p); };
    }
    if (op == &ops::kBatchNorm) {
      return [=](const auto& x, const auto& p) { return batch_norm(in.last(), x[0], p); };
    }
    if (op == &ops::kMaxPool || op == &ops::kOverlappingMaxPool) {
      return [=](const auto& x, const auto&) { return max_pool(a, in, out, x[0]); };
    }
    if (op == &ops::kAveragePool) {
      return [=](const auto& x, const auto&) { return average_pool(a, in, out, x[0]); };
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
    if (op == &ops::kAdd) {
      return [](const auto& x, const auto&) {
        Reals y = x[0];
        for (size_t i = 0; i < y.size(); ++i) y[i] += x[1][i];
        return y;
      };
    }
    if (op == &ops::kMultiply) {
      return [=](const auto& x, const auto&) { return product(in, x[0], x[1]); };
    }
    if (op == &ops::kDropout) {
      return [this, node, &a](const auto& x, const auto&) { return dropped(node, a, x[0]); };
    }
    if (op == &ops::kPad) return [=](const auto& x, const auto&) { return pad(a, in, out, x[0]); };
    if (op == &ops::kChannelShuffle) {
      return [=](const auto& x, const auto&) { return shuffle(a, in, x[0]); };
    }
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
      for (double& value : y) value = (value - static_cast<double>(a.get("mean0", 0))) / 64;
      return y;
    };
  }

  // Dropout by the definition of its key: 16 bits of a Philox block for each element.
  Reals dropped(int node, const Attributes& a, Reals x) const {
    const int64_t threshold = a.get("dropped", 32768);
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

  std::vector<Reals> inputs_of(int node) const {
    std::vector<Reals> list;
    for (const Tensor& input : forward_of(node).inputs) list.push_back(reals(input));
    return list;
  }

  // The output's gradient; under a fused ReLU only where the ReLU let something through.
  Reals grad_output(int i) const {
    const OpContext& c = executor_->context(i);
    Reals gradient = reals(c.grad_output);
    if (!c.relu) return gradient;
    const OpContext& forward = forward_of(program_.instructions[i].node);
    for (size_t k = 0; k < gradient.size(); ++k) {
      if (element(forward.output, static_cast<int64_t>(k)) <= 0) gradient[k] = 0;
    }
    return gradient;
  }

  // d L / d x[k], L = sum(gradient * function), by a central difference with step h.
  static double slope(const std::function<Reals()>& function, double& x, double h,
                      const Reals& gradient) {
    const double kept = x;
    double difference = 0;
    x = kept + h;
    const Reals above = function();
    x = kept - h;
    const Reals below = function();
    x = kept;
    for (size_t i = 0; i < gradient.size(); ++i) difference += gradient[i] * (above[i] - below[i]);
    return difference / (2 * h);
  }

  void check_forward(int i) {
    const OpContext& c = executor_->context(i);
    const int node = program_.instructions[i].node;
    Reals expected = function_of(node)(inputs_of(node), node_parameters(node));
    const Reals found = reals(c.output);
    const double most = largest(expected);
    ASSERT_EQ(expected.size(), found.size());
    for (size_t k = 0; k < found.size(); ++k) {
      if (c.relu) expected[k] = std::max(0.0, expected[k]);
      const double unit = std::ldexp(1.0, exponent_of(c.output, static_cast<int64_t>(k)));
      // Half a unit, a whole one where the largest value saturates; biases are rounded to the sum.
      const bool edge = std::abs(element(c.output, static_cast<int64_t>(k))) == 127;
      ASSERT_NEAR(found[k], expected[k], (edge ? 1.01 : 0.51) * unit + 1e-6 * most) << k;
    }
  }

  void compare_gradient(const Tensor& found, int64_t k, double expected, double most) {
    const double unit = std::ldexp(1.0, *found.exponent);
    const bool edge = std::abs(element(found, k)) == 32767;
    ASSERT_NEAR(std::ldexp(element(found, k), *found.exponent), expected,
                (edge ? 1.01 : 0.51) * unit + 2e-6 * most)
        << k;
  }

  void check_backward_input(int i) {
    const OpContext& c = executor_->context(i);
    const int node = program_.instructions[i].node;
    const Op* op = graph_.nodes[node].op;
    const Function function = function_of(node);
    const Reals gradient = grad_output(i);
    std::vector<Reals> inputs = inputs_of(node);
    const std::vector<Reals> parameters = node_parameters(node);
    for (size_t n = 0; n < inputs.size(); ++n) {
      if (c.grad_inputs[n].empty()) continue;
      Reals& x = inputs[n];
      const double unit = std::ldexp(1.0, *forward_of(node).inputs[n].exponent);
      double h = unit / 64;
      if (has_kinks(op)) {
        // At a kink the slope is that on the side away from zero; at zero that below.
        h = unit * 1e-7;
        for (double& value : x) value += (value > 0 ? 1 : -1) * unit * 1e-5;
      }
      if (op == &ops::kMaxPool || op == &ops::kOverlappingMaxPool || op == &ops::kRelu) {
        // Ties go to the first tap, and zero is not positive.
        h = unit * 1e-7;
        for (size_t k = 0; k < x.size(); ++k) {
          x[k] -= op == &ops::kRelu
                      ? unit * 1e-3
                      : unit * 1e-3 * static_cast<double>(k) / static_cast<double>(x.size());
        }
      }
      Reals expected(x.size());
      for (size_t k = 0; k < x.size(); ++k) {
        expected[k] = slope([&] { return function(inputs, parameters); }, x[k], h, gradient);
      }
      const double most = largest(expected) + (h < unit / 100 ? 1e3 * 1e-3 * largest(gradient) : 0);
      for (size_t k = 0; k < x.size(); ++k) {
        compare_gradient(c.grad_inputs[n], static_cast<int64_t>(k), expected[k], most);
      }
    }
  }

  // The update has used the sums up: the instruction runs once more.
  void check_backward_weights(int i) {
    const OpContext& c = executor_->context(i);
    const int node = program_.instructions[i].node;
    const Function function = function_of(node);
    const Reals gradient = grad_output(i);
    const std::vector<Reals> inputs = inputs_of(node);
    std::vector<Reals> parameters = node_parameters(node);
    for (const ParameterView& p : c.parameters) {
      if (p.gradient.empty()) continue;
      std::memset(p.gradient.data, 0, static_cast<size_t>(p.gradient.count()) * 8);
    }
    program_.instructions[i].op->backward_weights(c);
    for (size_t n = 0; n < parameters.size(); ++n) {
      if (c.parameters[n].gradient.empty()) continue;
      const Reals found = reals(c.parameters[n].gradient);
      Reals expected(found.size());
      for (size_t k = 0; k < found.size(); ++k) {
        expected[k] =
            slope([&] { return function(inputs, parameters); }, parameters[n][k], 0.25, gradient);
      }
      const double unit = std::ldexp(1.0, *c.parameters[n].gradient.exponent);
      for (size_t k = 0; k < found.size(); ++k) {
        ASSERT_NEAR(found[k], expected[k], 0.51 * unit + 1e-7 * largest(expected)) << n << " " << k;
      }
    }
  }

  void check_sum(int i) {
    const OpContext& c = executor_->context(i);
    const Reals a = reals(c.inputs[0]), b = reals(c.inputs[1]);
    for (size_t k = 0; k < a.size(); ++k) {
      compare_gradient(c.grad_inputs[0], static_cast<int64_t>(k), a[k] + b[k], largest(a));
    }
  }

  void check_squared_error(int i) {
    const OpContext& c = executor_->context(i);
    const Reals logits = reals(c.inputs[0]);
    const int64_t classes = graph_.classes();
    double loss = 0;
    for (int64_t k = 0; k < batch_ * classes; ++k) {
      const double error = logits[k] - (k % classes == labels_[k / classes] ? 1 : 0);
      loss += error * error / static_cast<double>(batch_ * classes);
      compare_gradient(c.grad_inputs[0], k, 2 * error / static_cast<double>(classes), 1);
    }
    EXPECT_NEAR(loss_, loss, 1e-6);
  }

  void check_cross_entropy(int i) {
    const OpContext& c = executor_->context(i);
    const Reals logits = reals(c.inputs[0]);
    const int64_t classes = graph_.classes();
    double loss = 0;
    for (int64_t n = 0; n < batch_; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < classes; ++k) sum += std::exp(logits[n * classes + k]);
      for (int64_t k = 0; k < classes; ++k) {
        const double p = std::exp(logits[n * classes + k]) / sum;
        const double epsilon = static_cast<double>(smoothing_) / 65536;
        const double target =
            (k == labels_[n] ? 1 - epsilon : 0) + epsilon / static_cast<double>(classes);
        if (target != 0) loss -= target * std::log(p) / static_cast<double>(batch_);
        compare_gradient(c.grad_inputs[0], n * classes + k, p - target, 10);
      }
    }
    EXPECT_NEAR(loss_, loss, 1e-4);
  }

  Graph graph_;
  int64_t batch_;
  int64_t smoothing_;
  ThreadPool pool_{2};
  Program program_;
  std::optional<State> state_;
  std::optional<AlignedMemory> arena_;
  std::optional<Executor> executor_;
  std::vector<uint8_t> pixels_, labels_;
  std::vector<Reals> parameters_;
  double loss_ = 0;
};

class Network {
 public:
  explicit Network(Shape shape) : builder_("network", shape) {
    last_ = builder_.add(ops::kNormaliseInput, "normalise", {builder_.input()}, {{"mean0", 128}});
  }
  int add(const Op& op, Attributes attributes = {}) { return add(op, {last_}, attributes); }
  int add(const Op& op, std::vector<int> inputs, Attributes attributes = {}) {
    return last_ = builder_.add(op, "node" + std::to_string(count_++), std::move(inputs),
                                std::move(attributes));
  }
  int convolution(int64_t channels, int64_t kernel, int64_t stride, int64_t padding, int64_t bias) {
    return add(ops::kConvolution, {{"channels", channels},
                                   {"kernel", kernel},
                                   {"stride", stride},
                                   {"padding", padding},
                                   {"bias", bias}});
  }
  Graph finish(int64_t classes) {
    add(ops::kLinear, {{"channels", classes}, {"classifier", 1}});
    auto graph = builder_.finish(last_);
    EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
    return std::move(*graph);
  }
  int last() const { return last_; }

 private:
  GraphBuilder builder_;
  int last_ = 0;
  int count_ = 1;
};

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

TEST(GradientCheck, ConvolutionsPoolingAndLinear) {
  Network net(Shape{9, 8, 1});
  net.convolution(5, 3, 1, 1, 1);
  net.add(ops::kMaxPool, {{"window", 2}});  // the ninth row is left over
  net.add(ops::kRelu);
  net.convolution(4, 3, 2, 1, 1);
  net.add(ops::kRelu);
  net.convolution(6, 2, 1, 0, 0);
  net.add(ops::kFlatten);
  net.add(ops::kLinear, {{"channels", 7}});
  net.add(ops::kRelu);
  Checked checked(net.finish(5), 6);
  checked.run();
  const auto names = checked.check();
  for (const char* name :
       {"backward_input convolution", "backward_weights convolution", "backward_input max_pool",
        "backward_input relu", "backward_input linear", "backward_input softmax_cross_entropy"}) {
    EXPECT_TRUE(contains(names, name)) << name;
  }
}

// Branches as in Inception: pools of both kinds and a convolution, joined; one of them twice.
TEST(GradientCheck, OverlappingPoolsAveragesAndConcat) {
  Network net(Shape{9, 8, 1});
  const int input = net.convolution(4, 3, 1, 1, 1);
  const int largest =
      net.add(ops::kOverlappingMaxPool, {input}, {{"window", 3}, {"stride", 2}, {"padding", 1}});
  const int average = net.add(ops::kAveragePool, {input},
                              {{"window", 3}, {"stride", 2}, {"padding", 1}, {"count_padding", 0}});
  const int strided = net.add(ops::kConvolution, {input},
                              {{"channels", 3}, {"kernel", 3}, {"stride", 2}, {"padding", 1}});
  net.add(ops::kConcat, {largest, average, strided, largest});
  net.add(ops::kAveragePool, {{"window", 3}, {"stride", 1}, {"padding", 1}});
  net.add(ops::kOverlappingMaxPool, {{"window", 3}, {"stride", 1}, {"padding", 1}});
  net.add(ops::kGlobalAveragePool);
  Checked checked(net.finish(4), 4);
  checked.run();
  const auto names = checked.check();
  for (const char* name : {"backward_input overlapping_max_pool", "backward_input average_pool",
                           "backward_input concat", "backward_input sum_gradients"}) {
    EXPECT_TRUE(contains(names, name)) << name;
  }
}

Graph residual_network() {
  Network net(Shape{8, 8, 1});
  net.convolution(6, 3, 1, 1, 0);
  net.add(ops::kBatchNorm);
  const int input = net.add(ops::kRelu);
  net.convolution(8, 3, 2, 1, 0);
  net.add(ops::kBatchNorm);
  net.add(ops::kRelu);
  net.convolution(8, 3, 1, 1, 0);
  const int branch = net.add(ops::kBatchNorm);
  net.add(ops::kConvolution, {input},
          {{"channels", 8}, {"kernel", 1}, {"stride", 2}, {"padding", 0}, {"bias", 0}});
  const int shortcut = net.add(ops::kBatchNorm);
  net.add(ops::kAdd, {branch, shortcut});
  const int joined = net.add(ops::kRelu);
  net.convolution(8, 3, 1, 1, 1);
  const int again = net.add(ops::kBatchNorm);
  net.add(ops::kAdd, {again, joined});  // without a ReLU
  net.add(ops::kGlobalAveragePool);
  return net.finish(4);
}

TEST(GradientCheck, ResidualBlocksWithBatchNorm) {
  Checked checked(residual_network(), 6);
  checked.run();
  const auto names = checked.check();
  for (const char* name : {"backward_input batch_norm", "backward_input batch_norm+relu",
                           "backward_weights batch_norm", "backward_weights batch_norm+relu",
                           "backward_input add", "backward_input add+relu",
                           "backward_input global_average_pool", "backward_input sum_gradients"}) {
    EXPECT_TRUE(contains(names, name)) << name;
  }
}

TEST(GradientCheck, BatchNormUnderTheGuard) {
  Checked checked(residual_network(), 6);
  auto guards = checked.state().bytes(checked.state().layout().guards);
  std::fill(guards.begin(), guards.end(), std::byte{1});
  checked.run();
  checked.check();
}

TEST(GradientCheck, AValueAddedToItselfAndReadTwice) {
  Network net(Shape{6, 6, 1});
  const int a = net.convolution(4, 3, 1, 1, 1);
  const int b = net.convolution(4, 3, 1, 1, 1);
  const int twice = net.add(ops::kAdd, {a, a});
  const int sum = net.add(ops::kAdd, {twice, b});
  const int c = net.add(ops::kConvolution, {a}, {{"channels", 4}, {"padding", 1}});
  const int d = net.add(ops::kConvolution, {b}, {{"channels", 4}, {"padding", 1}});
  const int both = net.add(ops::kAdd, {c, d});
  net.add(ops::kAdd, {both, sum});
  net.add(ops::kGlobalAveragePool);
  Checked checked(net.finish(3), 5);
  checked.run();
  checked.check();
}

TEST(GradientCheck, SmoothedCrossEntropyAndSquaredError) {
  const auto network = [] {
    Network net(Shape{5, 6, 1});
    net.add(ops::kFlatten);
    net.add(ops::kLinear, {{"channels", 7}});
    net.add(ops::kRelu);
    return net.finish(5);
  };
  for (const int64_t smoothing : {6554, 65535}) {
    Checked checked(network(), 6, ops::LossKind::kCrossEntropy, smoothing);
    checked.run();
    EXPECT_TRUE(contains(checked.check(), "backward_input softmax_cross_entropy"));
  }
  Checked checked(network(), 6, ops::LossKind::kSquaredError);
  checked.run();
  EXPECT_TRUE(contains(checked.check(), "backward_input mean_squared_error"));
}

TEST(GradientCheck, PointFunctions) {
  for (const Op* op : {&ops::kRelu6, &ops::kLeakyRelu, &ops::kSigmoid, &ops::kTanh,
                       &ops::kHardSigmoid, &ops::kHardSwish}) {
    Network net(Shape{7, 6, 1});
    net.convolution(5, 3, 1, 1, 1);
    net.add(*op);
    net.convolution(4, 3, 2, 1, 1);
    net.add(ops::kBatchNorm);
    net.add(*op);
    net.add(ops::kFlatten);
    net.add(ops::kLinear, {{"channels", 7}});
    net.add(*op);
    Checked checked(net.finish(5), 6);
    checked.run();
    EXPECT_TRUE(contains(checked.check(), std::string("backward_input ") + op->name)) << op->name;
  }
}

TEST(GradientCheck, RearrangementsDilationGroupsAndDropout) {
  Network net(Shape{8, 7, 1});
  net.add(ops::kPad, {{"top", 1}, {"left", 2}, {"right", 1}});
  net.convolution(8, 3, 1, 1, 1);
  net.add(ops::kRelu);
  net.add(ops::kChannelShuffle, {{"groups", 4}});
  net.add(ops::kConvolution, {{"channels", 6}, {"padding", 2}, {"dilation", 2}, {"groups", 2}});
  net.add(ops::kDropout, {{"dropped", 13107}});
  net.add(ops::kPad, {{"bottom", 1}, {"right", 2}});
  net.add(ops::kConvolution,
          {{"channels", 6}, {"padding", 3}, {"dilation", 3}, {"stride", 2}, {"groups", 1}});
  net.add(ops::kRelu);
  net.add(ops::kConvolution,
          {{"channels", 6}, {"padding", 2}, {"dilation", 2}, {"groups", 6}, {"bias", 0}});
  net.add(ops::kReshape, {{"height", 3}, {"width", 5}, {"channels", 12}});
  net.add(ops::kConvolution, {{"channels", 4}, {"kernel", 2}});
  net.add(ops::kFlatten);
  Checked checked(net.finish(4), 5);
  checked.run();
  const auto names = checked.check();
  for (const char* name : {"backward_input pad", "backward_input channel_shuffle",
                           "backward_input dropout", "backward_weights convolution"}) {
    EXPECT_TRUE(contains(names, name)) << name;
  }
}

TEST(GradientCheck, ProductsAndGates) {
  Network net(Shape{6, 6, 1});
  net.convolution(4, 3, 1, 1, 1);
  const int image = net.add(ops::kTanh);
  net.add(ops::kGlobalAveragePool);
  net.add(ops::kLinear, {{"channels", 4}});
  const int gate = net.add(ops::kHardSigmoid);
  const int gated = net.add(ops::kMultiply, {image, gate});
  net.add(ops::kMultiply, {gated, image});
  const int square = net.add(ops::kMultiply, {net.last(), net.last()});
  net.add(ops::kAdd, {square, image});
  net.convolution(5, 3, 2, 1, 1);
  net.add(ops::kFlatten);
  Checked checked(net.finish(3), 5);
  checked.run();
  EXPECT_TRUE(contains(checked.check(), "backward_input multiply"));
}

}  // namespace
}  // namespace mantissa::testing

// Every op's integer forward and backward pass against its definition in double, on a real program.
// After a step the operands of each instruction are read back, and the op is computed from them in
// double. Its gradients are compared with central differences of L = sum(grad_output * op(inputs)).
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "numerics/rounding.h"
#include "ops/attributes.h"
#include "ops/ops.h"
#include "tests/harness.h"
#include "tests/operators/definition_of.h"
#include "tests/operators/definitions.h"
#include "tests/operators/real_values.h"

namespace mantissa::testing {

// A small network on random pixels, or tokens. Its arena is not reused.
class Checked {
 public:
  Checked(const Graph& graph, int64_t batch, ops::LossKind loss = ops::LossKind::kCrossEntropy,
          int64_t smoothing = 0, const Format& format = {}, bool by_output = false)
      : graph_(in_format(with_loss(graph, loss, smoothing, by_output), format)),
        batch_(batch),
        by_output_(by_output),
        smoothing_(smoothing) {
    auto state = State::create(training_layout(graph_, format, OptimizerKind::kMomentum));
    state_.emplace(std::move(*state));
    initialise(graph_, format, 3, *state_);
    const kernels::KernelTable table = kernels::select_kernels(best_isa());
    auto program = compile(
        graph_, {.micro_batch_size = batch, .micro_batches = 1, .format = format}, {&table, 2});
    EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().message);
    program_ = std::move(*program);
    spread_out(program_);  // every buffer still holds its data after the step
    auto arena = AlignedMemory::create(program_.arena_bytes);
    arena_.emplace(std::move(*arena));
    executor_.emplace(graph_, program_, *state_, arena_->span(), pool_, best_isa());
    fill_input();
    const int64_t logits = graph_.values[graph_.nodes[graph_.losses[0]].inputs[0]].shape.count();
    // Labels are 0 and 1 if there is one logit, or a label for each output.
    const int64_t labels_of_row = by_output ? graph_.classes() : 1;
    const int64_t classes = by_output ? 2 : std::max<int64_t>(2, graph_.classes());
    for (int64_t i = 0; i < batch * logits / graph_.classes() * labels_of_row; ++i) {
      labels_.push_back(static_cast<int32_t>(i % classes));
    }
  }

  StepResult step(double learning_rate) {
    const StepScalars scalars{.learning_rate = learning_rate,
                              .momentum = 0.5,
                              .gradient_scale = 1 / static_cast<double>(batch_)};
    const void* const input = tokens_.empty() ? static_cast<const void*>(pixels_.data())
                                              : static_cast<const void*>(tokens_.data());
    const auto result =
        executor_->train_step(std::array{input, static_cast<const void*>(labels_.data())}, scalars);
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
    return result.ok() ? *result : StepResult{};
  }

  // Trains a little, so that scales, offsets and predictors differ from the start. Then keeps the
  // parameters of the checked step.
  void run() {
    for (int i = 0; i < 5; ++i) step(0.05);
    for (size_t i = 0; i < graph_.parameters.size(); ++i) parameters_.push_back(parameter(i));
    for (int node = 0; node < static_cast<int>(graph_.nodes.size()); ++node) {
      if (!may_leave_wide(*graph_.nodes[node].op)) continue;
      const int weights = graph_.nodes[node].parameters[0];
      const int tensor = state_->layout().parameters[weights].exponent;
      const auto* exponents = state_->data<int16_t>(tensor);
      weight_exponents_[node] =
          *std::max_element(exponents, exponents + state_->layout().tensors[tensor].shape.count());
    }
    loss_ = step(0).loss;
  }

  // Compares everything; returns the names of the checked ops, with "+relu" if one is fused.
  std::vector<std::string> check() {
    std::vector<std::string> names;
    for (int i = 0; i < static_cast<int>(program_.instructions.size()); ++i) {
      const Instruction& instruction = program_.instructions[i];
      const SegmentKind kind = kind_of(instruction);
      if (kind == SegmentKind::kUpdate || kind == SegmentKind::kStatistics) continue;
      SCOPED_TRACE(std::string(phase_name(instruction)) + " " + instruction.op->name + " " +
                   instruction.name);
      names.push_back(std::string(phase_name(instruction)) + " " + instruction.op->name +
                      (instruction.relu ? "+relu" : ""));
      if (instruction.op == &ops::kSoftmaxCrossEntropy) {
        if (kind == SegmentKind::kGradInput) check_cross_entropy(i);
      } else if (instruction.op == &ops::kMeanSquaredError) {
        if (kind == SegmentKind::kGradInput) check_squared_error(i);
      } else if (instruction.op == &ops::kSigmoidCrossEntropy) {
        if (kind == SegmentKind::kGradInput) check_sigmoids(i);
      } else if (instruction.op == &ops::kSumGradients) {
        check_sum(i);
      } else if (instruction.op == &ops::kRoundGradient) {
        check_rounding(i);
      } else if (is_forward(instruction)) {
        check_forward(i);
      } else if (instruction.op == &ops::kQuantise) {
        continue;  // its gradients are no slopes (quantise_test.cpp)
      } else if (kind == SegmentKind::kGradInput) {
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
  // Tokens number the rows of the table that they are looked up in.
  void fill_input() {
    const Value& input = graph_.values[graph_.inputs[0]];
    int64_t rows = 0;
    for (const Node& node : graph_.nodes) {
      if (node.op == &ops::kEmbedding) rows = node.attributes.as<ops::EmbeddingAttributes>().rows;
    }
    for (int64_t i = 0; i < batch_ * input.shape.count(); ++i) {
      const uint64_t bits = random_bits(5, RandomStream::kAugment, 0, i);
      if (input.element == Element::kIndex) {
        tokens_.push_back(static_cast<int32_t>(bits % static_cast<uint64_t>(rows)));
      } else {
        pixels_.push_back(static_cast<uint8_t>(bits));
      }
    }
  }

  Reals parameter(size_t index) {
    const ParameterState& tensors = state_->layout().parameters[index];
    const StateTensor& tensor = state_->layout().tensors[tensors.mantissa];
    Tensor view;
    view.data = state_->bytes(tensors.mantissa).data();
    view.type = tensor.type;
    view.shape = tensor.shape;
    if (tensors.exponent >= 0) {
      view.exponent = state_->data<int16_t>(tensors.exponent);
      view.blocks = state_->layout().tensors[tensors.exponent].shape.count();
    }
    return reals(view);
  }

  // The forward instruction of a node. All phases share its operands.
  const OpContext& forward_of(int node) const {
    for (int i = 0;; ++i) {
      const Instruction& candidate = program_.instructions[i];
      if (candidate.node == node && is_forward(candidate)) return executor_->context(i);
    }
  }

  std::vector<Reals> node_parameters(int node) const {
    std::vector<Reals> list;
    for (const int index : graph_.nodes[node].parameters) list.push_back(parameters_[index]);
    return list;
  }

  // How far a result may be from its definition before rounding, as a part of the largest number:
  // recurrent layers have gates of 16 bits, and h of 8 bits in the gradient of their weights; the
  // logarithms of softmax are whole numbers of 2^-16.
  static double slack(const Op* op) {
    return is_recurrent(op) ? 5e-3 : op == &ops::kSoftmax ? 2e-5 : 0;
  }

  Function function_of(int node) const {
    return testing::function_of(graph_, node, forward_of(node));
  }

  std::vector<Reals> inputs_of(int node) const {
    std::vector<Reals> list;
    for (const Tensor& input : forward_of(node).inputs) list.push_back(reals(input));
    return list;
  }

  // The inputs as backward_weights of a linear layer reads them: rows with exponents of their own
  // are aligned to the largest, in 16 bits.
  std::vector<Reals> aligned_inputs(int node) const {
    std::vector<Reals> inputs = inputs_of(node);
    const Tensor& input = forward_of(node).inputs[0];
    if (graph_.nodes[node].op != &ops::kLinear || input.row_exponents == nullptr) return inputs;
    int16_t* const end = input.row_exponents + input.count() / input.shape.last();
    const double unit =
        std::ldexp(1.0, *std::max_element(input.row_exponents, end) - (16 - input.bits));
    for (double& value : inputs[0]) value = std::nearbyint(value / unit) * unit;
    return inputs;
  }

  // The output's gradient. A fused ReLU passes it only if its output is positive.
  Reals grad_output(int i) const {
    const OpContext& c = executor_->context(i);
    Reals gradient = reals(c.grad_output());
    if (!c.mode.relu) return gradient;
    const OpContext& forward = forward_of(program_.instructions[i].node);
    for (size_t k = 0; k < gradient.size(); ++k) {
      if (element(forward.output(), static_cast<int64_t>(k)) <= 0) gradient[k] = 0;
    }
    return gradient;
  }

  // The gradient as backward_input reads it. If output channels of the weights have exponents of
  // their own, it is aligned to the largest one, rounded to nearest even.
  Reals aligned_grad_output(int i) const {
    const OpContext& c = executor_->context(i);
    Reals gradient = grad_output(i);
    const bool is_layer = may_leave_wide(*program_.instructions[i].op);
    if (!is_layer || c.parameters[0].mantissa.blocks == 1) return gradient;
    const Tensor& weights = c.parameters[0].mantissa;
    for (size_t k = 0; k < gradient.size(); ++k) {
      const int below = weights.largest_exponent() -
                        weights.block_exponent(static_cast<int64_t>(k) % weights.blocks);
      const double unit = std::ldexp(1.0, *c.grad_output().exponent + below);
      gradient[k] = std::nearbyint(gradient[k] / unit) * unit;
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
    const Reals found = reals(c.output());
    const double most = largest(expected);
    // Biases are rounded to the exponent of the sum. For wide values that is not much finer than
    // the result.
    const bool sums = c.parameters.size() == 2 && may_leave_wide(*graph_.nodes[node].op);
    const double bias_error =
        sums ? std::ldexp(0.5, *c.inputs[0].exponent + weight_exponents_.at(node)) : 0;
    ASSERT_EQ(expected.size(), found.size());
    for (size_t k = 0; k < found.size(); ++k) {
      if (c.mode.relu) expected[k] = std::max(0.0, expected[k]);
      const double unit = std::ldexp(1.0, exponent_of(c.output(), static_cast<int64_t>(k)));
      // Half a unit; a whole one if the largest value saturates. Wide sums are rounded again when
      // they are aligned, to twice the unit at least.
      const bool edge = std::abs(element(c.output(), static_cast<int64_t>(k))) ==
                        static_cast<double>(mantissa_limit(c.output().bits));
      const bool twice = c.output().type == DataType::kInt32 && c.parameters[0].mantissa.blocks > 1;
      const double units = edge ? 1.01 : twice ? 0.76 : 0.51;
      ASSERT_NEAR(found[k], expected[k],
                  units * unit + bias_error + (1e-6 + slack(graph_.nodes[node].op)) * most)
          << k;
    }
  }

  void compare_gradient(const Tensor& found, int64_t k, double expected, double most) {
    const double unit = std::ldexp(1.0, *found.exponent);
    const bool edge =
        std::abs(element(found, k)) == static_cast<double>(mantissa_limit(found.bits));
    ASSERT_NEAR(std::ldexp(element(found, k), *found.exponent), expected,
                (edge ? 1.01 : 0.51) * unit + 2e-6 * most)
        << k;
  }

  void check_backward_input(int i) {
    const OpContext& c = executor_->context(i);
    const int node = program_.instructions[i].node;
    const Op* op = graph_.nodes[node].op;
    const Function function = function_of(node);
    const Reals gradient = aligned_grad_output(i);
    std::vector<Reals> inputs = inputs_of(node);
    const std::vector<Reals> parameters = node_parameters(node);
    for (size_t n = 0; n < inputs.size(); ++n) {
      if (c.grad_inputs[n].empty()) continue;
      Reals& x = inputs[n];
      const double unit = std::ldexp(1.0, *forward_of(node).inputs[n].exponent);
      double h = unit / 64;
      // Units of wide values are so small that rounding in double would show.
      const double coarser = forward_of(node).inputs[n].bits > 8 ? 100 : 1;
      if (has_kinks(op)) {
        // At a kink the slope is the one on the side away from zero; at zero the one below.
        h = unit * 1e-7 * coarser;
        for (double& value : x) value += (value > 0 ? 1 : -1) * unit * 1e-5 * coarser;
      }
      const bool is_maximum =
          op == &ops::kMaxPool || op == &ops::kOverlappingMaxPool || op == &ops::kReduceMax;
      if (is_maximum || op == &ops::kRelu) {
        // Ties go to the first tap, and zero is not positive.
        h = unit * 1e-7 * coarser;
        const double step = unit * 1e-3 * coarser;
        for (size_t k = 0; k < x.size(); ++k) {
          x[k] -= op == &ops::kRelu ? step
                                    : step * static_cast<double>(k) / static_cast<double>(x.size());
        }
      }
      Reals expected(x.size());
      const Tensor& input = forward_of(node).inputs[n];
      for (size_t k = 0; k < x.size(); ++k) {
        // The step is a part of the unit, also if the channel has an exponent of its own.
        const int offset = exponent_of(input, static_cast<int64_t>(k)) - *input.exponent;
        expected[k] = slope([&] { return function(inputs, parameters); }, x[k],
                            std::ldexp(h, offset), gradient);
      }
      const double most =
          largest(expected) * (1 + slack(op) / 2e-6) + (h < unit / 100 ? largest(gradient) : 0);
      EXPECT_GT(largest(expected), 0) << "nothing is compared: no gradient comes back";
      for (size_t k = 0; k < x.size(); ++k) {
        compare_gradient(c.grad_inputs[n], static_cast<int64_t>(k), expected[k], most);
      }
    }
  }

  // The update has overwritten the sums: the instruction runs once more.
  void check_backward_weights(int i) {
    const OpContext& c = executor_->context(i);
    const int node = program_.instructions[i].node;
    const Function function = function_of(node);
    const Reals gradient = grad_output(i);
    const std::vector<Reals> inputs = aligned_inputs(node);
    std::vector<Reals> parameters = node_parameters(node);
    const Op* op = graph_.nodes[node].op;
    const double step = is_recurrent(op) ? 1e-4 : 0.25;  // others are linear in their parameters
    for (const ParameterView& p : c.parameters) {
      if (p.gradient.empty()) continue;
      std::memset(p.gradient.data, 0,
                  static_cast<size_t>(p.gradient.count() * element_bytes(p.gradient.type)));
    }
    program_.instructions[i].row->run(c);
    // The first parameters of a rescale get their gradients from the quantise node.
    for (size_t n = op == &ops::kRescale ? parameters.size() - 2 : 0; n < parameters.size(); ++n) {
      if (c.parameters[n].gradient.empty()) continue;
      const Reals found = reals(c.parameters[n].gradient);
      Reals expected(found.size());
      for (size_t k = 0; k < found.size(); ++k) {
        expected[k] =
            slope([&] { return function(inputs, parameters); }, parameters[n][k], step, gradient);
      }
      const double unit = std::ldexp(1.0, *c.parameters[n].gradient.exponent);
      for (size_t k = 0; k < found.size(); ++k) {
        ASSERT_NEAR(found[k], expected[k], 0.51 * unit + (1e-7 + 4 * slack(op)) * largest(expected))
            << n << " " << k;
      }
    }
  }

  void check_rounding(int i) {
    const OpContext& c = executor_->context(i);
    const Reals expected = reals(c.inputs[0]);
    for (size_t k = 0; k < expected.size(); ++k) {
      compare_gradient(c.grad_inputs[0], static_cast<int64_t>(k), expected[k], 0);
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

  void check_sigmoids(int i) {
    const OpContext& c = executor_->context(i);
    const Reals logits = reals(c.inputs[0]);
    const int64_t outputs = graph_.classes();
    double loss = 0;
    for (int64_t k = 0; k < std::ssize(logits); ++k) {
      const int32_t label = labels_[static_cast<size_t>(by_output_ ? k : k / outputs)];
      const bool is_bit = by_output_ || outputs == 1;
      const double target = is_bit ? label : label == k % outputs ? 1 : 0;
      const double p = 1 / (1 + std::exp(-logits[k]));
      loss -= std::log(target == 1 ? p : 1 - p) / static_cast<double>(batch_);
      compare_gradient(c.grad_inputs[0], k, p - target, 10);
    }
    EXPECT_NEAR(loss_, loss, 1e-4 * static_cast<double>(outputs));
  }

  void check_cross_entropy(int i) {
    const OpContext& c = executor_->context(i);
    const Reals logits = reals(c.inputs[0]);
    const int64_t classes = graph_.classes();
    double loss = 0;
    const int64_t rows = std::ssize(labels_);
    for (int64_t n = 0; n < rows; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < classes; ++k) sum += std::exp(logits[n * classes + k]);
      for (int64_t k = 0; k < classes; ++k) {
        const double p = std::exp(logits[n * classes + k]) / sum;
        const double epsilon = static_cast<double>(smoothing_) / 65536;
        const double target =
            (k == labels_[n] ? 1 - epsilon : 0) + epsilon / static_cast<double>(classes);
        if (target != 0) loss -= target * std::log(p) / static_cast<double>(rows);
        compare_gradient(c.grad_inputs[0], n * classes + k, p - target, 10);
      }
    }
    EXPECT_NEAR(loss_, loss, 1e-4);
  }

  Graph graph_;
  int64_t batch_;
  bool by_output_;  // a label of 0 or 1 for each output
  int64_t smoothing_;
  ThreadPool pool_{2};
  Program program_;
  std::optional<State> state_;
  std::optional<AlignedMemory> arena_;
  std::optional<Executor> executor_;
  std::vector<uint8_t> pixels_;
  std::vector<int32_t> tokens_, labels_;
  std::vector<Reals> parameters_;
  std::map<int, int> weight_exponents_;  // by node
  double loss_ = 0;
};

}  // namespace mantissa::testing

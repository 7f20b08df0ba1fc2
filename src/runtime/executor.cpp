#include "runtime/executor.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "numerics/exponent.h"

namespace mantissa {
namespace {

constexpr double kLn2 = 0.693147180559945309417;
constexpr int kCalibrationChannels = 1;

// The views of one instruction; contexts hold spans into it.
struct Resolved {
  std::vector<Tensor> inputs;
  std::vector<Tensor> grad_inputs;
  std::vector<ParameterView> parameters;
  OpContext context;
  bool rounds = false;
};

}  // namespace

struct Executor::Slots {
  std::vector<int16_t> exponents;           // per value
  std::vector<int16_t> gradient_exponents;  // per gradient slot
  std::vector<int16_t> measured;            // per gradient slot, this step
  std::vector<uint8_t> violated;            // per value, this step
  std::vector<std::vector<int8_t>> channel_exponents;  // per value
  std::vector<std::vector<int64_t>> histograms;        // per value
  std::vector<int64_t> saturated;                      // per instruction
  std::deque<Resolved> instructions;
  const uint8_t* pixels = nullptr;
  const uint8_t* labels = nullptr;
  StepScalars scalars;
  StepTotals totals;
  int64_t requantised = 0;
};

Executor::Executor(const Graph& graph, const Program& program, State& state,
                   std::span<std::byte> arena, ThreadPool& pool, Isa isa)
    : graph_(graph),
      program_(program),
      state_(state),
      arena_(arena),
      pool_(pool),
      kernels_(kernels::select_kernels(isa)),
      slots_(std::make_unique<Slots>()) {
  const size_t values = graph.values.size();
  Slots& s = *slots_;
  s.exponents.assign(values, static_cast<int16_t>(zero_exponent(8)));
  s.gradient_exponents.assign(static_cast<size_t>(program.gradient_slots), 0);
  s.measured.assign(static_cast<size_t>(program.gradient_slots), kUnmeasured);
  s.violated.assign(values, 0);
  s.channel_exponents.resize(values);
  s.histograms.resize(values);
  s.saturated.assign(program.instructions.size(), 0);
  for (size_t value = 0; value < values; ++value) {
    const auto channels = static_cast<size_t>(program.guarded_channels[value]);
    s.channel_exponents[value].assign(channels, 0);
    if (program.options.kind == ProgramKind::kInference) {
      s.histograms[value].assign(std::max<size_t>(kCalibrationChannels, channels) * kHistogramBins,
                                 0);
    }
  }
  const StateLayout& layout = state.layout();
  if (layout.exponents >= 0) {
    std::copy_n(state.data<int16_t>(layout.exponents), values, s.exponents.begin());
    for (size_t value = 0; value < values; ++value) {
      const int tensor = layout.channel_exponents[value];
      if (tensor < 0) continue;
      std::copy_n(state.data<int8_t>(tensor), s.channel_exponents[value].size(),
                  s.channel_exponents[value].begin());
    }
  }
  resolve();
}

Executor::~Executor() = default;

// Turns operands into views, once.
void Executor::resolve() {
  Slots& s = *slots_;
  const StateLayout& layout = state_.layout();
  const auto buffer = [&](int index) {
    return index < 0 ? nullptr : arena_.data() + program_.buffers[index].offset;
  };
  const auto view = [&](const Operand& operand, int instruction) {
    Tensor tensor;
    tensor.type = operand.type;
    tensor.shape = operand.shape;
    tensor.saturated = &s.saturated[instruction];
    if (operand.space == Operand::Space::kArena) tensor.data = buffer(operand.index);
    if (operand.slot < 0) return tensor;
    if (operand.gradient) {
      tensor.exponent = &s.gradient_exponents[operand.slot];
      tensor.predictor = {state_.data<int16_t>(layout.predictors) + operand.slot,
                          &s.measured[operand.slot]};
      return tensor;
    }
    tensor.exponent = &s.exponents[operand.slot];
    if (program_.guarded_channels[operand.slot] > 0) {
      tensor.channel_exponent = s.channel_exponents[operand.slot].data();
      tensor.guarded = state_.data<uint8_t>(layout.guards) + operand.slot;
      tensor.guard_violated = &s.violated[operand.slot];
    }
    return tensor;
  };
  const auto parameter_view = [&](const ParameterOperand& operand, int instruction) {
    const Parameter& parameter = graph_.parameters[operand.parameter];
    const ParameterState& tensors = layout.parameters[operand.parameter];
    const auto state_tensor = [&](int tensor, int exponent) {
      Tensor result;
      if (tensor < 0) return result;
      result.data = state_.bytes(tensor).data();
      result.type = layout.tensors[tensor].type;
      result.shape = parameter.shape;
      result.saturated = &s.saturated[instruction];
      if (exponent >= 0) result.exponent = state_.data<int16_t>(exponent);
      return result;
    };
    ParameterView result;
    result.mantissa = state_tensor(tensors.mantissa, tensors.exponent);
    result.accumulator = state_tensor(tensors.accumulator, -1);
    result.velocity = state_tensor(tensors.velocity, tensors.velocity_exponent);
    result.lazy_shift = layout.lazy_shift;
    result.decays = parameter.role == ParameterRole::kWeights;
    if (operand.gradient_buffer >= 0) {
      result.gradient.data = buffer(operand.gradient_buffer);
      result.gradient.type = DataType::kInt64;
      result.gradient.shape = parameter.shape;
      result.gradient.exponent = state_.data<int16_t>(tensors.gradient_exponent);
    }
    return result;
  };
  for (int i = 0; i < static_cast<int>(program_.instructions.size()); ++i) {
    const Instruction& instruction = program_.instructions[i];
    Resolved& r = s.instructions.emplace_back();
    for (const Operand& operand : instruction.inputs) r.inputs.push_back(view(operand, i));
    for (const Operand& operand : instruction.grad_inputs) {
      r.grad_inputs.push_back(view(operand, i));
    }
    for (const ParameterOperand& operand : instruction.parameters) {
      r.parameters.push_back(parameter_view(operand, i));
    }
    OpContext& c = r.context;
    static const Attributes kNone;
    c.attributes = instruction.node >= 0 ? &graph_.nodes[instruction.node].attributes : &kNone;
    c.relu = instruction.relu;
    c.inputs = r.inputs;
    c.output = view(instruction.output, i);
    c.grad_output = view(instruction.grad_output, i);
    c.grad_inputs = r.grad_inputs;
    c.parameters = r.parameters;
    c.saved = buffer(instruction.saved);
    c.statistics = buffer(instruction.statistics);
    c.workspace = buffer(instruction.workspace);
    if (instruction.output.slot >= 0) {
      c.histogram = s.histograms[instruction.output.slot].data();
    }
    c.micro_batches = program_.options.micro_batches;
    c.kernel.pool = &pool_;
    if (instruction.scratch >= 0) {
      c.kernel.scratch = {buffer(instruction.scratch),
                          static_cast<size_t>(program_.buffers[instruction.scratch].bytes)};
    }
    c.kernels = &kernels_;
    c.scalars = &s.scalars;
    c.totals = &s.totals;
    r.rounds = instruction.phase == Phase::kForward || instruction.phase == Phase::kBackwardInput;
  }
}

void Executor::run(int begin, int end, int micro_batch) {
  Slots& s = *slots_;
  for (int i = begin; i < end; ++i) {
    const Instruction& instruction = program_.instructions[i];
    Resolved& r = s.instructions[i];
    OpContext& c = r.context;
    c.micro_batch = micro_batch;
    for (size_t k = 0; k < r.inputs.size(); ++k) {
      const Operand& operand = instruction.inputs[k];
      if (operand.space == Operand::Space::kPixels) {
        r.inputs[k].data = const_cast<uint8_t*>(s.pixels) + micro_batch * r.inputs[k].count();
      } else if (operand.space == Operand::Space::kLabels) {
        r.inputs[k].data = const_cast<uint8_t*>(s.labels) + micro_batch * r.inputs[k].count();
      }
    }
    if (instruction.clears_gradients && micro_batch == 0) {
      for (const ParameterView& parameter : r.parameters) {
        if (parameter.gradient.empty()) continue;
        std::memset(parameter.gradient.data, 0,
                    static_cast<size_t>(parameter.gradient.count()) * sizeof(int64_t));
      }
    }
    switch (instruction.phase) {
      case Phase::kForward:
      case Phase::kUpdate:
        instruction.op->forward(c);
        break;
      case Phase::kBackwardInput:
        instruction.op->backward_input(c);
        break;
      case Phase::kBackwardWeights:
        instruction.op->backward_weights(c);
        break;
      case Phase::kUpdateStatistics:
        instruction.op->update_statistics(c);
        break;
    }
    if (!r.rounds) continue;
    if (!c.output.empty() && instruction.phase == Phase::kForward) {
      s.requantised += c.output.count();
    }
    for (const Tensor& gradient : r.grad_inputs) {
      if (!gradient.empty()) s.requantised += gradient.count();
    }
  }
}

// What was measured in this step predicts the next.
void Executor::commit() {
  Slots& s = *slots_;
  const StateLayout& layout = state_.layout();
  std::copy(s.measured.begin(), s.measured.end(), state_.data<int16_t>(layout.predictors));
  uint8_t* guards = state_.data<uint8_t>(layout.guards);
  for (size_t value = 0; value < s.violated.size(); ++value) guards[value] |= s.violated[value];
}

namespace {

StepResult result_of(const StepTotals& totals, int64_t examples) {
  StepResult result;
  result.examples = examples;
  result.correct = totals.correct;
  result.loss_q24 = totals.loss_q24;
  const auto n = static_cast<double>(examples);
  result.loss = static_cast<double>(totals.loss_q24) * 0x1p-24 * kLn2 / n;
  result.accuracy = static_cast<double>(totals.correct) / n;
  return result;
}

}  // namespace

Result<StepResult> Executor::train_step(const uint8_t* pixels, const uint8_t* labels,
                                        const StepScalars& scalars) {
  Slots& s = *slots_;
  s.pixels = pixels;
  s.labels = labels;
  s.scalars = scalars;
  s.totals = {};
  s.requantised = 0;
  std::fill(s.saturated.begin(), s.saturated.end(), 0);
  std::fill(s.measured.begin(), s.measured.end(), kUnmeasured);
  std::fill(s.violated.begin(), s.violated.end(), uint8_t{0});
  for (int m = 0; m < program_.options.micro_batches; ++m) {
    run(0, program_.first_step_instruction, m);
  }
  run(program_.first_step_instruction, static_cast<int>(program_.instructions.size()), 0);
  if (s.totals.exponent_overflow) {
    return failed("training diverged: an exponent left -128..127; try a smaller learning rate");
  }
  commit();
  StepResult result = result_of(
      s.totals, program_.options.micro_batches * program_.options.micro_batch_size);
  for (const int64_t count : s.saturated) result.saturated += count;
  result.requantised = s.requantised;
  result.re_executions = s.totals.re_executions;
  return result;
}

Result<StepResult> Executor::infer(const uint8_t* pixels, const uint8_t* labels,
                                   ExponentMode mode) {
  Slots& s = *slots_;
  s.pixels = pixels;
  s.labels = labels;
  s.totals = {};
  std::fill(s.saturated.begin(), s.saturated.end(), 0);
  for (Resolved& r : s.instructions) r.context.exponent_mode = mode;
  run(0, static_cast<int>(program_.instructions.size()), 0);
  if (s.totals.exponent_overflow) return failed("an exponent left -128..127");
  return result_of(s.totals, program_.options.micro_batch_size);
}

Tensor Executor::logits() const {
  Tensor tensor;
  tensor.type = DataType::kInt32;
  tensor.shape = program_.logits.shape;
  tensor.data = arena_.data() + program_.buffers[program_.logits.index].offset;
  tensor.exponent = &slots_->exponents[program_.logits.slot];
  return tensor;
}

std::span<const int64_t> Executor::histogram(int value) const { return slots_->histograms[value]; }

int16_t Executor::exponent(int value) const { return slots_->exponents[value]; }

std::span<const int8_t> Executor::channel_exponents(int value) const {
  return slots_->channel_exponents[value];
}

void Executor::set_exponents(int value, int16_t exponent,
                             std::span<const int8_t> channel_exponents) {
  slots_->exponents[value] = exponent;
  std::copy(channel_exponents.begin(), channel_exponents.end(),
            slots_->channel_exponents[value].begin());
}

std::span<const int64_t> Executor::saturated() const { return slots_->saturated; }

const OpContext& Executor::context(int instruction) const {
  return slots_->instructions[instruction].context;
}

}  // namespace mantissa

#include "train/pretraining.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "numerics/bit_statistics.h"
#include "run/plan/steps.h"
#include "runtime/decided_exponents.h"
#include "runtime/executor.h"

namespace mantissa {
namespace {

// The value or gradient that was observed.
const Operand& operand_of(const Program& program, const TensorObservation& seen) {
  const Instruction& instruction = program.instructions[seen.instruction];
  return seen.kind == ObservedKind::kValue ? instruction.outputs()[seen.operand]
                                           : instruction.grad_inputs()[seen.operand];
}

// Calls found(operand, observation) for each value and gradient that the program writes.
template <typename Found>
void for_written(const Program& program, const Observations& observations, Found&& found) {
  for (const TensorObservation& seen : observations.tensors()) {
    if (seen.kind != ObservedKind::kValue && seen.kind != ObservedKind::kGradient) continue;
    found(operand_of(program, seen), seen);
  }
}

// The same for the operands of both programs that stand for one tensor.
using ExponentKey = std::pair<ExponentOwner, int>;
ExponentKey key_of(const Exponent& exponent) { return {exponent.owner, exponent.key}; }

bool is_finite(const Graph& graph, const State& floats) {
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    if (!graph.parameters[i].trained) continue;
    const auto* numbers = floats.data<float>(floats.layout().parameters[i].mantissa);
    if (!std::all_of(numbers, numbers + graph.parameters[i].shape.count(),
                     [](float number) { return std::isfinite(number); })) {
      return false;
    }
  }
  return true;
}

// From the observations of the last step in fp32.
void take_exponents(const RunPlan& plan, const Format& format, const Observations& floats,
                    State& state) {
  std::map<ExponentKey, BitLengths> lengths;
  for_written(plan.pretraining, floats, [&](const Operand& operand, const auto& seen) {
    lengths[key_of(plan.pretraining.exponents[operand.exponent])] = seen.bits;
  });
  auto* decided = state.data<int16_t>(state.layout().predictors);
  for_written(plan.training, Observations(plan.training), [&](const Operand& operand, const auto&) {
    const Exponent& exponent = plan.training.exponents[operand.exponent];
    const auto found = lengths.find(key_of(exponent));
    if (found == lengths.end() || exponent.predictor < 0) return;
    decided[exponent.predictor] = static_cast<int16_t>(
        exponent_of_lengths(found->second.by_length, kFloatExponent,
                            clipped_ppm(exponent, plan.graph, format), exponent.bits));
  });
}

// From the velocities that the steps in fp32 ended with; the run's own start at zero.
void take_velocity_exponents(const RunPlan& plan, const Format& format, State& floats,
                             ThreadPool& pool, State& state) {
  if (!optimizer(plan.training.options.optimizer).has_velocity) return;
  auto* decided = state.data<int16_t>(state.layout().predictors);
  for (size_t i = 0; i < plan.graph.parameters.size(); ++i) {
    const Parameter& parameter = plan.graph.parameters[i];
    if (!parameter.trained) continue;
    const int velocity = floats.layout().parameters[i].moments[0].mantissa;
    Tensor numbers;
    numbers.data = floats.bytes(velocity).data();
    numbers.type = DataType::kFloat;
    numbers.shape = parameter.shape;
    const int64_t predictor = state.layout().slots.velocity_predictor(static_cast<int>(i));
    decided[predictor] = static_cast<int16_t>(
        exponent_of_lengths(count_lengths(numbers, pool).by_length, kFloatExponent,
                            format.clipped_ppm, format.update_bits));
  }
}

}  // namespace

Status pretrain(const RunConfig& config, const RunPlan& plan, BatchSource& batches,
                const Machine& machine, const std::function<bool(int64_t done)>& report,
                State& state, const TrainedFile* trained) {
  const int64_t steps = config.format.float_steps();
  MANTISSA_ASSIGN(State floats, State::create(plan.pretraining_layout));
  std::vector<bool> taken;
  if (trained != nullptr) taken = taken_parameters(plan.graph, trained->parameters);
  initialise(plan.graph, plan.pretraining.options.format, config.seed, floats, taken);
  if (trained != nullptr) {
    MANTISSA_RETURN_IF_ERROR(
        take_trained(plan.graph, plan.pretraining.options.format, *trained, floats));
  }
  Programs programs(plan.graph, floats, machine);
  programs.add(plan.pretraining);
  Observations observations(plan.pretraining);
  const auto scalars = [&](int64_t step) {
    // A run may be shorter than its pre-training.
    StepScalars of_step =
        scalars_at(config, plan.total_steps, 0, std::min(step, plan.total_steps - 1));
    of_step.step = step;
    return of_step;
  };
  const auto before = [&](int64_t step) -> Status {
    if (step + 1 == steps) programs.observe(&observations);
    return {};
  };
  const auto after = [&](const TakenStep& taken) -> Result<bool> {
    if (report(taken.step + 1)) return true;
    return make_error(ErrorCode::kInterrupted,
                      "interrupted in the pre-training: nothing was saved yet");
  };
  MANTISSA_RETURN_IF_ERROR(take_steps({programs, batches, scalars, before, after}, 0, steps));
  if (!is_finite(plan.graph, floats)) {
    return failed("the pre-training in fp32 diverged; choose a smaller learning rate");
  }
  take_parameters(plan.graph, config.format, floats, state);
  take_exponents(plan, config.format, observations, state);
  take_velocity_exponents(plan, config.format, floats, machine.pool, state);
  return {};
}

}  // namespace mantissa

#include "train/session.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "data/batches/ordered_batches.h"
#include "infer/freeze.h"
#include "kernels/kernel_table.h"
#include "models/json/network_json.h"
#include "networks/network.h"
#include "ops/losses/example_losses.h"
#include "plan/passes/network_format.h"
#include "plan/passes/sliced_loss.h"
#include "plan/retention/compile_training.h"
#include "run/checkpoint.h"
#include "run/plan/run_plan.h"

namespace mantissa {
namespace {

// Gradients are means over labels, by one factor for all losses.
Status check_losses(const Graph& network) {
  for (int i = 1; i < static_cast<int>(network.losses.size()); ++i) {
    const int64_t first = labels_per_example(network, 0), other = labels_per_example(network, i);
    if (first == other) continue;
    return invalid_input("losses with " + std::to_string(first) + " and " + std::to_string(other) +
                         " labels for an example do not go together in one network");
  }
  return {};
}

Status check_settings(const RunConfig& config) {
  if (config.format.float_steps() > 0) {
    return invalid_input(
        "format: pretraining=float begins in fp32, which only a run of `train` does; leave it out");
  }
  if (config.pack) {
    return invalid_input("pack: only a run of `train` reads conversations; leave it out");
  }
  if (config.pipeline.stages > 1) {
    return invalid_input("stages: only a run of `train` has several; leave it out");
  }
  if (config.schedule == ScheduleKind::kPlateau) {
    return invalid_input(
        "lr-schedule: plateau follows the losses of a run of `train`; choose another, or take "
        "steps "
        "with learning rates of your own");
  }
  return {};
}

}  // namespace

int64_t labels_per_example(const Graph& graph, int loss) {
  return ops::rows_of_example(graph, graph.nodes[graph.losses[loss]]);
}

Session::Session(Graph network, const RunConfig& config)
    : config_(config),
      network_(std::move(network)),
      graph_(in_format(network_, config.format)),
      pool_(config.threads) {
  config_.buckets = 1;  // batches are as long as the network's inputs
}

Status Session::compile() {
  const kernels::KernelTable table = kernels::select_kernels(config_.isa);
  const PlanningContext planning{&table, config_.threads};
  MANTISSA_ASSIGN(
      calibration_,
      mantissa::compile(graph_, without_sliced_logits(graph_, calibration_options(config_)),
                        planning));
  const StateLayout layout = training_layout(graph_, config_.format, config_.optimizer);
  RecomputeOptions recompute{.mode = config_.recompute,
                             .planner = config_.planner,
                             .least_arena_bytes = freeze_bytes(calibration_),
                             .profile = config_.profile};
  if (config_.memory_budget > 0) {
    recompute.limit_bytes = std::max<int64_t>(1, config_.memory_budget - layout.bytes);
  }
  MANTISSA_ASSIGN(TrainingProgram found,
                  compile_training(graph_, with_slices(graph_, training_options(config_)), planning,
                                   recompute));
  training_ = std::move(found.program);
  const int64_t arena_bytes = std::max(training_.arena_bytes, freeze_bytes(calibration_));
  memory_.items = {{"weights, accumulators, optimiser", layout.weight_state_bytes()},
                   {"other state", layout.bytes - layout.weight_state_bytes()},
                   {"arena", arena_bytes}};
  memory_.advice = "a smaller micro-batch-size shrinks the arena, but changes the results";
  MANTISSA_RETURN_IF_ERROR(check_budget(memory_, config_.memory_budget));
  MANTISSA_ASSIGN(state_, State::create(layout));
  MANTISSA_ASSIGN(arena_, AlignedMemory::create(arena_bytes));
  initialise(graph_, config_.format, config_.seed, *state_);
  programs_.emplace(graph_, *state_, Machine{pool_, arena_->span(), config_.isa});
  programs_->add(training_);
  return {};
}

Result<std::unique_ptr<Session>> Session::create(Graph network, const RunConfig& config) {
  MANTISSA_RETURN_IF_ERROR(check_settings(config));
  MANTISSA_RETURN_IF_ERROR(check_losses(network));
  std::unique_ptr<Session> session(new Session(std::move(network), config));
  MANTISSA_RETURN_IF_ERROR(session->compile());
  return session;
}

StepScalars Session::scalars(double learning_rate, int64_t step) const {
  StepScalars scalars = step_scalars(config_);
  scalars.learning_rate = learning_rate;
  scalars.step = step;
  if (!network_.losses.empty()) {
    scalars.gradient_scale =
        1 / static_cast<double>(config_.batch_size * labels_per_example(network_, 0));
  }
  return scalars;
}

Result<StepResult> Session::step(const Batch& batch, double learning_rate) {
  if (batch.count != config_.batch_size) {
    return invalid_input("a step wants batch-size " + std::to_string(config_.batch_size) +
                         " examples, and the batch has " + std::to_string(batch.count));
  }
  pool_.revive();
  MANTISSA_ASSIGN(const StepResult result,
                  programs_->train_step(batch, scalars(learning_rate, steps_)));
  ++steps_;
  return result;
}

Status Session::train(BatchSource& batches, const Schedule& schedule, int64_t begin, int64_t end,
                      const std::function<bool(const TakenStep&)>& after) {
  const int64_t done = steps_ - begin;  // in calls before this one, which count for the bits
  return take_steps(
      {*programs_, batches,
       [&](int64_t step) { return scalars(learning_rate(schedule, step), done + step); },
       [&](int64_t) {
         pool_.revive();
         return Status();
       },
       [&](const TakenStep& taken) -> Result<bool> {
         ++steps_;
         return after(taken);
       }},
      begin, end);
}

Result<StepResult> Session::observed_step(const Batch& batch, double learning_rate) {
  if (!observations_) observations_.emplace(training_);
  programs_->observe(&*observations_);
  auto result = step(batch, learning_rate);
  programs_->observe(nullptr);
  return result;
}

Result<FrozenNetwork> Session::freeze(const Examples& examples) {
  pool_.revive();
  const int64_t micro_batch = config_.micro_batch_size;
  if (examples.count < micro_batch) {
    return invalid_input("freezing wants at least " + std::to_string(micro_batch) +
                         " examples, and there are " + std::to_string(examples.count));
  }
  const int64_t count = calibration_count(config_, examples.count);
  MANTISSA_ASSIGN(
      OrderedBatches batches,
      OrderedBatches::create(examples, micro_batch,
                             calibration_examples(examples.count, config_.seed, count)));
  const FrozenForm form = frozen_form(graph_, config_.format);
  MANTISSA_RETURN_IF_ERROR(check_form(graph_, form));
  Graph frozen_graph = freeze_graph(graph_, form);
  MANTISSA_ASSIGN(State frozen_state, State::create(frozen_layout(frozen_graph, config_.format)));
  FrozenNetwork frozen{{}, std::move(frozen_graph), std::move(frozen_state)};
  frozen.description.network = network_;
  frozen.description.format = config_.format;
  frozen.description.form = form;
  frozen.description.weights_sha256 = state_->sha256(StateGroup::kStatistics);
  const auto options = example_options(network_);
  if (options.ok()) {
    frozen.description.options = *options;
    const bool is_regression = ops::is_for_numbers(options->loss);
    for (int64_t label = 0; label < (is_regression ? 0 : options->classes); ++label) {
      frozen.description.class_names.push_back(std::to_string(label));
    }
  }
  MANTISSA_RETURN_IF_ERROR(mantissa::freeze(graph_, *state_, calibration_,
                                            {pool_, arena_->span(), config_.isa}, batches, frozen));
  return frozen;
}

std::string Session::identity() const {
  return sha256_hex(network_sha256(network_) + run_identity(config_, ""));
}

Status Session::save(const std::string& path) const {
  CheckpointInfo info;
  info.step = steps_;
  info.run_identity = identity();
  return write_checkpoint(path, info, *state_);
}

Status Session::load(const std::string& path) {
  MANTISSA_ASSIGN(const CheckpointInfo info, load_checkpoint(path, identity(), *state_));
  steps_ = info.step;
  return {};
}

Status run_frozen(
    FrozenNetwork& network, const Examples& examples, int64_t batch_size, bool with_loss,
    ThreadPool& pool, Isa isa,
    const std::function<Status(const Batch&, const StepResult&, const Programs&)>& found) {
  if (examples.count == 0) return {};
  const kernels::KernelTable table = kernels::select_kernels(isa);
  const PlanningContext planning{&table, static_cast<int>(pool.size())};
  const int64_t size = std::min(batch_size, examples.count), rest = examples.count % size;
  std::vector<Program> programs;
  for (const int64_t count : {size, rest}) {
    if (count == 0) continue;
    MANTISSA_ASSIGN(Program program, compile_inference(network.graph, network.description.format,
                                                       count, with_loss, planning));
    programs.push_back(std::move(program));
  }
  int64_t arena_bytes = 0;
  for (const Program& program : programs) arena_bytes = std::max(arena_bytes, program.arena_bytes);
  MANTISSA_ASSIGN(const AlignedMemory arena, AlignedMemory::create(arena_bytes));
  Programs executors(network.graph, network.state, {pool, arena.span(), isa});
  for (const Program& program : programs) executors.add(program);
  MANTISSA_ASSIGN(OrderedBatches batches, OrderedBatches::create(examples, size));
  return infer_all(executors, batches, [&](const Batch& batch, const StepResult& result) {
    return found(batch, result, executors);
  });
}

}  // namespace mantissa

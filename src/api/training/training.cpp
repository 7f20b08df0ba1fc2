#include "mantissa/training.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "api/public_values.h"
#include "api/settings/settings.h"
#include "api/training/array_set.h"
#include "api/training/labels.h"
#include "api/training/loss_sums.h"
#include "api/training/model_data.h"
#include "api/training/trained_file.h"
#include "base/real_text.h"
#include "data/batches/shuffled_batches.h"
#include "run/learning_rate.h"
#include "run/logs/tensor_log.h"
#include "run/plan/run_plan.h"
#include "train/session.h"

namespace mantissa {
namespace {

Status check_learning_rate(double rate) {
  if (is_learning_rate(rate)) return {};
  return invalid_input("learning_rate: " + real_text(rate) +
                       " is neither 0 nor a number from 1.2e-38 to 1000");
}

int index_of(const Graph& graph, const std::string& name) {
  const auto found = std::find_if(graph.parameters.begin(), graph.parameters.end(),
                                  [&](const Parameter& p) { return p.name == name; });
  return found == graph.parameters.end() ? -1 : static_cast<int>(found - graph.parameters.begin());
}

Failure no_parameter(const Graph& graph, const std::string& name) {
  std::string names;
  for (const Parameter& p : graph.parameters) names += (names.empty() ? "" : ", ") + p.name;
  return {Exit::kInvalidInput, "there is no parameter '" + name + "'; there are " + names};
}

// Steps of a fit, counted from its own beginning.
struct FitPlan {
  int64_t begin = 0, end = 0;
  int64_t per_epoch = 1;
  Schedule schedule;
};

Result<FitPlan> fit_plan(const Session& session, int64_t examples, const FitOptions& options) {
  const RunConfig& config = session.config();
  if (examples < config.batch_size) {
    return invalid_input("batch-size " + std::to_string(config.batch_size) + " is more than the " +
                         std::to_string(examples) + " examples");
  }
  if (options.epochs < 1) return invalid_input("epochs must be 1 or more");
  if (options.steps < 0) return invalid_input("steps must be 0 or more");
  FitPlan plan{.begin = options.goes_on ? session.steps() : 0,
               .end = 0,
               .per_epoch = examples / config.batch_size,
               .schedule = {}};
  plan.end = options.steps > 0 ? options.steps : options.epochs * plan.per_epoch;
  if (plan.begin > plan.end) {
    return invalid_input("the trainer has done " + std::to_string(plan.begin) + " steps, and " +
                         std::to_string(plan.end) + " are wanted in all");
  }
  plan.schedule = run_schedule(config, plan.end, 0);
  return plan;
}

Result<std::vector<EpochReport>> fit(Session& session, const Examples& examples,
                                     const FitPlan& plan, const FitOptions& options) {
  std::vector<EpochReport> history;
  if (plan.begin == plan.end) return history;
  MANTISSA_ASSIGN(
      const auto batches,
      ShuffledBatches::create(
          examples, {.batch_size = session.config().batch_size,
                     .seed = session.config().seed,
                     .first_epoch = static_cast<uint32_t>(session.steps() / plan.per_epoch),
                     .first_step = session.steps() % plan.per_epoch,
                     .total_steps = plan.end - plan.begin}));
  const int64_t epochs = (plan.end + plan.per_epoch - 1) / plan.per_epoch;
  Sums sums{.graph = &session.network()};
  const auto after = [&](const TakenStep& taken) {
    sums.add(taken.result);
    const int64_t steps = taken.step + 1, epoch = taken.step / plan.per_epoch + 1;
    const bool goes_on =
        !options.step_observer || options.step_observer({.step = steps,
                                                         .steps = plan.end,
                                                         .epoch = epoch,
                                                         .epochs = epochs,
                                                         .training = sums.report(),
                                                         .learning_rate = taken.learning_rate});
    if (steps % plan.per_epoch != 0 && steps != plan.end) return goes_on;
    history.push_back({epoch, epochs, sums.report(), taken.learning_rate});
    sums = Sums{.graph = &session.network()};
    return (!options.observer || options.observer(history.back())) && goes_on;
  };
  MANTISSA_RETURN_IF_ERROR(session.train(*batches, plan.schedule, plan.begin, plan.end, after));
  return history;
}

}  // namespace

struct Trainer::Data {
  std::unique_ptr<Session> session;
  BoundArrays arrays;  // of the last step
};

Trainer::Trainer(std::unique_ptr<Data> data) : data_(std::move(data)) {}
Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

Outcome<Trainer> Trainer::create(const Network& network, const Settings& settings) {
  for (const auto& [name, text] : settings) {
    const Setting* const setting = training_setting(name);
    if (setting == nullptr || setting->has(traits::kInTrainer)) continue;
    return invalid_input("setting '" + name +
                         "' is not one of a Trainer: the network, the "
                         "data and their number are given otherwise");
  }
  MANTISSA_ASSIGN(auto config, training_config(settings));
  MANTISSA_ASSIGN(auto session, Session::create(network.data().graph, config));
  auto data = std::make_unique<Data>();
  data->session = std::move(session);
  return Trainer(std::move(data));
}

Outcome<StepReport> Trainer::step(const ArraySet& batch, double learning_rate) {
  Session& session = *data_->session;
  MANTISSA_RETURN_IF_ERROR(check_learning_rate(learning_rate));
  MANTISSA_RETURN_IF_ERROR(data_->arrays.bind(session.network(), batch, true));
  MANTISSA_ASSIGN(const auto result, session.step(data_->arrays.batch(), learning_rate));
  Sums sums{.graph = &session.network()};
  sums.add(result);
  return sums.report();
}

Outcome<std::vector<TensorStatistics>> Trainer::observed_step(const ArraySet& batch,
                                                              double learning_rate) {
  Session& session = *data_->session;
  MANTISSA_RETURN_IF_ERROR(check_learning_rate(learning_rate));
  MANTISSA_RETURN_IF_ERROR(data_->arrays.bind(session.network(), batch, true));
  MANTISSA_RETURN_IF_ERROR(session.observed_step(data_->arrays.batch(), learning_rate));
  std::vector<TensorStatistics> statistics;
  for (const TensorObservation& seen : session.observed()) {
    ObservedTensor tensor = observed_tensor(session.graph(), session.program(), seen);
    const auto begin = seen.bits.by_length.begin();
    statistics.push_back({.name = std::move(tensor.name),
                          .kind = tensor.kind,
                          .written_by = std::move(tensor.written_by),
                          .bits = tensor.bits,
                          .exponent = seen.exponent,
                          .clipped = seen.saturated,
                          .mean_bits = mean_bits(seen.bits),
                          .lengths = {begin, begin + seen.bits.largest() + 1}});
  }
  return statistics;
}

Outcome<std::vector<EpochReport>> Trainer::fit(const ArraySet& examples,
                                               const FitOptions& options) {
  Session& session = *data_->session;
  BoundArrays arrays;
  MANTISSA_RETURN_IF_ERROR(arrays.bind(session.network(), examples, true));
  MANTISSA_RETURN_IF_ERROR(check_classes(session.network(), arrays));
  MANTISSA_ASSIGN(auto plan, fit_plan(session, arrays.count, options));
  MANTISSA_ASSIGN(auto history, mantissa::fit(session, arrays.examples(), plan, options));
  return history;
}

int64_t Trainer::steps_done() const { return data_->session->steps(); }

int64_t Trainer::batch_size() const { return data_->session->config().batch_size; }

Outcome<Model> Trainer::freeze(const ArraySet& examples) const {
  Session& session = *data_->session;
  BoundArrays arrays;
  MANTISSA_RETURN_IF_ERROR(arrays.bind(session.network(), examples, false));
  MANTISSA_ASSIGN(auto frozen, session.freeze(arrays.examples()));
  return Model(std::make_shared<Model::Data>(
      Model::Data{std::move(frozen), session.config().threads, session.config().isa}));
}

Outcome<ParameterNumbers> Trainer::parameter(const std::string& name) const {
  const Session& session = *data_->session;
  const int index = index_of(session.graph(), name);
  if (index < 0) return no_parameter(session.graph(), name);
  const StateLayout& layout = session.state().layout();
  const ParameterState& tensors = layout.parameters[index];
  ParameterNumbers result{.dims = dims_of(session.graph().parameters[index].shape),
                          .numbers = parameter_numbers(session.state(), index),
                          .mantissas = {},
                          .exponents = {}};
  const bool in_blocks = layout.tensors[tensors.mantissa].type == DataType::kUint8;
  if (tensors.exponent < 0 || in_blocks) return result;
  const int64_t count = session.graph().parameters[index].shape.count();
  const auto copy = [&](const auto* from) { result.mantissas.assign(from, from + count); };
  layout.tensors[tensors.mantissa].type == DataType::kInt8
      ? copy(session.state().data<int8_t>(tensors.mantissa))
      : copy(session.state().data<int16_t>(tensors.mantissa));
  const auto* exponents = session.state().data<int16_t>(tensors.exponent);
  result.exponents.assign(exponents, exponents + layout.tensors[tensors.exponent].shape.count());
  return result;
}

Outcome<Done> Trainer::set_parameter(const std::string& name, const std::vector<double>& numbers) {
  Session& session = *data_->session;
  const int index = index_of(session.graph(), name);
  if (index < 0) return no_parameter(session.graph(), name);
  const int64_t count = session.graph().parameters[index].shape.count();
  if (std::ssize(numbers) != count) {
    return invalid_input("'" + name + "' has " + std::to_string(count) + " numbers, and " +
                         std::to_string(numbers.size()) + " are given");
  }
  if (!std::all_of(numbers.begin(), numbers.end(), [](double n) { return std::isfinite(n); })) {
    return invalid_input("'" + name + "': a number is not finite");
  }
  mantissa::set_parameter(session.graph(), index, numbers, session.state());
  return Done{};
}

Outcome<TakenNames> Trainer::take(const TrainedParameters& trained) {
  Session& session = *data_->session;
  const TrainedFile& file = trained.data().file;
  MANTISSA_ASSIGN(const StartingPoint start, starting_point(file));
  MANTISSA_RETURN_IF_ERROR(match_start(session.graph(), start));
  MANTISSA_ASSIGN(auto taken,
                  take_trained(session.graph(), session.config().format, file, session.state()));
  return TakenNames{std::move(taken.taken), std::move(taken.initial), std::move(taken.left_over)};
}

Outcome<Done> Trainer::save(const std::string& path) const {
  return outcome_of(data_->session->save(path));
}

Outcome<Done> Trainer::load(const std::string& path) {
  return outcome_of(data_->session->load(path));
}

std::string Trainer::weights_sha256() const {
  return data_->session->state().sha256(StateGroup::kStatistics);
}

std::string Trainer::plan() const { return to_string(data_->session->memory()); }

}  // namespace mantissa

#include "mantissa/training.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "api/array_set.h"
#include "api/public_values.h"
#include "api/settings.h"
#include "api/trained_file.h"
#include "base/thread_pool.h"
#include "data/shuffled_batches.h"
#include "train/run_plan.h"
#include "train/schedule.h"
#include "train/session.h"
#include "train/tensor_log.h"

namespace mantissa {
namespace {

constexpr int64_t kExamplesAtOnce = 128;

// Losses and classes over some examples, from the sums of steps.
struct Sums {
  const Graph* graph;
  int64_t examples = 0, clipped = 0;
  std::array<LossTotals, kMostLosses> losses = {};

  void add(const StepResult& result) {
    examples += result.examples;
    clipped += result.saturated;
    for (size_t i = 0; i < losses.size(); ++i) losses[i] += result.losses[i];
  }

  StepReport report() const {
    StepReport report{.examples = examples, .clipped = clipped};
    report.loss_count = static_cast<int>(graph->losses.size());
    for (size_t i = 0; i < graph->losses.size(); ++i) {
      const Node& node = graph->nodes[graph->losses[i]];
      LossReport& loss = report.losses[i];
      const double weight = static_cast<double>(std::max<int64_t>(1, losses[i].weight_q10));
      loss.mean = static_cast<double>(losses[i].loss_q24) * node.op->loss_unit / weight * 0x1p10;
      report.loss += loss.mean;
      const bool is_class =
          node.inputs.size() > 1 && graph->values[node.inputs[1]].element == Element::kIndex;
      if (is_class) {
        loss.accuracy = static_cast<double>(losses[i].correct) /
                        static_cast<double>(std::max<int64_t>(1, losses[i].counted));
      }
    }
    return report;
  }
};

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

Outcome<Done> done(const Status& status) {
  if (!status.ok()) return failure_of(status.error());
  return Done{};
}

// A number of an output.
double number_of(const Tensor& tensor, int64_t i) {
  if (tensor.type == DataType::kFloat) return tensor.as<float>()[i];
  const int64_t mantissa = tensor.type == DataType::kInt32   ? tensor.as<int32_t>()[i]
                           : tensor.type == DataType::kInt16 ? tensor.as<int16_t>()[i]
                                                             : tensor.as<int8_t>()[i];
  return std::ldexp(static_cast<double>(mantissa), *tensor.exponent);
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
  for (int64_t step = plan.begin; step < plan.end;) {
    const double rate = learning_rate(plan.schedule, step);
    MANTISSA_ASSIGN(const StepResult result, session.step(batches->next(), rate));
    sums.add(result);
    const int64_t epoch = step++ / plan.per_epoch + 1;
    const bool goes_on = !options.step_observer || options.step_observer({.step = step,
                                                                          .steps = plan.end,
                                                                          .epoch = epoch,
                                                                          .epochs = epochs,
                                                                          .training = sums.report(),
                                                                          .learning_rate = rate});
    if (step % plan.per_epoch == 0 || step == plan.end) {
      history.push_back({epoch, epochs, sums.report(), rate});
      sums = Sums{.graph = &session.network()};
      if (options.observer && !options.observer(history.back())) break;
    }
    if (!goes_on) break;
  }
  return history;
}

}  // namespace

struct Model::Data {
  FrozenNetwork network;
  int threads = 1;
  Isa isa = best_isa();
};

struct Trainer::Data {
  std::unique_ptr<Session> session;
  BoundArrays arrays;  // of the last step
};

Trainer::Trainer(std::unique_ptr<Data> data) : data_(std::move(data)) {}
Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

Outcome<Trainer> Trainer::create(const Network& network, const Settings& settings) {
  for (const char* name : {"model",
                           "data",
                           "out",
                           "resume",
                           "overwrite",
                           "tensorboard",
                           "width",
                           "loss",
                           "label-smoothing",
                           "classes",
                           "positive",
                           "input-size",
                           "augment",
                           "validation",
                           "early-stop",
                           "epochs",
                           "steps",
                           "from",
                           "freeze",
                           "checkpoint-every",
                           "hash-every",
                           "statistics",
                           "output",
                           "classifier",
                           "insert-batch-norm",
                           "hidden",
                           "target",
                           "ignore",
                           "task"}) {
    if (settings.count(name) == 0) continue;
    return Failure{Exit::kInvalidInput, std::string("setting '") + name +
                                            "' is not one of a Trainer: the network, the "
                                            "data and their number are given otherwise"};
  }
  auto config = training_config(settings);
  if (!config.ok()) return failure_of(config.error());
  auto session = Session::create(network.data().graph, *config);
  if (!session.ok()) return failure_of(session.error());
  auto data = std::make_unique<Data>();
  data->session = std::move(*session);
  return Trainer(std::move(data));
}

Outcome<StepReport> Trainer::step(const ArraySet& batch, double learning_rate) {
  Session& session = *data_->session;
  const Status bound = data_->arrays.bind(session.network(), batch, true);
  if (!bound.ok()) return failure_of(bound.error());
  const auto result = session.step(data_->arrays.batch(), learning_rate);
  if (!result.ok()) return failure_of(result.error());
  Sums sums{.graph = &session.network()};
  sums.add(*result);
  return sums.report();
}

Outcome<std::vector<TensorStatistics>> Trainer::observed_step(const ArraySet& batch,
                                                              double learning_rate) {
  Session& session = *data_->session;
  const Status bound = data_->arrays.bind(session.network(), batch, true);
  if (!bound.ok()) return failure_of(bound.error());
  const auto result = session.observed_step(data_->arrays.batch(), learning_rate);
  if (!result.ok()) return failure_of(result.error());
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
  const Status bound = arrays.bind(session.network(), examples, true);
  if (!bound.ok()) return failure_of(bound.error());
  auto plan = fit_plan(session, arrays.count, options);
  if (!plan.ok()) return failure_of(plan.error());
  auto history = mantissa::fit(session, arrays.examples(), *plan, options);
  if (!history.ok()) return failure_of(history.error());
  return std::move(*history);
}

int64_t Trainer::steps_done() const { return data_->session->steps(); }

Outcome<Model> Trainer::freeze(const ArraySet& examples) const {
  Session& session = *data_->session;
  BoundArrays arrays;
  const Status bound = arrays.bind(session.network(), examples, false);
  if (!bound.ok()) return failure_of(bound.error());
  auto frozen = session.freeze(arrays.examples());
  if (!frozen.ok()) return failure_of(frozen.error());
  return Model(std::make_shared<Model::Data>(
      Model::Data{std::move(*frozen), session.config().threads, session.config().isa}));
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
  if (tensors.exponent < 0) return result;
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
    return Failure{Exit::kInvalidInput, "'" + name + "' has " + std::to_string(count) +
                                            " numbers, and " + std::to_string(numbers.size()) +
                                            " are given"};
  }
  if (!std::all_of(numbers.begin(), numbers.end(), [](double n) { return std::isfinite(n); })) {
    return Failure{Exit::kInvalidInput, "'" + name + "': a number is not finite"};
  }
  mantissa::set_parameter(session.graph(), index, numbers, session.state());
  return Done{};
}

Outcome<TakenNames> Trainer::take(const TrainedParameters& trained) {
  Session& session = *data_->session;
  const TrainedFile& file = trained.data().file;
  const auto match = match_start(session.graph(), starting_point(file));
  if (!match.ok()) return failure_of(match.error());
  auto taken = take_trained(session.graph(), session.config().format, file, session.state());
  if (!taken.ok()) return failure_of(taken.error());
  return TakenNames{std::move(taken->taken), std::move(taken->initial),
                    std::move(taken->left_over)};
}

Outcome<Done> Trainer::save(const std::string& path) const {
  return done(data_->session->save(path));
}

Outcome<Done> Trainer::load(const std::string& path) { return done(data_->session->load(path)); }

std::string Trainer::weights_sha256() const {
  return data_->session->state().sha256(StateGroup::kStatistics);
}

std::string Trainer::plan() const { return to_string(data_->session->memory()); }

Outcome<Model> Model::load(const std::string& path, int threads) {
  if (threads < 0) return Failure{Exit::kInvalidInput, "threads must be 0 or more"};
  auto network = load_frozen(path);
  if (!network.ok()) return failure_of(network.error());
  const int workers = threads == 0 ? processors() : threads;
  return Model(std::make_shared<Data>(Data{std::move(*network), workers}));
}

Outcome<Done> Model::save(const std::string& path) const {
  return done(save_frozen(path, data_->network));
}

Network Model::network() const { return network_of_graph(data_->network.description.network); }

std::string Model::weights_sha256() const { return data_->network.description.weights_sha256; }

Outcome<std::vector<std::vector<double>>> Model::predict(const ArraySet& examples) const {
  FrozenNetwork& network = data_->network;
  BoundArrays arrays;
  const Status bound = arrays.bind(network.description.network, examples, false);
  if (!bound.ok()) return failure_of(bound.error());
  const size_t outputs = network.graph.outputs.size();
  std::vector<std::vector<double>> predictions(outputs);
  ThreadPool pool(data_->threads);
  const Status status =
      run_frozen(network, arrays.examples(), kExamplesAtOnce, false, pool, data_->isa,
                 [&](const Batch&, const StepResult&, const Programs& programs) -> Status {
                   for (size_t k = 0; k < outputs; ++k) {
                     const Tensor tensor = programs.outputs(static_cast<int>(k));
                     for (int64_t i = 0; i < tensor.count(); ++i) {
                       predictions[k].push_back(number_of(tensor, i));
                     }
                   }
                   return {};
                 });
  if (!status.ok()) return failure_of(status.error());
  return predictions;
}

Outcome<StepReport> Model::evaluate(const ArraySet& examples) const {
  FrozenNetwork& network = data_->network;
  BoundArrays arrays;
  const Status bound = arrays.bind(network.description.network, examples, true);
  if (!bound.ok()) return failure_of(bound.error());
  Sums sums{.graph = &network.graph};
  ThreadPool pool(data_->threads);
  const Status status =
      run_frozen(network, arrays.examples(), kExamplesAtOnce, true, pool, data_->isa,
                 [&](const Batch&, const StepResult& result, const Programs&) -> Status {
                   sums.add(result);
                   return {};
                 });
  if (!status.ok()) return failure_of(status.error());
  return sums.report();
}

}  // namespace mantissa

// Trained networks on data in memory.
#include <algorithm>
#include <cmath>
#include <utility>

#include "api/public_values.h"
#include "api/training/array_set.h"
#include "api/training/labels.h"
#include "api/training/loss_sums.h"
#include "api/training/model_data.h"
#include "base/system/thread_pool.h"
#include "data/batches/examples.h"
#include "infer/tasks/classification.h"
#include "infer/tasks/evaluation.h"
#include "infer/tasks/regression.h"
#include "networks/network.h"
#include "ops/losses/example_losses.h"
#include "train/session.h"

namespace mantissa {
namespace {

constexpr int64_t kExamplesAtOnce = 128;

// Numbers of a table must have come through its columns. The numbers of the file itself would fit
// the network's input too, but mean something else.
Status check_rows(const FrozenDescription& description, const ArraySet& examples) {
  if (!description.table) return {};
  const TableSchema& table = *description.table;
  const auto are_named_numbers = [&](const std::string& name) {
    return std::any_of(table.inputs.begin(), table.inputs.end(), [&](const ArrayInput& input) {
      return input.kind == ArrayKind::kNumbers && input.name == name;
    });
  };
  for (const Array& array : examples.arrays) {
    const bool is_row = array.name == kNumberTensor || array.name == kTargetTensor;
    const bool is_named = are_named_numbers(array.name);
    if (!(is_row || is_named) || array.elements == Elements::kMantissa) continue;
    if (is_named) {
      return invalid_input(
          "the network was trained on arrays, whose channels are brought to mean 0 and deviation "
          "1: '" +
          array.name +
          "' must be mantissas that are so; the commands predict and eval take the arrays as they "
          "are");
    }
    return invalid_input(
        "the network was trained on a table, whose columns are brought to mean 0 "
        "and deviation 1: '" +
        array.name + "' must come from encode()");
  }
  return {};
}

// The target of each of a network's results; an empty one for results that have none.
std::vector<Target> targets_of_results(const FrozenDescription& description, size_t results) {
  const Target target = target_of(description);
  if (target.parts.empty()) return std::vector<Target>(results, target);
  std::vector<Target> targets(results);
  for (size_t i = 0; i < target.parts.size(); ++i) {
    targets[static_cast<size_t>(description.options.outputs[i].result)] = target.parts[i];
  }
  return targets;
}

// The losses of the frozen graph need neither weights nor a teacher.
Status bind(const FrozenNetwork& network, const ArraySet& examples, bool needs_labels,
            BoundArrays& arrays) {
  MANTISSA_RETURN_IF_ERROR(check_rows(network.description, examples));
  return arrays.bind(network.graph, examples, needs_labels);
}

}  // namespace

Outcome<Model> Model::load(const std::string& path, int threads) {
  if (threads < 0) return invalid_input("threads must be 0 or more");
  MANTISSA_ASSIGN(auto network, load_frozen(path));
  const int workers = threads == 0 ? processors() : threads;
  return Model(std::make_shared<Data>(Data{std::move(network), workers}));
}

Outcome<Done> Model::save(const std::string& path) const {
  return outcome_of(save_frozen(path, data_->network));
}

Network Model::network() const { return network_of_graph(data_->network.description.network); }

std::string Model::weights_sha256() const { return data_->network.description.weights_sha256; }

Outcome<std::vector<std::vector<double>>> Model::predict(const ArraySet& examples) const {
  FrozenNetwork& network = data_->network;
  BoundArrays arrays;
  MANTISSA_RETURN_IF_ERROR(bind(network, examples, false, arrays));
  const size_t outputs = network.graph.outputs.size();
  const std::vector<Target> targets = targets_of_results(network.description, outputs);
  std::vector<std::vector<double>> predictions(outputs);
  ThreadPool pool(data_->threads);
  const Status status = run_frozen(
      network, arrays.examples(), kExamplesAtOnce, false, pool, data_->isa,
      [&](const Batch&, const StepResult&, const Programs& programs) -> Status {
        for (size_t k = 0; k < outputs; ++k) {
          const Tensor tensor = programs.outputs(static_cast<int>(k));
          for (int64_t i = 0; i < tensor.count(); ++i) {
            predictions[k].push_back(predicted_number(tensor, i, targets[k]));
          }
        }
        return {};
      });
  if (!status.ok()) return failure_of(status.error());
  return predictions;
}

int Model::guess(const std::vector<double>& logits) const {
  return guessed_class(data_->network.description, logits);
}

std::vector<int> Model::guesses(const std::vector<double>& results) const {
  return guesses_of(data_->network.description, results);
}

bool Model::gives_lists() const {
  const FrozenDescription& description = data_->network.description;
  return gives_labels(description) || label_shape_of_places(description.network).rank > 0 ||
         loss_of_sequences(description.network) != nullptr;
}

Outcome<StepReport> Model::evaluate(const ArraySet& examples) const {
  FrozenNetwork& network = data_->network;
  for (const int loss : network.graph.losses) {
    if (!ops::compares_examples(network.graph.nodes[loss])) continue;
    return invalid_input("'" + network.graph.nodes[loss].name +
                         "' compares the examples of a batch, so the loss depends on how they are "
                         "cut into batches; predict() gives their vectors");
  }
  BoundArrays arrays;
  MANTISSA_RETURN_IF_ERROR(bind(network, examples, true, arrays));
  MANTISSA_RETURN_IF_ERROR(check_classes(network.graph, arrays));
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

const std::vector<std::string>& Model::class_names() const {
  return data_->network.description.class_names;
}

std::string Model::table_json() const {
  return mantissa::table_json(data_->network.description.table);
}

}  // namespace mantissa

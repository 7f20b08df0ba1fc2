#include "run/plan/teacher.h"

#include <string>
#include <utility>

#include "networks/network.h"
#include "ops/loss.h"
#include "ops/losses/soft_targets.h"
#include "run/settings/run_lengths.h"
#include "run/settings/run_network.h"

namespace mantissa {
namespace {

// The shape of an example's probabilities: one for each class, or for each class of each place.
const Shape& share_shape(const TeacherPlan& teacher) {
  const Graph& graph = teacher.network->graph;
  return graph.values[graph.outputs[0]].shape;
}

int64_t share_count(const TeacherPlan& teacher) {
  return teacher.program.options.micro_batch_size * share_shape(teacher).count();
}

// Columns and classes that mean something else to the teacher than in these data; "": none.
std::string difference(const FrozenDescription& teacher, const DatasetInfo& data) {
  std::string found;
  if (teacher.table && data.table) found = differing_columns(*teacher.table, *data.table);
  return found.empty() ? differing_classes(teacher.class_names, data.target.names) : found;
}

Status check_teacher(const RunConfig& config, const DatasetInfo& data, int64_t classes) {
  const FrozenDescription& description = config.teacher_network->description;
  const auto refuse = [&](const std::string& why) {
    return invalid_input("teacher: " + config.teacher + " " + why);
  };
  if (config.pipeline.stages > 1 || config.pipeline.processes > 1) {
    return invalid_input("teacher: is for one stage and one process; leave stages out");
  }
  if (batch_lengths(config).size() > 1) {
    return invalid_input("teacher: is for one length of texts; leave buckets out");
  }
  const auto options = example_options(description.network);
  if (!options.ok()) return refuse("is no network of classes: " + options.error().message);
  if (options->loss != ops::LossKind::kCrossEntropy) {
    return refuse("was not trained with cross-entropy: its results are no probabilities of classes "
                  "that exclude one another");
  }
  const Status fits = check_examples(description.network, data);
  if (!fits.ok()) return refuse("does not fit: " + fits.error().message);
  if (const std::string differing = difference(description, data); !differing.empty()) {
    return refuse("was trained on other data than " + data.name + ": " + differing +
                  "; train it on the same");
  }
  if (options->classes == classes) return {};
  return refuse("tells " + std::to_string(options->classes) + " classes apart, and the network " +
                std::to_string(classes));
}

}  // namespace

int64_t TeacherPlan::bytes() const {
  return network->state.layout().bytes + program.arena_bytes +
         share_count(*this) * int64_t{sizeof(int16_t)};
}

Result<TeacherPlan> plan_teacher(const RunConfig& config, const DatasetInfo& data, int64_t classes,
                                 const PlanningContext& planning) {
  MANTISSA_RETURN_IF_ERROR(check_teacher(config, data, classes));
  TeacherPlan plan;
  plan.network = config.teacher_network;
  plan.temperature = config.temperature;
  const FrozenNetwork& network = *plan.network;
  MANTISSA_ASSIGN(plan.program, compile_inference(network.graph, network.description.format,
                                                  config.batch_size, false, planning));
  return plan;
}

Result<std::unique_ptr<TaughtBatches>> TaughtBatches::create(BatchSource& batches,
                                                             const TeacherPlan& teacher,
                                                             ThreadPool& pool, Isa isa) {
  MANTISSA_ASSIGN(AlignedMemory arena, AlignedMemory::create(teacher.program.arena_bytes));
  return std::unique_ptr<TaughtBatches>(
      new TaughtBatches(batches, teacher, std::move(arena), pool, isa));
}

TaughtBatches::TaughtBatches(BatchSource& batches, const TeacherPlan& teacher, AlignedMemory arena,
                             ThreadPool& pool, Isa isa)
    : batches_(batches),
      teacher_(teacher),
      arena_(std::move(arena)),
      programs_(teacher.network->graph, teacher.network->state, {pool, arena_.span(), isa}),
      shares_(static_cast<size_t>(share_count(teacher))) {
  programs_.add(teacher.program);
}

Batch TaughtBatches::next() {
  Batch batch = batches_.next();
  if (batch.count == 0) return batch;
  const auto taught = programs_.infer(batch);
  if (!taught.ok()) {
    status_ = taught.error();
    return {};
  }
  const Tensor logits = programs_.outputs();
  ops::write_shares(logits, teacher_.temperature, shares_.data());
  specs_.assign(batch.specs.begin(), batch.specs.end());
  specs_.push_back({ops::kTeacherTensor, DataType::kInt16, share_shape(teacher_)});
  tensors_.assign(batch.tensors.begin(), batch.tensors.end());
  tensors_.push_back(shares_.data());
  batch.specs = specs_;
  batch.tensors = tensors_;
  return batch;
}

}  // namespace mantissa

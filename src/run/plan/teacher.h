// A trained network whose probabilities a network in training learns beside the labels.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "data/batches/batch.h"
#include "infer/frozen_network.h"
#include "run/settings/run_config.h"
#include "runtime/memory.h"

namespace mantissa {

struct TeacherPlan {
  std::shared_ptr<FrozenNetwork> network;
  Program program;  // for a batch of training
  double temperature = 1;
  int64_t bytes() const;
};

// The teacher that the settings name, for this data. Errors: it takes other examples, tells other
// classes apart, or has no probabilities of classes that exclude one another; there are several
// stages, or several lengths of texts.
Result<TeacherPlan> plan_teacher(const RunConfig& config, const DatasetInfo& data, int64_t classes,
                                 const PlanningContext& planning);

// Batches with the probabilities of the teacher, the tensor ops::kTeacherTensor: it runs on each
// batch before the step that learns from it.
class TaughtBatches : public BatchSource {
 public:
  // All references outlive it.
  static Result<std::unique_ptr<TaughtBatches>> create(BatchSource& batches,
                                                       const TeacherPlan& teacher, ThreadPool& pool,
                                                       Isa isa);
  Batch next() override;
  // Why the last batch was empty, if the teacher failed.
  const Status& status() const { return status_; }

 private:
  TaughtBatches(BatchSource& batches, const TeacherPlan& teacher, AlignedMemory arena,
                ThreadPool& pool, Isa isa);

  BatchSource& batches_;
  const TeacherPlan& teacher_;
  AlignedMemory arena_;
  Programs programs_;
  std::vector<TensorSpec> specs_;
  std::vector<const void*> tensors_;
  std::vector<int16_t> shares_;
  Status status_;
};

}  // namespace mantissa

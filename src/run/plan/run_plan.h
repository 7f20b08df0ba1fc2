// A run compiled: its programs and its memory, known before any data but headers is read.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "data/datasets/dataset.h"
#include "graph/graph.h"
#include "infer/frozen_network.h"
#include "infer/length_programs.h"
#include "models/models.h"
#include "plan/programs/program.h"
#include "run/memory_plan.h"
#include "run/plan/staged_training.h"
#include "run/plan/teacher.h"
#include "run/settings/run_config.h"

namespace mantissa {

struct RunPlan {
  ModelOptions options;   // used to build the graph
  Graph network;          // before the format changed it
  ChannelMeans channel_means = {};  // of the training pictures, once they are read
  Graph graph;            // the compiled graph
  TakenParameters taken;  // from where the run starts; empty without --from
  StateLayout layout;
  Program training;
  BatchLengths lengths;                  // of training batches; the last is what `training` is for
  std::vector<LengthProgram> shorter;    // training programs for the others
  std::optional<StagedTraining> staged;  // if there are several stages
  std::vector<ValueDecision> decisions;  // the values it keeps, and why
  std::optional<TeacherPlan> teacher;    // if it has one
  Program pretraining;  // in fp32, if the format asks for it; else without instructions
  StateLayout pretraining_layout;
  Program calibration;
  EvaluationPrograms evaluation;  // of the frozen network, on the test split
  EvaluationPrograms validation;  // on the data set's own, or the examples held back
  int64_t validation_examples = 0;
  int64_t steps_per_epoch = 0;
  int64_t total_steps = 0;
  // From this step on, counted from 0, an asynchronous pipeline flushes (--sync-last).
  int64_t first_flushed_step = 0;
  int64_t calibration_examples = 0;
  StateLayout frozen_layout;
  MemoryPlan memory;
  int64_t arena_bytes() const;
  // The frozen network lies at the front of the arena, between steps. Programs that compute it or
  // use it follow.
  int64_t frozen_bytes() const;
  int64_t inference_bytes() const;
};

// The network that a run freezes, without weights. It reads a text in each sequence, also if training
// packs several into one.
Graph frozen_graph_of(const RunConfig& config, const RunPlan& plan);

// Options of a run's programs: its training steps, and the passes that find the frozen
// network's exponents.
ProgramOptions training_options(const RunConfig& config);
ProgramOptions calibration_options(const RunConfig& config);

// How many of this many training examples decide the frozen network's exponents: whole
// micro-batches.
int64_t calibration_count(const RunConfig& config, int64_t examples);

// Compiles a run for a data set. Channel means are left at 0, see set_channel_means.
Result<RunPlan> plan_run(const RunConfig& config, const DatasetInfo& data);

// Builds the plan's network anew with the means of the training pictures (channel_means), to be
// called once these are read. They are attributes of the graph's first node: all else stays as
// planned. Without means, nothing changes.
Status set_channel_means(const RunConfig& config, ChannelMeans means, RunPlan& plan);

}  // namespace mantissa

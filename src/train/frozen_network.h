// The inference network: running statistics as integer multipliers and offsets, one fixed exponent
// per tensor, so that a prediction does not depend on its neighbours in the batch (METHODS section
// 0). Its file, evaluating and predicting; freeze.h makes one.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "data/dataset.h"
#include "graph/graph.h"
#include "models/models.h"
#include "plan/program.h"
#include "runtime/executor.h"
#include "runtime/state.h"
#include "train/evaluation.h"

namespace mantissa {

// How a frozen network computes, and the loss that evaluating it reports.
struct InferenceOptions {
  Format format = {};
  ops::LossKind loss = ops::LossKind::kCrossEntropy;
};

// What a frozen network is rebuilt from, and what it was trained on.
struct FrozenDescription {
  std::string model;
  ModelOptions options;
  Format format = {};
  std::vector<std::string> class_names;
  std::string data;
  std::string weights_sha256;  // of the training state that it was frozen from
  ops::LossKind loss = ops::LossKind::kCrossEntropy;

  InferenceOptions inference() const { return {format, loss}; }
};

struct FrozenNetwork {
  FrozenDescription description;
  Graph graph;
  State state;
};

// model.safetensors, self-contained. load checks everything; a damaged file is an error.
Status save_frozen(const std::filesystem::path& path, const FrozenNetwork& network);
Result<FrozenNetwork> load_frozen(const std::filesystem::path& path);

// Programs that evaluate a frozen network: one for full batches, one for the last, smaller batch.
struct EvaluationPrograms {
  Program full, rest;
  int64_t batch_size = 1;
  int64_t arena_bytes() const { return std::max(full.arena_bytes, rest.arena_bytes); }
};
Result<EvaluationPrograms> compile_evaluation(const Graph& frozen_graph,
                                              const InferenceOptions& options, int64_t batch_size,
                                              int64_t examples, const PlanningContext& planning);

// Told after each batch: examples done, examples in all. Returns false to stop.
using EvaluationObserver = std::function<bool(int64_t done, int64_t all)>;

// Runs all examples through the network; results do not depend on the batch size. kInterrupted if
// the observer stopped it.
Result<Evaluation> evaluate(FrozenNetwork& network, const EvaluationPrograms& programs,
                            std::span<std::byte> arena, ThreadPool& pool, Isa isa,
                            const ImageSet& images, const EvaluationObserver& observer = nullptr);

// Probabilities [count][classes] of pictures (pixels [count][H][W][C]).
Result<std::vector<double>> probabilities(FrozenNetwork& network, std::span<const uint8_t> pixels,
                                          int64_t count, ThreadPool& pool, Isa isa);

}  // namespace mantissa

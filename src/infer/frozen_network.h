// The inference network: running statistics as integer multipliers and offsets, one fixed exponent
// per tensor, so that a prediction does not depend on its neighbours in the batch (METHODS section
// 0). Its file and its programs; freeze.h makes one.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/datasets/dataset.h"
#include "data/tokenizers/vocabulary.h"
#include "formats/arrays/safetensors.h"
#include "graph/graph.h"
#include "infer/length_programs.h"
#include "infer/programs.h"
#include "models/models.h"
#include "networks/frozen_graph.h"
#include "plan/programs/program.h"
#include "runtime/state.h"

namespace mantissa {

// A frozen network is rebuilt from this. It also names the training data.
struct FrozenDescription {
  Graph network;  // before the format changed it, and before freezing
  ModelOptions options;
  Format format = {};
  std::vector<std::string> class_names;
  std::string data;
  std::string weights_sha256;  // of the training state that it was frozen from
  FrozenForm form = FrozenForm::kScaleOffset;
  std::optional<TableSchema> table = {};  // the columns of the tables that it takes
  std::string tokenizer = {};             // to_json(WordPiece), of a language model that has one
  // Logits above which labels, or the second of two classes, are guessed
  // (ClassificationEvaluation); empty: 0.
  std::vector<double> thresholds = {};
  // The label that counted nothing in the arrays of its training.
  std::optional<int64_t> ignored_label = {};
};

struct FrozenNetwork {
  FrozenDescription description;
  Graph graph;
  State state;
};

// How many thresholds a network may have: one for each label, or one for two classes. Of several
// outputs all together.
size_t threshold_count(const ModelOptions& options);

// The target of the network's predictions.
Target target_of(const FrozenDescription& description);

// The tokens that a language model knows.
Result<Vocabulary> vocabulary_of(const FrozenDescription& description);

// An error unless the network takes pictures or tables, which `eval` and `predict` are for.
Status check_examples(const FrozenNetwork& network, const std::string& path);

// model.safetensors, self-contained: the network's JSON is in its metadata. load checks everything;
// a damaged file is an error. Files of before that name a built-in network.
// Its kind tells the form: "mantissa frozen network 1", 2 or 3.
Status save_frozen(const std::filesystem::path& path, const FrozenNetwork& network);

// Loads such a file, or an exported one (deployed_network.h).
Result<FrozenNetwork> load_frozen(const std::filesystem::path& path);

// The bytes of model.safetensors, with or without the weights of layers.
Result<std::string> frozen_bytes(const FrozenNetwork& network, bool with_weights);

// The network of such a file. `weights_elsewhere`: 0, or how many bytes of weights lie outside the
// file. Then the file has no weights, and the weights of the result are zero. Errors name `path`.
Result<FrozenNetwork> frozen_network(const std::filesystem::path& path, const SafetensorsFile& file,
                                     int64_t weights_elsewhere = 0);

// A program that runs a frozen network on `batch` examples.
Result<Program> compile_inference(const Graph& frozen_graph, const Format& format, int64_t batch,
                                  bool with_loss, const PlanningContext& planning);

// Whether the results of an evaluation are read, or its loss alone: logits may then come in slices.
enum class Reads : uint8_t { kResults, kLoss };

// Programs that evaluate a frozen network: one for full batches, one for the smaller last batch
// (without instructions if there is none), and for full batches of shorter sequences.
struct EvaluationPrograms {
  Program full, rest;
  std::vector<LengthProgram> shorter;
  BatchLengths lengths;
  int64_t batch_size = 1;
  int64_t arena_bytes() const {
    return std::max({full.arena_bytes, rest.arena_bytes, mantissa::arena_bytes(shorter)});
  }
};
Result<EvaluationPrograms> compile_evaluation(const Graph& frozen_graph, const Format& format,
                                              int64_t batch_size, int64_t examples,
                                              const PlanningContext& planning, Reads reads,
                                              const BatchLengths& lengths = {});

// How many lengths `eval` and `predict` pad texts to.
inline constexpr int64_t kTextLengths = 4;

// Up to `most` lengths that texts may be padded to without a change of any bit of their results,
// the network's own the last. Empty: it labels no texts, computes in floats or with an exponent for
// each token, or reads padding.
BatchLengths text_lengths(const FrozenDescription& description, int64_t most);

// The programs' executors.
Programs inference_programs(FrozenNetwork& network, const EvaluationPrograms& programs,
                            const Machine& machine);

}  // namespace mantissa

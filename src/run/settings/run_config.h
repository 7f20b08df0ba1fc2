// Everything that a run is told: one table of settings gives names, help, defaults and parsing, for
// the command line, configuration files and run identities alike.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/system/cpu.h"
#include "data/batches/class_weights.h"
#include "data/datasets/dataset.h"
#include "data/pictures/augment.h"
#include "data/text/text.h"
#include "graph/graph.h"
#include "networks/adapters.h"
#include "numerics/format.h"
#include "ops/loss.h"
#include "pipeline/partition.h"
#include "pipeline/schedule.h"
#include "plan/programs/state_layout.h"
#include "plan/retention/compile_training.h"
#include "run/learning_rate.h"
#include "run/settings/setting.h"
#include "run/settings/starting_point.h"

namespace mantissa {

struct FrozenNetwork;

// The stages that a run's steps are divided among (pipeline/schedule.h).
struct PipelineConfig {
  int64_t stages = 1;
  pipeline::Mode mode = pipeline::Mode::kFlush;
  pipeline::FlushForm form = pipeline::FlushForm::kSplit;  // of a flush
  pipeline::Windows windows = pipeline::Windows::kLean;    // of the others
  std::optional<pipeline::Balance> partition;  // none: by time, or, where that could change
                                               // results, by operations
  // The first layer of each stage, if the division is by hand; `partition` is none then.
  std::vector<std::string> first_layers;
  bool as_graph_says = false;     // the network's file has them
  int64_t accumulate = 0;         // micro-batches of an update; 0: as they come
  int64_t drain_every = 0;        // steps; 0: an epoch
  bool predicts_weights = false;  // if micro-batches miss updates
  int64_t stage_warmup = 0;       // steps; 0: none
  int64_t sync_last = 0;          // steps at the end in which it flushes
  int64_t replicas = 1;           // of all stages, each with its part of a batch
  int processes = 1;              // that work on the stages and replicas; not a setting
  int64_t stage_memory = 0;       // bytes, of each stage; 0: no limit

  bool is_asynchronous() const { return mode != pipeline::Mode::kFlush; }
};

// The settings of a run. Their defaults stand in the table alone: default_run_config().
struct RunConfig {
  std::string model;  // name of a built-in network, or that which `network` has
  // Read from a file, whose content is part of the run's identity, not its path. The file itself
  // has the width, loss and label smoothing, which are settings for built-in networks.
  std::optional<Graph> network;
  std::string network_file;
  std::vector<std::string> network_stages;  // that it says: the first layer of each
  // The network is that of --from: its classifier gets as many outputs as the data have classes.
  bool adapts_classes = false;
  std::string classifier;              // layers that get them; "": the one that makes the output
  onnx::ImportOptions import_options;  // of a model from ONNX: --model, --from
  bool is_imported = false;                // the network comes from such a model
  std::vector<std::string> model_outputs;  // of that model
  bool inserts_batch_norm = false;         // after its convolutions
  bool folds_batch_norm = false;           // into its layers
  std::vector<std::string> notes;          // assumptions of the import
  std::string from;                        // run or file to start from; "": none
  std::optional<StartingPoint> start;      // the content of `from`
  std::string freeze;      // patterns of parameters that are not trained (untrained.h)
  LoraChoice lora;
  int64_t reestimate = 0;  // batches for batch norms' statistics before the first step
  std::string data;
  PictureSize input_size;  // 0 x 0: as the data are
  TableChoices table;
  int classes = 0;       // 0: as many as the data have
  std::string positive;  // this class of the data against all others; "": none
  int64_t sequence = 0;  // of language models: tokens of an example; 0: the data are pictures
  Tokens tokens = Tokens::kCharacters;                           // of a text
  int64_t vocabulary = 0;                                        // of pieces of words; 0: as usual
  std::string vocabulary_file = {};                              // used instead: a tokenizer's
  std::shared_ptr<const Vocabulary> known_vocabulary = nullptr;  // the vocabulary of `start`
  int64_t buckets = 1;  // lengths of batches; 1: all are padded to the sequence
  bool pack = false;    // several conversations lie in one sequence
  bool tied = false;    // the classifier of a language model has the embedding's weights
  Format format;
  int64_t epochs = 0;
  int64_t steps = 0;  // > 0: this many instead of whole epochs
  int64_t batch_size = 0;
  int64_t micro_batch_size = 0;  // 0: the batch
  OptimizerKind optimizer = OptimizerKind::kMomentum;
  double momentum = 0;
  double beta1 = 0, beta2 = 0, epsilon = 0;
  double learning_rate = 0;  // 0: the default of optimizer or model
  ScheduleKind schedule = ScheduleKind::kOneCycle;
  double warmup = 0;  // fraction of all steps
  ops::LossKind loss = ops::LossKind::kCrossEntropy;
  double label_smoothing = 0;
  double focal = 0;                            // of sigmoids
  std::vector<int64_t> positive_weights = {};  // of sigmoids, in units of 2^-10
  double huber_delta = 1;
  std::string loss_weights;  // NAME=FACTOR of the losses of outputs, with commas between them
  std::string teacher;         // file of a frozen network whose probabilities are learned; "": none
  std::shared_ptr<FrozenNetwork> teacher_network;
  double teacher_weight = 0.5, temperature = 1;
  // The probability above which a label, or the second of two classes, is guessed; nothing: the one
  // with the best F1 on validation examples.
  std::optional<double> threshold = 0.5;
  ClassWeights class_weights;
  double plateau_factor = 0;
  int64_t plateau_patience = 0;  // epochs
  double weight_decay = -1;      // < 0: the optimizer's default
  double clip_norm = 0;          // 0: no clipping
  double validation = 0;         // below 1 a fraction of the training examples, else their number
  int64_t early_stop = 0;        // epochs; 0: never
  Augmentation augmentation;
  double width = 0;
  std::vector<int64_t> hidden;  // widths of mlp's hidden layers; none: its own
  uint64_t seed = 0;
  int threads = 0;  // 0: all cores
  PipelineConfig pipeline;
  Isa isa = Isa::kScalar;
  int64_t memory_budget = 0;  // bytes; 0: none
  RecomputeMode recompute = RecomputeMode::kAuto;
  Planner planner = Planner::kSearch;
  bool allow_inversion = false;
  std::string profile_name;  // find_profile
  MachineProfile profile;
  int64_t checkpoint_every = 0;  // steps; 0: once an epoch
  int64_t hash_every = 0;        // steps; 0: never
  bool statistics = false;       // histograms of the tensors' bits
  std::string out;
  std::string tensorboard;  // folder for event files; "": none
  std::string trace;        // file for the stages' timeline; "": none
  int64_t trace_steps = 0;
  bool resume = false;
  bool overwrite = false;
  std::vector<std::string> derived;  // settings that nobody chose: derived_settings.h

  // Labels of an example: a text has one for each token, a picture may have one for each pixel.
  int64_t labels_per_example() const;
};

using Setting = SettingOf<RunConfig>;

// The table of training's settings, in the order of --help and of config.toml.
std::span<const Setting> training_settings();

// The row of this name; null: there is none.
const Setting* training_setting(std::string_view name);

// Whether it is a setting of training that has one of these traits.
bool has_trait(std::string_view name, uint32_t trait);

// The settings of a run if nobody sets any: the defaults of the table.
RunConfig default_run_config();

// How a run reads its data: pictures, or if it has a sequence, a text.
DataOptions data_options(const RunConfig& config);
// Whether the data are a table with a column of pictures.
bool reads_picture_table(const RunConfig& config);
// Whether the data are arrays that the inputs of the network name.
bool reads_named_arrays(const RunConfig& config);
TextOptions text_options(const RunConfig& config);

// The file of the network in a run's folder, if it is no built-in network.
inline constexpr const char* kNetworkFile = "network.json";

// Whether a value of "model" names a file: of JSON, or an ONNX model.
bool is_network_file(std::string_view model);

// Parses settings by name over the defaults, reads the network's file if they name one, and
// resolves settings that depend on others (micro-batch size, learning rate, threads): from
// `derived`, or anew. Unknown names and impossible values are errors of one line.
Result<RunConfig> make_run_config(const std::map<std::string, std::string>& settings,
                                  const std::map<std::string, std::string>& derived = {});

// The loss of an imported model as the settings say.
void take_import_loss(const std::map<std::string, std::string>& settings, RunConfig& config);

// SHA-256 over the settings that results depend on, and the data's hash.
std::string run_identity(const RunConfig& config, const std::string& data_sha256);

// The settings that make two runs different ones: "seed 1, now 2; epochs 3, now 4"; "" for none.
std::string differing_settings(const RunConfig& before, const RunConfig& now);

}  // namespace mantissa

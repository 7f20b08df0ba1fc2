// The table of settings: names, help, defaults, parsing and printing.
#include <string>
#include <vector>

#include "base/real_text.h"
#include "base/sizes.h"
#include "data/tokenizers/sentence_piece.h"
#include "networks/network.h"
#include "run/division.h"
#include "run/learning_rate.h"
#include "run/settings/profile_file.h"
#include "run/settings/run_config.h"
#include "run/settings/setting_values.h"

namespace mantissa {
namespace {

using Config = RunConfig;

constexpr int64_t kMany = int64_t{1} << 40;

// Parsers of one field each, with its range.
template <auto kField, int64_t kLow, int64_t kHigh>
Status integer(const char* name, const std::string& text, Config& config) {
  MANTISSA_ASSIGN(const int64_t value, parse_integer(name, text, kLow, kHigh));
  config.*kField = static_cast<std::remove_reference_t<decltype(config.*kField)>>(value);
  return {};
}

// A field of text, as it is.
template <auto kField>
Status set_text(const std::string& text, Config& config) {
  config.*kField = text;
  return {};
}

// A number of pieces, or the file of a tokenizer.
Status parse_vocabulary(const std::string& text, Config& config) {
  const bool is_number =
      text.empty() || text[0] == '-' || text.find_first_not_of("0123456789") == std::string::npos;
  config.vocabulary_file = is_number ? "" : text;
  config.vocabulary = 0;
  if (!is_number) return {};
  return integer<&Config::vocabulary, kLeastPieces, kMostCharacters>("vocabulary", text, config);
}

Status real(const char* name, const std::string& text, double low, double high, double& field) {
  MANTISSA_ASSIGN(const double value, parse_real(name, text, low, high));
  field = value;
  return {};
}

template <typename T>
Status assign(Result<T> result, T& field) {
  if (!result.ok()) return result.error();
  field = std::move(*result);
  return {};
}

// A balance, a division's file, its text, or "graph".
Status parse_partition(const std::string& text, Config& config) {
  PipelineConfig& way = config.pipeline;
  way.partition.reset();
  way.first_layers.clear();
  way.as_graph_says = text == "graph";
  if (way.as_graph_says || text.empty()) return {};
  if (text.ends_with(".json")) return assign(read_division(text), way.first_layers);
  if (text.starts_with('[')) return assign(parse_division(text), way.first_layers);
  const Result<pipeline::Balance> balance = pipeline::parse_balance(text);
  if (!balance.ok()) return invalid_input(balance.error().message + ", nor graph, nor NAME.json");
  way.partition = *balance;
  return {};
}

// A setting of an optimizer or of the plateau schedule as text, empty if it means nothing.
std::string of_optimizer(const Config& config, const char* name, double value) {
  return has_setting(config.optimizer, name) ? real_text(value) : "";
}
std::string of_plateau(const Config& config, std::string text) {
  return config.schedule == ScheduleKind::kPlateau ? std::move(text) : "";
}
// A setting of built-in networks as text, empty if a file describes the network.
std::string of_built_in(const Config& config, std::string text) {
  return config.network ? "" : std::move(text);
}

constexpr bool kSwitch = true, kValue = false, kIdentity = true, kElsewhere = false;

using S = const std::string&;

const std::string kOptimizerHelp = optimizer_names();

const Setting kSettings[] = {
    {"model",
     "network: mlp, lenet5, vgg8b, resnet8, resnet20, or another that info lists; or a file "
     "NAME.json that describes one (docs/networks.md), or NAME.onnx (docs/onnx.md)",
     "resnet8", kValue, kIdentity, set_text<&Config::model>,
     [](const Config& c) { return c.network ? std::string(kNetworkFile) : c.model; }},
    {"data",
     "data set: fashion-mnist, cifar-10, cifar-100, a CSV or NPZ file, or a folder with IDX files, "
     "CIFAR's binary files, tables, arrays or pictures (docs/data.md); for language models a text "
     "file",
     "fashion-mnist", kValue, kElsewhere, set_text<&Config::data>,
     [](const Config& c) { return c.data; }},
    {"from",
     "start with trained weights: the folder of a run, a checkpoint, a model.safetensors, or "
     "NAME.onnx; without --model the network is that of the run or file (docs/networks.md, "
     "docs/onnx.md)",
     "", kValue, kIdentity, set_text<&Config::from>,
     [](const Config& c) { return std::string(c.start ? kStartFile : ""); }, true},
    // The network and its weights already contain the effect of the next two.
    {"input-mean",
     "mean of the pixels, divided by 255, that a network from ONNX was trained with: one number, "
     "or "
     "one for each channel (0.485,0.456,0.406: assumed for three channels; 0 for others)",
     "", kValue, kElsewhere,
     [](S text, Config& c) { return assign(parse_reals(text), c.import_options.mean); },
     [](const Config&) { return std::string(); }},
    {"input-std", "their standard deviation (0.229,0.224,0.225, or 1)", "", kValue, kElsewhere,
     [](S text, Config& c) { return assign(parse_reals(text), c.import_options.deviation); },
     [](const Config&) { return std::string(); }},
    {"output", "output of an ONNX model that says the class (left out: the first)", "", kValue,
     kElsewhere,
     [](S text, Config& c) {
       c.import_options.output = text;
       return Status();
     },
     [](const Config&) { return std::string(); }},
    {"classifier",
     "layer of a network from a file that is replaced for another number of classes; several, with "
     "commas between them, where their channels add up (left out: the one that makes the output)",
     "", kValue, kElsewhere, set_text<&Config::classifier>,
     [](const Config&) { return std::string(); }},
    // They are in the network, and their numbers among the weights.
    {"insert-batch-norm",
     "put batch norms behind the convolutions of an ONNX model whose own were folded away, set "
     "from "
     "training pictures so that it computes the same",
     "false", kSwitch, kElsewhere,
     [](S text, Config& c) {
       return parse_switch("insert-batch-norm", text, c.inserts_batch_norm);
     },
     [](const Config&) { return std::string(); }},
    {"freeze",
     "parameters that are not trained: names, with * for any text, separated by commas "
     "(stem*,stage1.*)",
     "", kValue, kIdentity, set_text<&Config::freeze>, [](const Config& c) { return c.freeze; },
     true},
    {"reestimate",
     "batches over which the running statistics of batch norms are averaged anew before the first "
     "step and behind the last one; for few bits, and for a start whose layers changed",
     "0", kValue, kIdentity,
     [](S text, Config& c) {
       return integer<&Config::reestimate, 0, 100000>("reestimate", text, c);
     },
     [](const Config& c) { return c.reestimate == 0 ? "" : std::to_string(c.reestimate); }, true},
    // The pictures themselves are in the identity.
    {"input-size",
     "size that pictures are brought to: 32, or 28x32 (height x width); 0: as they are, or 64 "
     "where they differ",
     "0", kValue, kElsewhere,
     [](S text, Config& c) { return assign(parse_picture_size(text), c.input_size); },
     [](const Config& c) { return to_string(c.input_size); }},
    {"target",
     "column of a table that is predicted (left out: one called label, target, class or y, or the "
     "last)",
     "", kValue, kElsewhere,
     [](S text, Config& c) {
       c.table.target = text;
       return Status();
     },
     [](const Config& c) { return c.table.target; }, true},
    {"ignore", "columns of a table that are left out, with commas between them", "", kValue,
     kElsewhere,
     [](S text, Config& c) {
       c.table.ignore = text;
       return Status();
     },
     [](const Config& c) { return c.table.ignore; }, true},
    {"text-column",
     "column of texts that a network of texts reads (left out: one called text, or the only one)",
     "", kValue, kElsewhere,
     [](S text, Config& c) {
       c.table.text.name = text;
       return Status();
     },
     [](const Config& c) { return c.table.text.name; }, true},
    {"row-weights",
     "column of a table with the weights of its rows in training, from 0 to 31; it is no input", "",
     kValue, kElsewhere,
     [](S text, Config& c) {
       c.table.weights = text;
       return Status();
     },
     [](const Config& c) { return c.table.weights; }, true},
    {"task",
     "what is predicted of a table: classification, regression, or auto (texts and few whole "
     "numbers are classes, other numbers are numbers)",
     "auto", kValue, kElsewhere,
     [](S text, Config& c) { return assign(parse_table_task(text), c.table.task); },
     [](const Config& c) {
       return c.table.task == TableTask::kByTarget ? ""
                                                   : std::string(table_task_name(c.table.task));
     },
     true},
    {"header",
     "whether the first row of a CSV file has the names of its columns: yes, no, or auto (by what "
     "stands below)",
     "auto", kValue, kElsewhere,
     [](S text, Config& c) { return assign(parse_header(text), c.table.format.has_header); },
     [](const Config& c) {
       return c.table.format.has_header ? std::string(header_name(c.table.format.has_header)) : "";
     },
     true},
    {"missing",
     "texts of a table that stand for missing values besides the usual ones, also in the target",
     "", kValue, kElsewhere,
     [](S text, Config& c) {
       c.table.format.missing = parse_missing(text);
       return Status();
     },
     [](const Config& c) { return missing_text(c.table.format.missing); }, true, true},
    {"decimal",
     "how a table's numbers are read that have two readings, as 1.642: point, comma (with points "
     "between thousands), or auto (as its other columns)",
     "auto", kValue, kElsewhere,
     [](S text, Config& c) { return assign(parse_decimal(text), c.table.decimal); },
     [](const Config& c) {
       return c.table.decimal == '\0' ? "" : std::string(decimal_name(c.table.decimal));
     },
     true},
    {"classes", "outputs of the network, at least the classes of the data (0: as many)", "0",
     kValue, kIdentity,
     [](S text, Config& c) {
       return integer<&Config::classes, 0, kMaxClasses>("classes", text, c);
     },
     [](const Config& c) { return std::to_string(c.classes); }},
    {"positive",
     "class of pictures that is told from all others: its name or number; makes two classes", "",
     kValue, kIdentity,
     [](S text, Config& c) {
       c.positive = text;
       return Status();
     },
     [](const Config& c) { return c.positive; }, true},
    {"sequence", "tokens of an example, for language models of a text (left out: 128)", "", kValue,
     kIdentity,
     [](S text, Config& c) {
       return integer<&Config::sequence, 1, kLongestSequence>("sequence", text, c);
     },
     [](const Config& c) { return c.sequence == 0 ? "" : std::to_string(c.sequence); }, true},
    {"tokens",
     "tokens of a text: characters (UTF-8), bytes, or pieces of words: sentencepiece, wordpiece",
     "characters", kValue, kIdentity,
     [](S text, Config& c) { return assign(parse_tokens(text), c.tokens); },
     [](const Config& c) { return std::string(c.sequence == 0 ? "" : tokens_name(c.tokens)); }, true},
    {"vocabulary",
     "pieces of words to learn, with --tokens sentencepiece or wordpiece (left out: 4000), or with "
     "wordpiece the file of a tokenizer: vocab.txt or tokenizer.json; so also for texts with "
     "labels, where --from brings none",
     "", kValue, kIdentity, parse_vocabulary,
     [](const Config& c) {
       return c.vocabulary == 0 ? c.vocabulary_file : std::to_string(c.vocabulary);
     },
     true},
    {"buckets",
     "lengths that batches of sentences, or of texts with labels, are padded to: similar ones go "
     "together, so that less of a step is padding (1: all are padded to --sequence)",
     "", kValue, kIdentity,
     [](S text, Config& c) { return integer<&Config::buckets, 1, 64>("buckets", text, c); },
     [](const Config& c) { return c.buckets <= 1 ? "" : std::to_string(c.buckets); }, true},
    {"tied", "let a language model's classifier have the weights of its embedding", "false", kSwitch,
     kIdentity, [](S text, Config& c) { return parse_switch("tied", text, c.tied); },
     [](const Config& c) { return of_built_in(c, c.tied ? "true" : ""); }, true},
    {"format",
     "number format: bfp8, bfp8-text, dfp8 (dynamic fixed point), fp32 (the reference), or "
     "bfp:key=value,... such as bfp:g=8,gr=stochastic (w, a, ends, unsigned, linear, g, gw, gr, "
     "acc, "
     "shift, round, bias, block, blocks, exponents, inversion; mantissa info lists their values), or "
     "dfp:key=value,... "
     "such as dfp:g=8 (also r_max, warmup, threshold, every, start, decide, "
     "pretraining)",
     "bfp8", kValue, kIdentity,
     [](S text, Config& c) { return assign(parse_format(text), c.format); },
     [](const Config& c) { return to_string(c.format); }},
    {"epochs", "passes over the training examples (0: none, the network is tested as it starts)",
     "3", kValue, kIdentity,
     [](S text, Config& c) { return integer<&Config::epochs, 0, 1000000>("epochs", text, c); },
     [](const Config& c) { return std::to_string(c.epochs); }},
    {"steps", "steps in all, instead of whole epochs (0: by epochs)", "0", kValue, kIdentity,
     [](S text, Config& c) { return integer<&Config::steps, 0, kMany>("steps", text, c); },
     [](const Config& c) { return std::to_string(c.steps); }},
    {"batch-size", "examples per update", "128", kValue, kIdentity,
     [](S text, Config& c) {
       return integer<&Config::batch_size, 1, 1 << 20>("batch-size", text, c);
     },
     [](const Config& c) { return std::to_string(c.batch_size); }},
    {"micro-batch-size", "examples computed at once; divides the batch (0: the batch)", "0", kValue,
     kIdentity,
     [](S text, Config& c) {
       return integer<&Config::micro_batch_size, 0, 1 << 20>("micro-batch-size", text, c);
     },
     [](const Config& c) { return std::to_string(c.micro_batch_size); }},
    {"optimizer", kOptimizerHelp.c_str(), "momentum", kValue, kIdentity,
     [](S text, Config& c) { return assign(parse_optimizer(text), c.optimizer); },
     [](const Config& c) { return std::string(optimizer_name(c.optimizer)); }},
    {"momentum", "factor of momentum and nesterov", "0.9", kValue, kIdentity,
     [](S text, Config& c) { return real("momentum", text, 0, 0.9999, c.momentum); },
     [](const Config& c) { return of_optimizer(c, "momentum", c.momentum); }},
    {"beta1", "adam, adamw: decay of the mean gradient", "0.9", kValue, kIdentity,
     [](S text, Config& c) { return real("beta1", text, 0, 0.9999, c.beta1); },
     [](const Config& c) { return of_optimizer(c, "beta1", c.beta1); }},
    {"beta2", "adam, adamw: decay of the mean square", "0.999", kValue, kIdentity,
     [](S text, Config& c) { return real("beta2", text, 0, 0.99999, c.beta2); },
     [](const Config& c) { return of_optimizer(c, "beta2", c.beta2); }},
    {"epsilon", "adam, adamw: added to the root of the mean square", "1e-08", kValue, kIdentity,
     [](S text, Config& c) { return real("epsilon", text, 0, 1, c.epsilon); },
     [](const Config& c) { return of_optimizer(c, "epsilon", c.epsilon); }},
    {"learning-rate", "largest learning rate (0: the model's default; with adam and adamw 0.001)",
     "0", kValue, kIdentity,
     [](S text, Config& c) -> Status {
       MANTISSA_RETURN_IF_ERROR(
           real("learning-rate", text, 0, kLargestLearningRate, c.learning_rate));
       if (is_learning_rate(c.learning_rate)) return {};
       return invalid_input("learning-rate: '" + text + "' is too small to change a weight");
     },
     [](const Config& c) { return real_text(c.learning_rate); }},
    {"lr-schedule", "constant, step, cosine, one-cycle or plateau", "one-cycle", kValue, kIdentity,
     [](S text, Config& c) { return assign(parse_schedule(text), c.schedule); },
     [](const Config& c) { return std::string(schedule_name(c.schedule)); }},
    {"warmup", "part of the steps over which the learning rate rises", "0.2", kValue, kIdentity,
     [](S text, Config& c) { return real("warmup", text, 0, 1, c.warmup); },
     [](const Config& c) { return real_text(c.warmup); }},
    {"plateau-factor",
     "plateau: what the learning rate is multiplied by when the loss stops falling", "0.1", kValue,
     kIdentity,
     [](S text, Config& c) { return real("plateau-factor", text, 0.001, 0.999, c.plateau_factor); },
     [](const Config& c) { return of_plateau(c, real_text(c.plateau_factor)); }},
    {"plateau-patience", "plateau: epochs in a row without a lower loss", "2", kValue, kIdentity,
     [](S text, Config& c) {
       return integer<&Config::plateau_patience, 1, 1000000>("plateau-patience", text, c);
     },
     [](const Config& c) { return of_plateau(c, std::to_string(c.plateau_patience)); }},
    {"weight-decay",
     "decay of weights, not of biases and batch norm (left out: 0.0005, with adam 0, with adamw "
     "0.01); part of the gradient, but adamw decays apart from it",
     "", kValue, kIdentity,
     [](S text, Config& c) { return real("weight-decay", text, 0, 1, c.weight_decay); },
     [](const Config& c) { return real_text(c.weight_decay); }},
    {"loss", "cross-entropy, or mse: the mean squared error against one-hot targets",
     "cross-entropy", kValue, kIdentity,
     [](S text, Config& c) { return assign(ops::parse_loss(text), c.loss); },
     [](const Config& c) { return of_built_in(c, ops::loss_of(c.loss).name); }},
    {"label-smoothing", "part of each target that all classes share (cross-entropy; 0.1 is usual)",
     "0", kValue, kIdentity,
     [](S text, Config& c) { return real("label-smoothing", text, 0, 0.99, c.label_smoothing); },
     [](const Config& c) { return of_built_in(c, real_text(c.label_smoothing)); }},
    {"class-weights",
     "weights of classes in the loss: balanced (each class counts as much as any other), or a "
     "number for each class, 1,2,0.5",
     "none", kValue, kIdentity,
     [](S text, Config& c) { return assign(parse_class_weights(text), c.class_weights); },
     [](const Config& c) { return c.class_weights.any() ? to_string(c.class_weights) : ""; }, true},
    {"clip-norm", "shrink gradients whose norm over all parameters is larger (0: never)", "0",
     kValue, kIdentity,
     [](S text, Config& c) { return real("clip-norm", text, 0, 1e9, c.clip_norm); },
     [](const Config& c) { return real_text(c.clip_norm); }},
    {"validation",
     "training examples held back to measure each epoch: a fraction (0.1) or a number (5000); not "
     "where a folder val beside train has them",
     "0", kValue, kIdentity, parse_validation,
     [](const Config& c) { return real_text(c.validation); }},
    {"early-stop",
     "stop after so many epochs in a row without a lower loss, of the examples held back or, "
     "without any, of training, and keep the weights of the best epoch (0: never)",
     "0", kValue, kIdentity,
     [](S text, Config& c) {
       return integer<&Config::early_stop, 0, 1000000>("early-stop", text, c);
     },
     [](const Config& c) { return std::to_string(c.early_stop); }},
    {"augment", "none, or of flip, shift, crop, jitter, cutout: shift=2,flip (docs/data.md)",
     "none", kValue, kIdentity,
     [](S text, Config& c) { return assign(parse_augmentation(text), c.augmentation); },
     [](const Config& c) { return to_string(c.augmentation); }},
    {"width", "multiplies the channels of every layer but the last", "1", kValue, kIdentity,
     [](S text, Config& c) { return real("width", text, 1.0 / 64, 64, c.width); },
     [](const Config& c) { return of_built_in(c, real_text(c.width)); }},
    {"hidden", "widths of mlp's hidden layers, with commas between them (200,100,50)", "", kValue,
     kIdentity, [](S text, Config& c) { return assign(parse_widths(text), c.hidden); },
     [](const Config& c) { return of_built_in(c, widths_text(c.hidden)); }, true},
    {"seed", "of initial weights, order, augmentation and stochastic rounding", "1", kValue,
     kIdentity,
     [](S text, Config& c) { return integer<&Config::seed, 0, INT64_MAX>("seed", text, c); },
     [](const Config& c) { return std::to_string(c.seed); }},
    {"threads", "threads to compute with (0: one per core); changes no result", "0", kValue,
     kElsewhere,
     [](S text, Config& c) { return integer<&Config::threads, 0, 256>("threads", text, c); },
     [](const Config& c) { return std::to_string(c.threads); }},
    {"stages",
     "stages of a pipeline, each with its part of the layers and of the threads "
     "(docs/pipelines.md)",
     "1", kValue, kElsewhere,
     [](S text, Config& c) {
       return assign(parse_integer("stages", text, 1, pipeline::kMostStages), c.pipeline.stages);
     },
     [](const Config& c) {
       return c.pipeline.stages == 1 ? "" : std::to_string(c.pipeline.stages);
     },
     true},
    {"replicas",
     "copies of all stages, each with its part of a batch's micro-batches; they are processes "
     "(mantissa launch) and change no result but in fp32 and in an asynchronous pipeline",
     "1", kValue, kIdentity,
     [](S text, Config& c) {
       return assign(parse_integer("replicas", text, 1, 1024), c.pipeline.replicas);
     },
     [](const Config& c) {
       return c.pipeline.replicas == 1 ? "" : std::to_string(c.pipeline.replicas);
     },
     true},
    {"pipeline",
     "when layers are updated: flush (all together: the bits of one stage), async (each as soon "
     "as its own gradients are there), stash or 2bw (the same, with the weights of the forward "
     "pass in the backward pass)",
     "flush", kValue, kIdentity,
     [](S text, Config& c) { return assign(pipeline::parse_mode(text), c.pipeline.mode); },
     [](const Config& c) {
       return c.pipeline.is_asynchronous() ? std::string(pipeline::mode_name(c.pipeline.mode)) : "";
     },
     true},
    {"flush-form",
     "order of a flush: gpipe (all forward, all backward), 1f1b (backward as soon as it can), or "
     "split (gradients of weights fill the time in which a stage would wait); changes no result",
     "split", kValue, kElsewhere,
     [](S text, Config& c) { return assign(pipeline::parse_flush_form(text), c.pipeline.form); },
     [](const Config& c) {
       return c.pipeline.stages > 1 && !c.pipeline.is_asynchronous()
                  ? std::string(pipeline::flush_form_name(c.pipeline.form))
                  : "";
     },
     true},
    {"windows",
     "micro-batches in flight in an asynchronous pipeline: lean (as many as stages are left) or "
     "full (twice as many, less one)",
     "lean", kValue, kElsewhere,
     [](S text, Config& c) { return assign(pipeline::parse_windows(text), c.pipeline.windows); },
     [](const Config& c) {
       return c.pipeline.is_asynchronous() ? std::string(pipeline::windows_name(c.pipeline.windows))
                                           : "";
     },
     true},
    {"partition",
     "what stages get equal parts of: time (estimated; the default of flush), operations (the "
     "default of others), parameters or layers; or a file NAME.json with the first layer of each "
     "stage, {\"stages\": [\"stem\", \"stage2.0.conv1\"]}; or graph: as the nodes of the network's "
     "file say",
     "", kValue, kElsewhere, parse_partition,
     [](const Config& c) {
       const PipelineConfig& way = c.pipeline;
       if (way.stages > 1 && !way.first_layers.empty()) return division_text(way.first_layers);
       return way.partition ? std::string(pipeline::balance_name(*way.partition)) : "";
     },
     true},
    {"stage-memory",
     "most memory for each stage of a pipeline (64MiB): decides where it is divided, and what is "
     "computed again",
     "", kValue, kElsewhere,
     [](S text, Config& c) { return assign(parse_bytes(text), c.pipeline.stage_memory); },
     [](const Config& c) {
       return c.pipeline.stage_memory > 0 ? std::to_string(c.pipeline.stage_memory) + "B"
                                          : std::string();
     },
     true},
    {"accumulate",
     "micro-batches of an update: another way to say the micro-batch size; or cycles of the "
     "pipeline, 8:cycles, of which each has one micro-batch",
     "0", kValue, kElsewhere,
     [](S text, Config& c) {
       constexpr std::string_view kCycles = ":cycles";
       const size_t end = text.ends_with(kCycles) ? text.size() - kCycles.size() : text.size();
       return assign(parse_integer("accumulate", text.substr(0, end), 0, 1 << 20),
                     c.pipeline.accumulate);
     },
     [](const Config&) { return std::string(); }, true},
    {"drain-every",
     "steps after which an asynchronous pipeline runs empty, so that a checkpoint can be written "
     "(0: an epoch)",
     "0", kValue, kElsewhere,
     [](S text, Config& c) {
       return assign(parse_integer("drain-every", text, 0, kMany), c.pipeline.drain_every);
     },
     [](const Config& c) {
       return c.pipeline.is_asynchronous() && c.pipeline.drain_every > 0
                  ? std::to_string(c.pipeline.drain_every)
                  : "";
     },
     true},
    {"predict-weights",
     "let forward passes of an asynchronous pipeline meet weights predicted to the update of their "
     "micro-batch, from the optimiser's velocity",
     "false", kSwitch, kIdentity,
     [](S text, Config& c) {
       return parse_switch("predict-weights", text, c.pipeline.predicts_weights);
     },
     [](const Config& c) { return std::string(c.pipeline.predicts_weights ? "true" : ""); }, true},
    {"stage-warmup",
     "steps over which the learning rates of an asynchronous pipeline's stages rise to the run's, "
     "from one part in as many as they miss updates (0: none)",
     "0", kValue, kIdentity,
     [](S text, Config& c) {
       return assign(parse_integer("stage-warmup", text, 0, kMany), c.pipeline.stage_warmup);
     },
     [](const Config& c) {
       return c.pipeline.stage_warmup == 0 ? "" : std::to_string(c.pipeline.stage_warmup);
     },
     true},
    {"sync-last",
     "steps at the end of a run in which an asynchronous pipeline flushes: no micro-batch misses "
     "an update",
     "0", kValue, kElsewhere,
     [](S text, Config& c) {
       return assign(parse_integer("sync-last", text, 0, kMany), c.pipeline.sync_last);
     },
     [](const Config& c) {
       return c.pipeline.sync_last > 0 ? std::to_string(c.pipeline.sync_last) : "";
     },
     true},
    {"isa", "instruction set: auto, scalar, avx2, avxvnni, avx512vnni, amx; changes no result",
     "auto", kValue, kElsewhere, [](S text, Config& c) { return assign(parse_isa(text), c.isa); },
     [](const Config& c) { return std::string(isa_name(c.isa)); }},
    {"memory-budget",
     "most memory to take (512MiB, 2GiB): values are computed again in the backward pass instead "
     "of kept until it fits; refused if it cannot; changes no result",
     "", kValue, kElsewhere,
     [](S text, Config& c) { return assign(parse_bytes(text), c.memory_budget); },
     [](const Config& c) {
       return c.memory_budget > 0 ? std::to_string(c.memory_budget) + "B" : std::string();
     }},
    {"recompute",
     "what the backward pass computes again: auto (what fits the memory budget in the least time), "
     "none, all (the least memory), or literal (the rule of the Recompute document); changes no "
     "result",
     "auto", kValue, kElsewhere,
     [](S text, Config& c) { return assign(parse_recompute_mode(text), c.recompute); },
     [](const Config& c) { return std::string(recompute_mode_name(c.recompute)); }},
    {"plan",
     "how the fastest plan within the memory budget is found: search (in about a second), or exact "
     "(proven, by the solver Cbc; minutes where more than some fifty values are computed, as in "
     "resnet20); changes no result",
     "search", kValue, kElsewhere,
     [](S text, Config& c) { return assign(parse_planner(text), c.planner); },
     [](const Config& c) { return std::string(planner_name(c.planner)); }},
    {"allow-inversion",
     "let batch norm's backward pass compute what it reads from its output where that saves memory "
     "or computing again; other results (the format's key inversion=yes)",
     "false", kSwitch, kElsewhere,
     [](S text, Config& c) { return parse_switch("allow-inversion", text, c.allow_inversion); },
     [](const Config& c) { return std::string(c.allow_inversion ? "true" : "false"); }},
    {"profile",
     "what this machine takes for what it does, for planning: a file of mantissa profile, or "
     "builtin (left out: the one that mantissa profile keeps, if it has been run); changes no "
     "result",
     "", kValue, kElsewhere, set_text<&Config::profile_name>,
     [](const Config& c) { return c.profile_name; }},
    {"checkpoint-every", "steps between checkpoints (0: once an epoch)", "0", kValue, kElsewhere,
     [](S text, Config& c) {
       return integer<&Config::checkpoint_every, 0, kMany>("checkpoint-every", text, c);
     },
     [](const Config& c) { return std::to_string(c.checkpoint_every); }},
    {"hash-every", "steps between hashes of the state, for verify (0: none; the last step always)",
     "100", kValue, kElsewhere,
     [](S text, Config& c) {
       return integer<&Config::hash_every, 0, kMany>("hash-every", text, c);
     },
     [](const Config& c) { return std::to_string(c.hash_every); }},
    {"statistics", "keep histograms of every tensor's bits, for mantissa statistics", "false",
     kSwitch, kElsewhere,
     [](S text, Config& c) { return parse_switch("statistics", text, c.statistics); },
     [](const Config& c) { return std::string(c.statistics ? "true" : "false"); }},
    {"out", "folder for the results", "", kValue, kElsewhere, set_text<&Config::out>,
     [](const Config& c) { return c.out; }},
    {"tensorboard", "folder for TensorBoard's event files; the run has one in it, called as --out",
     "", kValue, kElsewhere, set_text<&Config::tensorboard>,
     [](const Config& c) { return c.tensorboard; }},
    {"trace",
     "file for what the stages of a pipeline did when in the first steps, as Perfetto and Chrome "
     "show it; report shows OUT/trace.json",
     "", kValue, kElsewhere, set_text<&Config::trace>, [](const Config& c) { return c.trace; },
     true},
    {"trace-steps", "steps in that file", "20", kValue, kElsewhere,
     [](S text, Config& c) {
       return integer<&Config::trace_steps, 1, 100000>("trace-steps", text, c);
     },
     [](const Config& c) { return c.trace.empty() ? "" : std::to_string(c.trace_steps); }, true},
    {"resume", "go on from the last checkpoint in --out", "false", kSwitch, kElsewhere,
     [](S text, Config& c) { return parse_switch("resume", text, c.resume); },
     [](const Config& c) { return std::string(c.resume ? "true" : "false"); }},
    {"overwrite", "replace a run that --out already holds", "false", kSwitch, kElsewhere,
     [](S text, Config& c) { return parse_switch("overwrite", text, c.overwrite); },
     [](const Config& c) { return std::string(c.overwrite ? "true" : "false"); }},
};

}  // namespace

std::span<const Setting> training_settings() { return kSettings; }

}  // namespace mantissa

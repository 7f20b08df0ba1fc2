#include "train/run_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <thread>

#include "base/hash.h"
#include "base/real_text.h"
#include "base/sizes.h"
#include "models/network_json.h"
#include "train/derived_settings.h"
#include "train/imported_network.h"
#include "train/network.h"
#include "train/profile_file.h"

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

Status parse_switch(const std::string& name, const std::string& text, bool& field) {
  if (text != "true" && text != "false") {
    return invalid_input(name + ": '" + text + "' is neither true nor false");
  }
  field = text == "true";
  return {};
}

// "0.5" or "0.485,0.456,0.406".
Result<std::vector<double>> parse_reals(const std::string& text) {
  std::vector<double> numbers;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    MANTISSA_ASSIGN(const double number,
                    parse_real("a number", text.substr(begin, end - begin), 0, 1e6));
    numbers.push_back(number);
    begin = end + 1;
  }
  return numbers;
}

// A fraction below 1, or a whole number.
Status parse_validation(const std::string& text, Config& config) {
  MANTISSA_ASSIGN(const double value, parse_real("validation", text, 0, double{1 << 30}));
  if (value >= 1 && value != std::floor(value)) {
    return invalid_input("validation: '" + text +
                         "' is neither a fraction below 1 nor a number of examples");
  }
  config.validation = value;
  return {};
}

// A setting of an optimizer or of the plateau schedule as text, empty where it means nothing.
std::string of_optimizer(const Config& config, const char* name, double value) {
  return has_setting(config.optimizer, name) ? real_text(value) : "";
}
std::string of_plateau(const Config& config, std::string text) {
  return config.schedule == ScheduleKind::kPlateau ? std::move(text) : "";
}
// A setting of built-in networks as text, empty where a file describes the network.
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
     "resnet8", kValue, kIdentity,
     [](S text, Config& c) {
       c.model = text;
       return Status();
     },
     [](const Config& c) { return c.network ? std::string(kNetworkFile) : c.model; }},
    {"data",
     "data set: fashion-mnist, cifar-10, cifar-100, or a folder with IDX files, CIFAR's binary "
     "files or pictures",
     "fashion-mnist", kValue, kElsewhere,
     [](S text, Config& c) {
       c.data = text;
       return Status();
     },
     [](const Config& c) { return c.data; }},
    {"from",
     "start with trained weights: the folder of a run, a checkpoint, a model.safetensors, or "
     "NAME.onnx; without --model the network is that of the run or file (docs/networks.md, "
     "docs/onnx.md)",
     "", kValue, kIdentity,
     [](S text, Config& c) {
       c.from = text;
       return Status();
     },
     [](const Config& c) { return std::string(c.start ? kStartFile : ""); }, true},
    // The network and its weights hold what follows from these two.
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
     "", kValue, kElsewhere,
     [](S text, Config& c) {
       c.classifier = text;
       return Status();
     },
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
     "", kValue, kIdentity,
     [](S text, Config& c) {
       c.freeze = text;
       return Status();
     },
     [](const Config& c) { return c.freeze; }, true},
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
    {"classes", "outputs of the network, at least the classes of the data (0: as many)", "0",
     kValue, kIdentity,
     [](S text, Config& c) {
       return integer<&Config::classes, 0, kMaxClasses>("classes", text, c);
     },
     [](const Config& c) { return std::to_string(c.classes); }},
    {"format",
     "number format: bfp8, bfp8-text, dfp8 (dynamic fixed point), fp32 (the reference), or "
     "bfp:key=value,... such as bfp:g=8,gr=stochastic (w, a, ends, unsigned, linear, g, gw, gr, "
     "acc, "
     "shift, round, bias, block, exponents, inversion; mantissa info lists their values), or "
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
     [](S text, Config& c) { return real("learning-rate", text, 0, 1000, c.learning_rate); },
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
    {"pipeline",
     "when stages update their layers: flush (together: the bits of one stage), async (each as "
     "soon "
     "as it can), stash or 2bw (the same, with the weights of the forward pass in the backward "
     "pass)",
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
     "default of others), parameters or layers",
     "", kValue, kElsewhere,
     [](S text, Config& c) -> Status {
       MANTISSA_ASSIGN(c.pipeline.partition, pipeline::parse_balance(text));
       return {};
     },
     [](const Config& c) {
       return c.pipeline.partition ? std::string(pipeline::balance_name(*c.pipeline.partition))
                                   : "";
     },
     true},
    {"accumulate", "micro-batches of an update: another way to say the micro-batch size", "0",
     kValue, kElsewhere,
     [](S text, Config& c) {
       return assign(parse_integer("accumulate", text, 0, 1 << 20), c.pipeline.accumulate);
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
     "", kValue, kElsewhere,
     [](S text, Config& c) {
       c.profile_name = text;
       return Status();
     },
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
    {"out", "folder for the results", "", kValue, kElsewhere,
     [](S text, Config& c) {
       c.out = text;
       return Status();
     },
     [](const Config& c) { return c.out; }},
    {"tensorboard", "folder for TensorBoard's event files; the run has one in it, called as --out",
     "", kValue, kElsewhere,
     [](S text, Config& c) {
       c.tensorboard = text;
       return Status();
     },
     [](const Config& c) { return c.tensorboard; }},
    {"resume", "go on from the last checkpoint in --out", "false", kSwitch, kElsewhere,
     [](S text, Config& c) { return parse_switch("resume", text, c.resume); },
     [](const Config& c) { return std::string(c.resume ? "true" : "false"); }},
    {"overwrite", "replace a run that --out already holds", "false", kSwitch, kElsewhere,
     [](S text, Config& c) { return parse_switch("overwrite", text, c.overwrite); },
     [](const Config& c) { return std::string(c.overwrite ? "true" : "false"); }},
};

const Setting* find_setting(const std::string& name) {
  for (const Setting& setting : kSettings) {
    if (name == setting.name) return &setting;
  }
  return nullptr;
}

Status parse_setting(const std::string& name, const std::string& text, RunConfig& config) {
  const Setting* setting = find_setting(name);
  if (setting == nullptr) return invalid_input("unknown setting '" + name + "'");
  Status status = setting->parse(text, config);
  if (status.ok()) return status;
  // Some parsers know the setting's name, others only what is wrong with the text.
  std::string& message = status.error().message;
  if (!message.starts_with(name + ":")) message = name + ": " + message;
  return status;
}

Status derive(const std::map<std::string, std::string>& derived, RunConfig& config) {
  const auto known = derived_settings();
  for (const auto& [name, text] : derived) {
    const bool found = std::any_of(known.begin(), known.end(), [&name = name](const auto& setting) {
      return name == setting.name;
    });
    if (!found) return invalid_input("[derived]: '" + name + "' is not derived from settings");
  }
  for (const DerivedSetting& setting : known) {
    if (!setting.is_open(config)) continue;
    config.derived.emplace_back(setting.name);
    if (const auto before = derived.find(setting.name); before != derived.end()) {
      MANTISSA_RETURN_IF_ERROR(parse_setting(before->first, before->second, config));
    }
    if (setting.is_open(config)) setting.derive(config);
  }
  return {};
}

Status resolve_pipeline(RunConfig& config) {
  PipelineConfig& way = config.pipeline;
  if (way.accumulate > 0 && config.micro_batch_size * way.accumulate != config.batch_size) {
    return invalid_input("accumulate " + std::to_string(way.accumulate) + " and micro-batch-size " +
                         std::to_string(config.micro_batch_size) + " do not make batch-size " +
                         std::to_string(config.batch_size));
  }
  if (way.stages == 1) way.mode = pipeline::Mode::kFlush;
  // Estimated times are a machine's own: results must not depend on them.
  if (!way.partition) {
    way.partition =
        way.is_asynchronous() ? pipeline::Balance::kOperations : pipeline::Balance::kTime;
  }
  if (way.is_asynchronous() && way.partition == pipeline::Balance::kTime) {
    return invalid_input(
        "partition time: goes with --pipeline flush; in others the division "
        "decides results, which must not depend on a machine's times");
  }
  if (way.stages == 1) return {};
  if (config.clip_norm > 0) {
    return invalid_input("clip-norm: no stage of a pipeline knows the norm of all gradients");
  }
  if (config.recompute == RecomputeMode::kAll || config.recompute == RecomputeMode::kLiteral) {
    return invalid_input("recompute: stages of a pipeline keep all values");
  }
  return {};
}

Status resolve(RunConfig& config) {
  MANTISSA_ASSIGN(config.profile, find_profile(config.profile_name));
  if (config.batch_size % config.micro_batch_size != 0) {
    return invalid_input("micro-batch-size " + std::to_string(config.micro_batch_size) +
                         " does not divide batch-size " + std::to_string(config.batch_size) +
                         "; --micro-batch-size 0 takes the whole batch at once");
  }
  if (config.threads == 0) {
    config.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  }
  MANTISSA_RETURN_IF_ERROR(resolve_pipeline(config));
  if (config.label_smoothing > 0 && !ops::loss_of(config.loss).smooths) {
    return invalid_input("label-smoothing goes with --loss cross-entropy only, not with --loss " +
                         std::string(ops::loss_of(config.loss).name));
  }
  if (config.statistics && config.format.is_float()) {
    return invalid_input("statistics: there are no mantissas to count in fp32; leave it out");
  }
  if (config.allow_inversion && config.format.is_float()) {
    return invalid_input("allow-inversion: is for integer formats, fp32 keeps what it reads");
  }
  if (config.allow_inversion) {
    config.format.keeps_norm_inputs = false;
    MANTISSA_ASSIGN(config.format, parse_format(to_string(config.format)));  // may not go together
  }
  if (config.resume && config.overwrite) {
    return invalid_input("--resume and --overwrite exclude each other");
  }
  return {};
}

// Reads what --from names. Where no network is named, it is the run's.
Status take_start(const std::map<std::string, std::string>& settings, RunConfig& config) {
  if (config.from.empty()) return {};
  MANTISSA_ASSIGN(const TrainedFile trained, read_trained(config.from, config.import_options));
  config.start = starting_point(trained);
  config.start->options = config.import_options;
  if (trained.imported) {
    config.notes = trained.imported->notes;
    config.model_outputs = trained.imported->outputs;
  }
  if (settings.contains("model")) return {};
  MANTISSA_ASSIGN(TrainedNetwork found, network_of(trained));
  for (const auto& [name, text] : found.settings) {
    if (!settings.contains(name)) MANTISSA_RETURN_IF_ERROR(parse_setting(name, text, config));
  }
  config.network = std::move(found.network);
  config.network_file = is_network_file(config.model) ? config.model : trained.path.string();
  config.adapts_classes = true;
  return {};
}

Result<Graph> network_at(const std::string& path, RunConfig& config) {
  if (!is_onnx_file(path)) return read_network(path);
  MANTISSA_ASSIGN(onnx::ImportedNetwork imported, import_file(path, config.import_options));
  config.notes = std::move(imported.notes);
  config.model_outputs = std::move(imported.outputs);
  config.adapts_classes = true;
  return std::move(imported.graph);
}

// Reads the network if the settings name a file.
Status take_network(const std::map<std::string, std::string>& settings, RunConfig& config) {
  if (!config.network) {
    if (!is_network_file(config.model)) return {};
    config.network_file = config.model;
    MANTISSA_ASSIGN(config.network, network_at(config.network_file, config));
  }
  for (const auto& [name, text] : settings) {
    if (!is_of_built_in_networks(name)) continue;
    return invalid_input(name + ": is for built-in networks; " + config.network_file +
                         " says it itself: leave it out, or change the file");
  }
  const Result<ModelOptions> options = picture_options(*config.network);
  if (!options.ok()) return invalid_input(config.network_file + ": " + options.error().message);
  config.model = config.network->name;
  config.loss = options->loss;
  config.label_smoothing = options->label_smoothing;
  return {};
}

// A setting that was given although what it belongs to is not in use.
Status check_use(const std::string& name, const RunConfig& config) {
  if (is_optimizer_setting(name) && !has_setting(config.optimizer, name)) {
    std::string users;
    for (const Optimizer& row : optimizers()) {
      if (!has_setting(row.kind, name)) continue;
      users += (users.empty() ? "" : " and ") + std::string(row.name);
    }
    return invalid_input(name + ": is for " + users + "; the optimizer is " +
                         std::string(optimizer_name(config.optimizer)));
  }
  const bool imports =
      is_onnx_file(config.from) || (config.network && is_onnx_file(config.network_file));
  if (is_of_imports(name) && !imports) {
    return invalid_input(name + ": is for ONNX models, named by --from or --model");
  }
  if (name == "classifier" && !config.adapts_classes) {
    return invalid_input(name +
                         ": is for networks that --from brings, and for ONNX models; the others "
                         "have as many classes as they say");
  }
  const bool is_imported_start = is_onnx_file(config.from) && config.adapts_classes;
  if (name == "insert-batch-norm" && config.inserts_batch_norm && !is_imported_start) {
    return invalid_input(name + ": is for an ONNX model, named by --from alone");
  }
  if (name.starts_with("plateau-") && config.schedule != ScheduleKind::kPlateau) {
    return invalid_input(name + ": is for --lr-schedule plateau; the schedule is " +
                         std::string(schedule_name(config.schedule)));
  }
  return {};
}

}  // namespace

std::span<const Setting> training_settings() { return kSettings; }

bool is_network_file(std::string_view model) {
  return model.ends_with(".json") || model.ends_with(".onnx");
}

bool is_of_imports(std::string_view setting) {
  return setting == "input-mean" || setting == "input-std" || setting == "output";
}

bool is_setting_of_import(std::string_view setting) {
  return is_of_imports(setting) || setting == "classifier" || setting == "input-size" ||
         setting == "insert-batch-norm";
}

bool is_of_built_in_networks(std::string_view setting) {
  return setting == "width" || setting == "loss" || setting == "label-smoothing";
}

DataOptions data_options(const RunConfig& config) {
  return {.size = config.input_size, .classes = config.classes, .threads = config.threads};
}

Result<int64_t> parse_integer(const std::string& name, const std::string& text, int64_t low,
                              int64_t high) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || value < low || value > high) {
    return invalid_input(name + ": '" + text + "' is not a whole number from " +
                         std::to_string(low) + " to " + std::to_string(high));
  }
  return value;
}

Result<double> parse_real(const std::string& name, const std::string& text, double low,
                          double high) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || !(value >= low) || !(value <= high)) {
    return invalid_input(name + ": '" + text + "' is not a number from " + real_text(low) + " to " +
                         real_text(high));
  }
  return value;
}

Result<RunConfig> make_run_config(const std::map<std::string, std::string>& settings,
                                  const std::map<std::string, std::string>& derived) {
  RunConfig config;
  config.isa = best_isa();
  for (const auto& [name, text] : settings) {
    MANTISSA_RETURN_IF_ERROR(parse_setting(name, text, config));
  }
  config.import_options.height = config.input_size.height;
  config.import_options.width = config.input_size.width;
  MANTISSA_RETURN_IF_ERROR(take_start(settings, config));
  MANTISSA_RETURN_IF_ERROR(take_network(settings, config));
  for (const auto& [name, text] : settings) MANTISSA_RETURN_IF_ERROR(check_use(name, config));
  if (config.steps > 0 && settings.contains("epochs")) {
    return invalid_input("epochs and steps exclude each other: leave one of them out");
  }
  MANTISSA_RETURN_IF_ERROR(derive(derived, config));
  MANTISSA_RETURN_IF_ERROR(resolve(config));
  return config;
}

namespace {

// A setting as it stands in a run's identity: exponents may be predicted or exact, the bits are the
// same. A network from a file is its content, and so are the weights that a run starts from.
std::string identity_text(const Setting& setting, RunConfig config) {
  if (config.network && setting.name == std::string_view("model")) {
    return config.model + " (JSON " + network_sha256(*config.network) + ")";
  }
  if (config.start && setting.name == std::string_view("from")) {
    return "weights " + config.start->sha256;
  }
  // All that decides which updates a micro-batch misses.
  if (config.pipeline.is_asynchronous() && setting.name == std::string_view("pipeline")) {
    const PipelineConfig& way = config.pipeline;
    return std::string(pipeline::mode_name(way.mode)) + ", " + std::to_string(way.stages) +
           " stages by " + std::string(pipeline::balance_name(*way.partition)) + ", windows " +
           std::string(pipeline::windows_name(way.windows)) + ", drain-every " +
           std::to_string(way.drain_every);
  }
  config.format.predicted = true;
  return setting.print(config);
}

}  // namespace

std::string run_identity(const RunConfig& config, const std::string& data_sha256) {
  std::string text = "mantissa run 1\ndata=" + data_sha256 + "\n";
  for (const Setting& setting : kSettings) {
    if (!setting.in_identity) continue;
    const std::string value = identity_text(setting, config);
    if (setting.only_if_given && value.empty()) continue;
    text += setting.name + ("=" + value) + "\n";
  }
  return sha256_hex(text);
}

std::string differing_settings(const RunConfig& before, const RunConfig& now) {
  std::string text;
  for (const Setting& setting : kSettings) {
    if (!setting.in_identity) continue;
    const std::string was = identity_text(setting, before), is = identity_text(setting, now);
    if (was == is) continue;
    const auto shown = [](const std::string& value) { return value.empty() ? "none" : value; };
    text += (text.empty() ? "" : "; ") + std::string(setting.name) + " " + shown(was) + ", now " +
            shown(is);
  }
  return text;
}

}  // namespace mantissa

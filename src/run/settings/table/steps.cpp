// Training: its length, the optimiser, the loss, and what is random.
#include <cmath>

#include "run/learning_rate.h"
#include "run/settings/table/rows.h"
#include "tensor/table_numbers.h"

namespace mantissa {
namespace {

using namespace traits;

constexpr int64_t kMany = int64_t{1} << 40;

Result<std::vector<int64_t>> parse_widths(const std::string& text) {
  std::vector<int64_t> widths;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    MANTISSA_ASSIGN(const int64_t width,
                    parse_integer("hidden", text.substr(begin, end - begin), 1, 65536));
    widths.push_back(width);
    begin = end + 1;
  }
  return widths;
}

std::string widths_text(const std::vector<int64_t>& widths) {
  std::string text;
  for (const int64_t width : widths) text += (text.empty() ? "" : ",") + std::to_string(width);
  return text;
}

// One loss, or one for each output of an ONNX model, with commas between them.
Status parse_losses(S, S text, Config& config) {
  std::vector<ops::LossKind> losses;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    MANTISSA_ASSIGN(const ops::LossKind loss, ops::parse_loss(text.substr(begin, end - begin)));
    losses.push_back(loss);
    begin = end + 1;
  }
  config.loss = losses[0];
  if (losses.size() == 1) losses.clear();
  config.import_options.losses = std::move(losses);
  return {};
}

// Weights in units of 2^-10.
Result<std::vector<int64_t>> parse_positive_weights(const std::string& text) {
  std::vector<int64_t> weights;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    MANTISSA_ASSIGN(const double weight,
                    parse_real("positive-weights", text.substr(begin, end - begin), 0, 31));
    weights.push_back(std::llrint(std::ldexp(weight, -kWeightExponent)));
    begin = end + 1;
  }
  return weights;
}

std::string positive_weights_text(const std::vector<int64_t>& weights) {
  std::string text;
  for (const int64_t weight : weights) {
    text += (text.empty() ? "" : ",") +
            real_text(std::ldexp(static_cast<double>(weight), kWeightExponent));
  }
  return text;
}

Status parse_validation(S name, S text, Config& config) {
  MANTISSA_ASSIGN(const double value, parse_real(name, text, 0, double{1 << 30}));
  if (value >= 1 && value != std::floor(value)) {
    return invalid_input("validation: '" + text +
                         "' is neither a fraction below 1 nor a number of examples");
  }
  config.validation = value;
  return {};
}

Status parse_threshold(S name, S text, Config& config) {
  config.threshold.reset();
  if (text == "f1") return {};
  MANTISSA_ASSIGN(config.threshold, parse_real(name, text, 0, 1));
  if (*config.threshold > 0 && *config.threshold < 1) return {};
  return invalid_input("threshold: '" + text + "' is neither f1 nor a number between 0 and 1");
}

// A setting of an optimizer or of the plateau schedule as text, empty if it means nothing.
std::string of_optimizer(const Config& config, const char* name, double value) {
  return has_setting(config.optimizer, name) ? real_text(value) : "";
}
std::string of_plateau(const Config& config, std::string text) {
  return config.schedule == ScheduleKind::kPlateau ? std::move(text) : "";
}
const std::string kOptimizerHelp = optimizer_names();

const Setting kStepRows[] = {
    {"format",
     "number format: bfp8, bfp8-text, dfp8 (dynamic fixed point), fp32 (the reference), or "
     "bfp:key=value,... such as bfp:g=8,gr=stochastic (w, a, ends, unsigned, linear, g, gw, gr, "
     "acc, shift, round, bias, block, blocks, exponents, inversion, ties; mantissa info lists "
     "their "
     "values), or dfp:key=value,... such as dfp:g=8 (also r_max, warmup, threshold, every, start, "
     "decide, pretraining)",
     "bfp8", parse_by<parse_format, &Config::format>, kIdentity | kSteps | kInBench,
     [](const Config& c) { return to_string(c.format); }},
    {"epochs", "passes over the training examples (0: none, the network is tested as it starts)",
     "3", parse_whole<0, 1000000, &Config::epochs>, kIdentity | kInPlan | kInFile,
     print_whole<&Config::epochs>},
    {"steps", "steps in all, instead of whole epochs (0: by epochs)", "0",
     parse_whole<0, kMany, &Config::steps>, kIdentity | kRun, print_whole<&Config::steps>},
    {"batch-size", "examples per update", "128", parse_whole<1, 1 << 20, &Config::batch_size>,
     kIdentity | kSteps | kInBench | kOfPredictions, print_whole<&Config::batch_size>},
    {"micro-batch-size", "examples computed at once; divides the batch (0: the batch)", "0",
     parse_whole<0, 1 << 20, &Config::micro_batch_size>, kIdentity | kSteps | kInBench,
     print_whole<&Config::micro_batch_size>},
    {"optimizer", kOptimizerHelp.c_str(), "momentum", parse_by<parse_optimizer, &Config::optimizer>,
     kIdentity | kSteps | kInBench, print_by<optimizer_name, &Config::optimizer>},
    {"momentum", "factor of momentum and nesterov", "0.9",
     [](S name, S text, Config& c) {
       return assign(parse_real(name, text, 0, 0.9999), c.momentum);
     },
     kIdentity | kSteps, [](const Config& c) { return of_optimizer(c, "momentum", c.momentum); }},
    {"beta1", "adam, adamw: decay of the mean gradient", "0.9",
     [](S name, S text, Config& c) { return assign(parse_real(name, text, 0, 0.9999), c.beta1); },
     kIdentity | kSteps, [](const Config& c) { return of_optimizer(c, "beta1", c.beta1); }},
    {"beta2", "adam, adamw: decay of the mean square", "0.999",
     [](S name, S text, Config& c) { return assign(parse_real(name, text, 0, 0.99999), c.beta2); },
     kIdentity | kSteps, [](const Config& c) { return of_optimizer(c, "beta2", c.beta2); }},
    {"epsilon", "adam, adamw: added to the root of the mean square", "1e-08",
     [](S name, S text, Config& c) { return assign(parse_real(name, text, 0, 1), c.epsilon); },
     kIdentity | kSteps, [](const Config& c) { return of_optimizer(c, "epsilon", c.epsilon); }},
    {"learning-rate", "largest learning rate (0: the model's default; with adam and adamw 0.001)",
     "0",
     [](S name, S text, Config& c) -> Status {
       MANTISSA_RETURN_IF_ERROR(
           assign(parse_real(name, text, 0, kLargestLearningRate), c.learning_rate));
       if (is_learning_rate(c.learning_rate)) return {};
       return invalid_input("learning-rate: '" + text + "' is too small to change a weight");
     },
     kIdentity | kSteps, print_real<&Config::learning_rate>},
    {"lr-schedule", "constant, step, cosine, one-cycle or plateau", "one-cycle",
     parse_by<parse_schedule, &Config::schedule>, kIdentity | kSteps,
     print_by<schedule_name, &Config::schedule>},
    {"warmup", "part of the steps over which the learning rate rises", "0.2",
     [](S name, S text, Config& c) { return assign(parse_real(name, text, 0, 1), c.warmup); },
     kIdentity | kSteps, print_real<&Config::warmup>},
    {"plateau-factor",
     "plateau: what the learning rate is multiplied by when the loss stops falling", "0.1",
     [](S name, S text, Config& c) {
       return assign(parse_real(name, text, 0.001, 0.999), c.plateau_factor);
     },
     kIdentity | kSteps,
     [](const Config& c) { return of_plateau(c, real_text(c.plateau_factor)); }},
    {"plateau-patience", "plateau: epochs in a row without a lower loss", "2",
     parse_whole<1, 1000000, &Config::plateau_patience>, kIdentity | kSteps,
     [](const Config& c) { return of_plateau(c, std::to_string(c.plateau_patience)); }},
    {"weight-decay",
     "decay of weights, not of biases and batch norm (left out: 0.0005, with adam 0, with adamw "
     "0.01); part of the gradient, but adamw decays apart from it",
     "",
     [](S name, S text, Config& c) { return assign(parse_real(name, text, 0, 1), c.weight_decay); },
     kIdentity | kSteps, print_real<&Config::weight_decay>},
    {"loss",
     "of classes: cross-entropy, mse (the mean squared error against one-hot targets), sigmoid "
     "(labels that do not exclude one another, or one logit for two classes), or ordinal (classes "
     "in an order); of classes of pixels or positions also dice, and dice-cross-entropy, the sum of "
     "both; of numbers: mse (also without --loss), l1 or huber (docs/losses.md); of several outputs "
     "of an ONNX model one for all, or one for each, with commas between them",
     "cross-entropy", parse_losses,
     kIdentity | kInPlan | kInBench | kInInfo | kInFile | kInImport | kOfBuiltIn | kOfSource,
     [](const Config& c) { return of_built_in(c, ops::loss_of(c.loss).name); }},
    {"loss-weights",
     "of several outputs: the factors of their losses in the sum, from 1/1024 to 31.999 in steps of "
     "1/1024: kind=1,age=0.5 (left out: 1 each, or as the network's file says)",
     "", parse_text<&Config::loss_weights>, kIdentity | kIfGiven | kRun,
     print_text<&Config::loss_weights>},
    {"label-smoothing",
     "part of each target that all classes share, or with --loss sigmoid both values of a label "
     "(0.1 is usual)",
     "0",
     [](S name, S text, Config& c) {
       return assign(parse_real(name, text, 0, 0.99), c.label_smoothing);
     },
     kIdentity | kInPlan | kInBench | kInInfo | kInFile | kOfBuiltIn | kOfSource,
     [](const Config& c) { return of_built_in(c, real_text(c.label_smoothing)); }},
    {"focal",
     "--loss sigmoid: the power of what a probability misses that its loss is multiplied by (0: "
     "none; 2 is usual)",
     "0",
     [](S name, S text, Config& c) {
       return assign(parse_real(name, text, 0, ops::kMostFocal), c.focal);
     },
     kIdentity | kIfGiven | kInPlan | kInFile | kOfBuiltIn | kOfSource,
     [](const Config& c) { return c.focal > 0 ? of_built_in(c, real_text(c.focal)) : ""; }},
    {"positive-weights",
     "--loss sigmoid: weights of targets of 1 in the loss, from 0 to 31: one, or one for each "
     "output, 1,2,0.5",
     "", parse_by<parse_positive_weights, &Config::positive_weights>,
     kIdentity | kIfGiven | kInPlan | kInFile | kOfBuiltIn | kOfSource,
     [](const Config& c) { return of_built_in(c, positive_weights_text(c.positive_weights)); }},
    {"huber-delta",
     "--loss huber: the error, in standard deviations of the target, from which on the loss grows "
     "as a line",
     "1",
     [](S name, S text, Config& c) {
       return assign(parse_real(name, text, ops::kLeastDelta, ops::kMostDelta), c.huber_delta);
     },
     kIdentity | kIfGiven | kInPlan | kInFile | kOfBuiltIn | kOfSource,
     [](const Config& c) {
       return c.huber_delta == 1 ? "" : of_built_in(c, real_text(c.huber_delta));
     }},
    {"teacher",
     "a trained network, the folder of a run or a model.safetensors, whose probabilities are "
     "learned beside the labels (docs/losses.md)",
     "", parse_text<&Config::teacher>, kIdentity | kIfGiven | kRun, print_text<&Config::teacher>},
    {"teacher-weight", "part of the loss that is against the teacher, from 0 to 1", "0.5",
     [](S name, S text, Config& c) {
       return assign(parse_real(name, text, 0, 1), c.teacher_weight);
     },
     kIdentity | kIfGiven | kRun,
     [](const Config& c) { return c.teacher.empty() ? "" : real_text(c.teacher_weight); }},
    {"temperature",
     "by which the logits of teacher and network are divided in that part, from 1 to 100", "1",
     [](S name, S text, Config& c) {
       return assign(parse_real(name, text, 1, ops::kMostTemperature), c.temperature);
     },
     kIdentity | kIfGiven | kRun,
     [](const Config& c) { return c.teacher.empty() ? "" : real_text(c.temperature); }},
    {"class-weights",
     "weights of classes in the loss: balanced (each class counts as much as any other), or a "
     "number for each class, 1,2,0.5",
     "none", parse_by<parse_class_weights, &Config::class_weights>, kIdentity | kIfGiven | kSteps,
     [](const Config& c) { return c.class_weights.any() ? to_string(c.class_weights) : ""; }},
    {"clip-norm", "shrink gradients whose norm over all parameters is larger (0: never)", "0",
     [](S name, S text, Config& c) { return assign(parse_real(name, text, 0, 1e9), c.clip_norm); },
     kIdentity | kSteps | kInBench, print_real<&Config::clip_norm>},
    {"validation",
     "training examples held back to measure each epoch: a fraction (0.1) or a number (5000); not "
     "where a folder val beside train has them",
     "0", parse_validation, kIdentity | kRun, print_real<&Config::validation>},
    {"threshold",
     "probability above which a label, or the second of two classes, is guessed: a number between 0 "
     "and 1, or f1: the one with the best F1 on the validation examples",
     "0.5", parse_threshold, kIdentity | kIfGiven | kRun,
     [](const Config& c) {
       return c.threshold == 0.5 ? "" : c.threshold ? real_text(*c.threshold) : std::string("f1");
     }},
    {"early-stop",
     "stop after this many epochs in a row without a lower loss, of the examples held back or, "
     "without any, of training, and keep the weights of the best epoch (0: never)",
     "0", parse_whole<0, 1000000, &Config::early_stop>, kIdentity | kRun,
     print_whole<&Config::early_stop>},
    {"augment", "none, or of flip, shift, crop, jitter, cutout: shift=2,flip (docs/data.md)",
     "none", parse_by<parse_augmentation, &Config::augmentation>,
     kIdentity | kRun | kInBench | kForPictures,
     [](const Config& c) { return to_string(c.augmentation); }},
    {"width", "multiplies the channels of every layer but the last", "1",
     [](S name, S text, Config& c) {
       return assign(parse_real(name, text, 1.0 / 64, 64), c.width);
     },
     kIdentity | kInPlan | kInBench | kInInfo | kInFile | kOfBuiltIn | kOfSource,
     [](const Config& c) { return of_built_in(c, real_text(c.width)); }},
    {"hidden", "widths of mlp's hidden layers, with commas between them (200,100,50)", "",
     parse_by<parse_widths, &Config::hidden>,
     kIdentity | kIfGiven | kRun | kInInfo | kOfBuiltIn | kOfSource,
     [](const Config& c) { return of_built_in(c, widths_text(c.hidden)); }},
    {"seed", "of initial weights, order, augmentation and stochastic rounding", "1",
     parse_whole<0, INT64_MAX, &Config::seed>, kIdentity | kSteps | kInBench | kOfPredictions,
     print_whole<&Config::seed>},
    {"threads", "threads to compute with (0: one per core); changes no result", "0",
     parse_whole<0, 256, &Config::threads>, kMachine | kInBench | kOfPredictions,
     print_whole<&Config::threads>},
};

}  // namespace

std::span<const Setting> step_rows() { return kStepRows; }

}  // namespace mantissa

// Built-in networks, with the losses of docs/losses.md by name.
#include <cmath>
#include <string>
#include <utility>

#include "api/public_values.h"
#include "mantissa/network.h"
#include "models/models.h"
#include "networks/network.h"
#include "ops/loss.h"
#include "tensor/table_numbers.h"

namespace mantissa {

Result<WholeList> positive_weights_of(const std::vector<double>& weights) {
  WholeList whole;
  for (const double weight : weights) {
    if (!(weight >= 0 && weight <= 31)) {
      return invalid_input("positive weights are numbers from 0 to 31");
    }
    whole.push_back(std::llrint(std::ldexp(weight, -kWeightExponent)));
  }
  return whole;
}

namespace {

Result<ops::LossKind> loss_kind_of(const BuiltInOptions& options) {
  if (options.loss.empty()) {
    return options.squared_error ? ops::LossKind::kSquaredError : ops::LossKind::kCrossEntropy;
  }
  if (options.loss == ops::loss_of(ops::LossKind::kRegression).name) {
    return ops::LossKind::kRegression;
  }
  MANTISSA_ASSIGN(const ops::LossKind kind, ops::parse_loss(options.loss));
  const bool is_sigmoid = kind == ops::LossKind::kSigmoids || kind == ops::LossKind::kOrdinal;
  const auto only_for = [&](const char* what, const char* loss) {
    return invalid_input(std::string(what) + " goes with the loss " + loss + " only, not with " +
                         options.loss);
  };
  if (options.focal > 0 && !is_sigmoid) return only_for("focal", "sigmoid");
  if (!options.positive_weights.empty() && !is_sigmoid) {
    return only_for("positive_weights", "sigmoid");
  }
  if (options.by_output && kind != ops::LossKind::kSigmoids) {
    return only_for("by_output", "sigmoid");
  }
  if (options.huber_delta != 1 && kind != ops::LossKind::kHuber) {
    return only_for("huber_delta", "huber");
  }
  if (options.label_smoothing > 0 && !ops::loss_of(kind).smooths) {
    return only_for("label_smoothing", "cross-entropy and sigmoid");
  }
  return kind;
}

}  // namespace

Outcome<Network> Network::built_in(const std::string& name, const BuiltInOptions& options) {
  if (options.pixels.size() != 3) {
    return invalid_input("built-in networks take pictures of {height, width, channels}");
  }
  MANTISSA_ASSIGN(const ops::LossKind kind, loss_kind_of(options));
  MANTISSA_ASSIGN(const WholeList positive, positive_weights_of(options.positive_weights));
  const bool is_sigmoid = kind == ops::LossKind::kSigmoids;
  MANTISSA_ASSIGN(
      auto graph,
      build_model(name, {.height = options.pixels[0],
                         .width = options.pixels[1],
                         .channels = options.pixels[2],
                         .classes = options.classes,
                         .one_logit = is_sigmoid && options.classes == 2 && !options.by_output,
                         .has_labels = options.by_output,
                         .width_multiplier = options.width,
                         .channel_means = {},
                         .loss = kind,
                         .label_smoothing = options.label_smoothing,
                         .focal = options.focal,
                         .positive_weights = positive,
                         .huber_delta = options.huber_delta}));
  leave_out_means(graph);
  return network_of_graph(std::move(graph));
}

}  // namespace mantissa

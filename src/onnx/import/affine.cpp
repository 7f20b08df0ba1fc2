// Constant factors and summands that a layer takes in.
#include <algorithm>
#include <cmath>

#include "onnx/import/context.h"
#include "ops/norms/batch_norm.h"

namespace mantissa::onnx {

bool Affine::has_summands() const {
  return std::any_of(summands.begin(), summands.end(), [](double s) { return s != 0; });
}

namespace {

// Takes one node in, if it is a factor or summand per channel.
bool absorb(const ImportContext& context, const NodeData& node, const std::string& value,
            const Channels& channels, bool takes_factors, Affine& affine) {
  const std::string& op = node.op_type;
  if (op != "Add" && op != "Sub" && (!takes_factors || (op != "Mul" && op != "Div"))) return false;
  if (node.inputs.size() != 2) return false;
  const bool is_first = node.inputs[0] == value;
  const TensorData* tensor = constant_of(context, node, is_first ? 1 : 0);
  if (tensor == nullptr || (op == "Div" && !is_first)) return false;
  const auto numbers = per_channel(*tensor, channels);
  if (!numbers) return false;
  if (op == "Add") affine.last_summand = tensor;
  affine.has_parameters |= is_parameter(context, tensor);
  for (size_t c = 0; c < numbers->size(); ++c) {
    const double number = (*numbers)[c];
    double &factor = affine.factors[c], &summand = affine.summands[c];
    if (op == "Add") summand += number;
    if (op == "Mul") factor *= number, summand *= number;
    if (op == "Div") factor /= number, summand /= number;
    if (op == "Sub" && is_first) summand -= number;
    if (op == "Sub" && !is_first) factor = -factor, summand = number - summand;
  }
  return true;
}

// The node of that operator that reads the value and is its only reader; null: there is none.
const NodeData* only_reader(const ImportContext& context, const std::string& value,
                            std::string_view op_type) {
  const auto readers = context.readers.find(value);
  const bool is_it = !context.results.contains(value) && readers != context.readers.end() &&
                     readers->second.size() == 1 && readers->second[0]->op_type == op_type &&
                     !readers->second[0]->inputs.empty() && readers->second[0]->inputs[0] == value;
  return is_it ? readers->second[0] : nullptr;
}

// Our HardSigmoid is clip(x / 6 + 1/2, 0, 1). Others are ours with another factor and summand
// before it.
void fit_hard_sigmoid(ImportContext& context, Affine& affine) {
  const NodeData* found = only_reader(context, affine.result, "HardSigmoid");
  if (found == nullptr) return;
  const NodeData& node = *found;
  const HardSigmoid hard = hard_sigmoid_of(node);
  if (hard.is_ours()) return;
  for (double& factor : affine.factors) factor *= 6 * hard.alpha;
  for (double& summand : affine.summands) {
    summand = 6 * hard.alpha * summand + 6 * (hard.beta - 0.5);
  }
  context.fitted.insert(&node);
}

// Ours adds 1e-5 to variances. If the model divides by the root of less, the layer before scales
// the channel by a power of two, up to the loudest channel. The norm takes that out again.
void fit_batch_norm(ImportContext& context, Affine& affine) {
  const NodeData* node = only_reader(context, affine.result, "BatchNormalization");
  const TensorData* variances = node == nullptr ? nullptr : constant_of(context, *node, 4);
  if (variances == nullptr) return;
  auto sums = numbers_of(*variances);
  if (!sums.ok() || sums->size() != affine.factors.size()) return;
  for (double& sum : *sums) sum += real_of(*node, "epsilon", 1e-5);
  constexpr double kQuietest = 0x1p-8, kBelow = ops::kBatchNormEpsilon * (1 - 0x1p-10);
  constexpr int kMostShift = 30;
  const double loudest = std::max(kQuietest, *std::max_element(sums->begin(), sums->end()));
  std::vector<double> factors(sums->size(), 1);
  for (size_t c = 0; c < factors.size(); ++c) {
    if (!((*sums)[c] > 0 && (*sums)[c] < kBelow)) continue;
    const int shift = std::ilogb(std::sqrt(loudest / (*sums)[c]));
    factors[c] = std::ldexp(1.0, std::clamp(shift, 0, kMostShift));
    affine.factors[c] *= factors[c];
    affine.summands[c] *= factors[c];
  }
  context.norm_factors[node] = std::move(factors);
}

}  // namespace

Affine absorb_affine(ImportContext& context, const std::string& value, const Channels& channels,
                     bool takes_factors) {
  Affine affine{std::vector<double>(static_cast<size_t>(channels.count), 1.0),
                std::vector<double>(static_cast<size_t>(channels.count), 0.0), value};
  while (!context.results.contains(affine.result)) {
    const auto readers = context.readers.find(affine.result);
    if (readers == context.readers.end() || readers->second.size() != 1) break;
    const NodeData& node = *readers->second[0];
    if (!absorb(context, node, affine.result, channels, takes_factors, affine)) break;
    context.done.insert(&node);
    affine.result = node.outputs[0];
  }
  if (!takes_factors) return affine;
  fit_hard_sigmoid(context, affine);
  fit_batch_norm(context, affine);
  return affine;
}

void take_in(const Affine& affine, std::vector<double>& weights, std::vector<double>& bias) {
  const auto channels = affine.factors.size();
  const size_t depth = weights.size() / channels;
  for (size_t o = 0; o < channels; ++o) {
    for (size_t i = 0; i < depth; ++i) weights[o * depth + i] *= affine.factors[o];
    if (!bias.empty()) bias[o] = bias[o] * affine.factors[o] + affine.summands[o];
  }
  if (bias.empty() && affine.has_summands()) bias = affine.summands;
}

}  // namespace mantissa::onnx

#include "onnx/import.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "formats/safetensors_header.h"
#include "models/models.h"
#include "onnx/evaluate/evaluate.h"
#include "onnx/import_operators.h"
#include "onnx/import_rewrite.h"
#include "ops/loss.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

constexpr int kFractionBits = 16;  // of means
constexpr double kLargestPixel = 255;
constexpr int64_t kMostPixelChannels = 4;

// What a person trained on ImageNet assumes.
constexpr double kImageNetMean[] = {0.485, 0.456, 0.406};
constexpr double kImageNetDeviation[] = {0.229, 0.224, 0.225};

std::string text_of(double number) {
  std::string text = std::to_string(number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string list_text(const std::vector<double>& numbers) {
  std::string text;
  for (const double number : numbers) text += (text.empty() ? "" : ", ") + text_of(number);
  return text;
}

// Names are arbitrary bytes: as text of one line.
std::string readable(const std::string& name) {
  const std::string quoted = readable_name(name);
  return quoted.substr(1, quoted.size() - 2);
}

// Node "name" (Op), or its number where it has no name.
std::string subject(const GraphData& graph, const NodeData& node) {
  const std::string name = node.name.empty()
                               ? "number " + std::to_string(&node - graph.nodes.data())
                               : "'" + readable(node.name) + "'";
  return "node " + name + " (" + readable(node.op_type) + ")";
}

class Import {
 public:
  Import(const ModelData& model, const ImportOptions& options)
      : options_(options), model_(model), graph_(model_.graph) {}

  Result<ImportedNetwork> run() {
    // Before folding, which gives weights that share numbers one name.
    lift_constants(graph_);
    take_sequences_apart(graph_);
    choose_size();
    const Shapes shapes = input_shapes(model_);
    MANTISSA_ASSIGN(model_, fold_constants(std::move(model_), shapes));
    join_spelled_out_functions(graph_);
    for (const TensorData& tensor : graph_.initialisers) context_.constants[tensor.name] = &tensor;
    MANTISSA_RETURN_IF_ERROR(find_output());
    find_needed();
    context_.model = &graph_;
    MANTISSA_RETURN_IF_ERROR(add_input());
    for (const NodeData& node : graph_.nodes) {
      if (needed_.contains(&node)) import_node(node);
    }
    if (!problems_.empty()) return unsupported();
    return finish();
  }

 private:
  // Gives an input of pictures the wanted size where the model leaves it open, and the batch a size
  // of 1, so that all shapes are known.
  void choose_size() {
    const std::vector<const ValueData*> given = inputs_of(graph_);
    if (given.size() != 1 || given[0]->dims.size() != 4) return;
    std::vector<Dimension>& dims = graph_.inputs[given[0] - graph_.inputs.data()].dims;
    const bool is_channels_last = !is_pixel_count(dims[1].size) && is_pixel_count(dims[3].size);
    const size_t first = is_channels_last ? 1 : 2;
    const auto choose = [](Dimension& dimension, int64_t wanted) {
      if (dimension.size < 1 && wanted > 0) dimension = {wanted, ""};
    };
    choose(dims[0], 1);
    choose(dims[first], options_.height);
    choose(dims[first + 1], options_.width);
  }
  static bool is_pixel_count(int64_t channels) {
    return channels == 1 || channels == 3 || channels == kMostPixelChannels;
  }

  Status find_output() {
    if (graph_.outputs.empty()) return invalid_input("the model has no output");
    std::string names;
    for (const ValueData& output : graph_.outputs) {
      outputs_.push_back(output.name);
      names += (names.empty() ? "" : ", ") + readable(output.name);
      if (options_.output.empty() || output.name == options_.output) {
        if (result_.empty()) result_ = output.name;
      }
    }
    if (result_.empty()) {
      return invalid_input("the model has no output '" + options_.output + "'; it has " + names);
    }
    if (graph_.outputs.size() > 1) {
      note("of the outputs " + names + " the network has '" + readable(result_) + "'");
    }
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      const bool makes = !node->outputs.empty() && node->outputs[0] == result_;
      if (!makes || node->inputs.empty()) continue;
      if (node->op_type != "Softmax" && node->op_type != "LogSoftmax") continue;
      note("the " + node->op_type + " at the end is left out: it belongs to the loss");
      result_ = node->inputs[0];
    }
    context_.results.insert(result_);
    return {};
  }

  // Nodes that the output depends on, and who reads their values.
  void find_needed() {
    std::set<std::string> wanted = {result_};
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      const bool is_wanted =
          std::any_of(node->outputs.begin(), node->outputs.end(),
                      [&](const std::string& output) { return wanted.contains(output); });
      if (!is_wanted) continue;
      needed_.insert(&*node);
      for (const std::string& input : node->inputs) {
        wanted.insert(input);
        context_.readers[input].push_back(&*node);
      }
    }
    for (const ValueData& input : graph_.inputs) {
      if (context_.constants.contains(input.name)) continue;
      if (wanted.contains(input.name)) inputs_.push_back(&input);
    }
  }

  Status add_input() {
    if (inputs_.size() != 1) {
      return invalid_input("the model's output depends on " + std::to_string(inputs_.size()) +
                           " inputs; one input of pictures, [N, C, H, W], is possible");
    }
    const ValueData& input = *inputs_[0];
    std::string dims;
    bool is_known = input.dims.size() == 4;
    for (size_t i = 0; i < input.dims.size(); ++i) {
      const int64_t size = input.dims[i].size;
      dims += (dims.empty() ? "" : ", ") + (size < 0 ? "?" : std::to_string(size));
      is_known = is_known && (i == 0 || (size > 0 && size <= INT32_MAX));
    }
    const auto is_count = [&](size_t i) { return input.dims[i].size <= kMostPixelChannels; };
    if (!is_known || (!is_count(1) && !is_count(3))) {
      return invalid_input("the input '" + readable(input.name) + "' is [" + dims +
                           "]; [N, C, H, W] with up to 4 channels is possible, its size fixed or "
                           "said by --input-size");
    }
    context_.batch = input.dims[0].size;
    const auto at = [&](size_t i) { return input.dims[i].size; };
    const bool first = is_count(1);  // else TensorFlow's order
    return first
               ? add_pixels(input, at(2), at(3), at(1), Layout::image(at(2), at(3), at(1)))
               : add_pixels(input, at(1), at(2), at(3), Layout::channels_last(at(1), at(2), at(3)));
  }

  Status add_pixels(const ValueData& input, int64_t height, int64_t width, int64_t channels,
                    const Layout& layout) {
    MANTISSA_RETURN_IF_ERROR(choose_normalisation(channels));
    context_.builder = GraphBuilder(new_name(context_, graph_name()), {height, width, channels});
    context_.names = {"pixels", "labels", "loss", "input"};
    WholeList means;
    Imported pixels{-1, layout, {}};
    for (int64_t c = 0; c < channels; ++c) {
      means.push_back(std::llround(std::ldexp(kLargestPixel * mean_[c], kFractionBits)));
      pixels.scale.push_back(64 / (kLargestPixel * deviation_[c]));
    }
    MANTISSA_ASSIGN(
        pixels.value,
        add_node(context_, ops::kNormaliseInput, new_name(context_, "normalise"),
                 {context_.builder.input()}, {{"means", means}, {"fraction_bits", kFractionBits}}));
    define(context_, input.name, std::move(pixels));
    return {};
  }

  std::string graph_name() const { return graph_.name.empty() ? "imported" : graph_.name; }

  Status choose_normalisation(int64_t channels) {
    const bool is_colour = channels == 3;
    const auto choose = [&](const std::vector<double>& given, std::span<const double> colour,
                            double otherwise, const char* what, std::vector<double>& to) -> Status {
      to = given;
      if (given.empty() && is_colour) to.assign(colour.begin(), colour.end());
      if (given.empty() && !is_colour) to.assign(static_cast<size_t>(channels), otherwise);
      if (given.size() == 1) to.assign(static_cast<size_t>(channels), given[0]);
      if (std::ssize(to) == channels) return {};
      return invalid_input(std::string(what) + " wants one number, or one for each of " +
                           std::to_string(channels) + " channels");
    };
    MANTISSA_RETURN_IF_ERROR(
        choose(options_.mean, kImageNetMean, 0, "the mean of the input", mean_));
    MANTISSA_RETURN_IF_ERROR(choose(options_.deviation, kImageNetDeviation, 1,
                                    "the standard deviation of the input", deviation_));
    for (int64_t c = 0; c < channels; ++c) {
      if (mean_[c] >= 0 && mean_[c] <= 1 && deviation_[c] > 1e-6 && deviation_[c] < 1e6) continue;
      return invalid_input(
          "the mean of the input wants 0 to 1, its standard deviation more than 0");
    }
    const bool assumed = options_.mean.empty() || options_.deviation.empty();
    note("pixels enter the model as (pixel / 255 - mean) / std, with mean " + list_text(mean_) +
         " and std " + list_text(deviation_) +
         (assumed ? (is_colour ? ", ImageNet's: assumed" : ": assumed") : ""));
    return {};
  }

  void import_node(const NodeData& node) {
    if (context_.done.contains(&node)) return;
    const ImportRow* row =
        node.domain.empty() || node.domain == "ai.onnx" ? find_row(node.op_type) : nullptr;
    if (row == nullptr) return refuse(node, reason_against(node.op_type));
    // The reason of an earlier node stands for those that read it.
    const bool reads_unknown =
        std::any_of(node.inputs.begin(), node.inputs.end(),
                    [&](const std::string& input) { return context_.unknown.contains(input); });
    if (reads_unknown) return leave(node);
    const Status status = row->function(context_, node);
    if (!status.ok()) refuse(node, status.error().message);
  }

  void refuse(const NodeData& node, const std::string& reason) {
    problems_.push_back(subject(graph_, node) + ": " + reason);
    leave(node);
  }
  void leave(const NodeData& node) {
    context_.unknown.insert(node.outputs.begin(), node.outputs.end());
  }

  Error unsupported() const {
    std::string text = std::to_string(problems_.size()) +
                       (problems_.size() == 1 ? " node" : " nodes") + " cannot be imported: ";
    for (size_t i = 0; i < problems_.size(); ++i) text += (i > 0 ? "; " : "") + problems_[i];
    return invalid_input(text);
  }

  // The loss reads the wide sums of a layer. Behind something else, such as the average of
  // SqueezeNet's last convolution, stands a linear layer that changes nothing yet.
  Result<int> made_by_layer(int value, int64_t count) {
    const Graph& graph = context_.builder.graph();
    int producer = graph.values[value].producer;
    while (producer >= 0 && graph.nodes[producer].op->traits.view) {
      producer = graph.values[graph.nodes[producer].inputs[0]].producer;
    }
    if (producer >= 0 && graph.nodes[producer].op->traits.may_leave_wide) return value;
    std::vector<double> identity(static_cast<size_t>(count * count), 0.0);
    for (int64_t i = 0; i < count; ++i) identity[i * count + i] = 1;
    note("a linear layer, 'classifier', stands behind the output, which no layer makes");
    return add_node(context_, ops::kLinear, new_name(context_, "classifier"), {value},
                    {{"channels", count}, {"bias", 0}, {"classifier", 1}}, {std::move(identity)});
  }

  Result<ImportedNetwork> finish() {
    const auto found = context_.values.find(result_);
    if (found == context_.values.end()) {
      return invalid_input("nothing makes the output '" + readable(result_) + "'");
    }
    Imported logits = found->second;
    const int64_t count = logits.layout.count();
    if (!logits.layout.reshape(std::vector<int64_t>{count})) {
      return invalid_input("the output '" + readable(result_) + "' is no vector");
    }
    MANTISSA_ASSIGN(const Vector vector, vector_of(context_, logits));
    if (!vector.places.empty() || count < 2 || count > kMostClasses) {
      return invalid_input("the output '" + readable(result_) + "' has " + std::to_string(count) +
                           " numbers an example; a network of pictures has 2 to " +
                           std::to_string(kMostClasses) + " classes");
    }
    MANTISSA_ASSIGN(const int value, made_by_layer(vector.value, count));
    MANTISSA_ASSIGN(Graph graph, context_.builder.finish(value));
    MANTISSA_ASSIGN(graph, ops::with_loss(std::move(graph), ops::LossKind::kCrossEntropy, 0));
    return ImportedNetwork{std::move(graph), std::move(context_.parameters),
                           std::move(context_.notes), std::move(outputs_)};
  }

  void note(std::string text) { context_.notes.push_back(std::move(text)); }

  const ImportOptions& options_;
  ModelData model_;
  GraphData& graph_;
  ImportContext context_;
  std::string result_;  // of the model
  std::vector<std::string> outputs_;
  std::set<const NodeData*> needed_;
  std::vector<const ValueData*> inputs_;
  std::vector<double> mean_, deviation_;
  std::vector<std::string> problems_;
};

}  // namespace

Result<ImportedNetwork> import_network(const ModelData& model, const ImportOptions& options) {
  return Import(model, options).run();
}

}  // namespace mantissa::onnx

#include "onnx/import/context.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include "formats/arrays/safetensors_header.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

constexpr size_t kLongestName = 100;

// The layer whose parameter `weights` is: "layer1.0.conv1" of "layer1.0.conv1.weight".
std::string_view owner_of(std::string_view weights) {
  if (weights.find("::") != std::string_view::npos) return {};  // made up by an exporter
  for (const std::string_view end :
       {".weight_quantized", ".weight", ".weights", "_weight", ".kernel", ".bias", "_bias"}) {
    if (weights.ends_with(end)) return weights.substr(0, weights.size() - end.size());
  }
  return {};
}

// The shape of a volume, an image or a vector as ONNX has it, channels first.
Layout layout_of(const Shape& shape) {
  if (shape.rank == 4) return Layout::volume(shape[0], shape[1], shape[2], shape[3]);
  return shape.rank == 3 ? Layout::image(shape[0], shape[1], shape[2])
                         : Layout::vector(shape.last());
}

Shape channels_last_shape(const Layout& layout) {
  const std::vector<int64_t> dims = layout.dims();
  if (dims.size() == 4) return Shape{dims[1], dims[2], dims[3], dims[0]};
  return Shape{dims[1], dims[2], dims[0]};
}

template <typename T>
Status status_of(const Result<T>& result) {
  return result.ok() ? Status() : Status(result.error());
}

Result<int> reshaped(ImportContext& context, int value, const Shape& shape) {
  if (context.builder.shape(value) == shape) return value;
  const std::string name = new_name(context, "reshape");
  if (shape.rank == 1) return add_node(context, ops::kFlatten, name, {value});
  if (shape.rank == 4) {
    return add_node(context, ops::kReshape, name, {value},
                    {{"depth", shape[0]},
                     {"height", shape[1]},
                     {"width", shape[2]},
                     {"channels", shape[3]}});
  }
  return add_node(context, ops::kReshape, name, {value},
                  {{"height", shape[0]}, {"width", shape[1]}, {"channels", shape[2]}});
}

}  // namespace

std::string readable(const std::string& name) {
  constexpr size_t kMost = 200;
  const std::string quoted =
      readable_name(name.size() > kMost ? name.substr(0, kMost) + "..." : name);
  return quoted.substr(1, quoted.size() - 2);
}

Form form_of(const ImportContext& context, const NodeData& node) {
  for (const std::string& input : node.inputs) {
    if (context.scores.contains(input) || context.always_false.contains(input)) return Form::kRows;
    const auto value = context.values.find(input);
    if (value != context.values.end()) return value->second.form;
    const auto unknown = context.unknown.find(input);
    if (unknown != context.unknown.end()) return unknown->second;
  }
  return context.form;
}

bool is_read(const ImportContext& context, const std::string& value) {
  return context.readers.contains(value) || context.results.contains(value);
}

void note_once(ImportContext& context, const std::string& note) {
  const auto found = std::find(context.notes.begin(), context.notes.end(), note);
  if (found == context.notes.end()) context.notes.push_back(note);
}

bool Imported::is_channels_last() const {
  const int first[] = {1, 2, 0}, last[] = {0, 1, 2};
  return layout.dims().size() == 3 && !layout.lies_as(first) && layout.lies_as(last);
}

bool turn_channels_first(Imported& value) {
  const int order[] = {2, 0, 1};
  const bool is_last = value.is_channels_last();
  if (is_last) value.layout.transpose(order);
  return is_last;
}

void turn_back(bool was_last, Imported& value) {
  const int order[] = {1, 2, 0};
  if (was_last) value.layout.transpose(order);
}

int64_t axis_of_channels_first(int64_t axis) {
  constexpr int64_t kAxes[] = {0, 2, 3, 1};
  return axis < 0 || axis > 3 ? axis : kAxes[axis];
}

Result<Imported> input_of(const ImportContext& context, const NodeData& node, size_t index) {
  if (!has_input(node, index)) {
    return invalid_input("has no input " + std::to_string(index + 1));
  }
  const auto found = context.values.find(node.inputs[index]);
  if (found != context.values.end()) return found->second;
  return invalid_input(
      "its input " + std::to_string(index + 1) +
      (context.constants.contains(node.inputs[index])
           ? " is a constant; only values that come from the model's input are "
             "computed"
           : ", " + readable_name(node.inputs[index]) + ", is a result that is not computed here"));
}

const TensorData* constant_of(const ImportContext& context, const NodeData& node, size_t index) {
  if (!has_input(node, index)) return nullptr;
  const auto found = context.constants.find(node.inputs[index]);
  return found == context.constants.end() ? nullptr : found->second;
}

Result<const TensorData*> weights_of(const ImportContext& context, const NodeData& node,
                                     size_t index) {
  if (const TensorData* found = constant_of(context, node, index)) return found;
  return invalid_input("its input " + std::to_string(index + 1) + " is no constant");
}

std::optional<std::vector<double>> per_channel(const TensorData& tensor, const Channels& channels) {
  const auto numbers = numbers_of(tensor);
  if (!numbers.ok()) return std::nullopt;
  if (numbers->size() == 1) {
    return std::vector<double>(static_cast<size_t>(channels.count), (*numbers)[0]);
  }
  const int64_t first = channels.rank - std::ssize(tensor.dims);  // where its dimensions begin
  for (int64_t i = 0; i < std::ssize(tensor.dims); ++i) {
    const int64_t wanted = first + i == channels.axis ? channels.count : 1;
    if (first < 0 || tensor.dims[i] != wanted) return std::nullopt;
  }
  return *numbers;
}

Result<std::vector<double>> bias_of(const ImportContext& context, const NodeData& node,
                                    int64_t channels) {
  if (!has_input(node, 2)) return std::vector<double>();
  MANTISSA_ASSIGN(const TensorData* tensor, weights_of(context, node, 2));
  MANTISSA_ASSIGN(std::vector<double> bias, numbers_of(*tensor));
  if (bias.size() == 1) bias.assign(static_cast<size_t>(channels), bias[0]);
  const bool is_last = tensor->dims.empty() || tensor->dims.back() == std::ssize(bias);
  if (std::ssize(bias) == channels && is_last) return bias;
  return invalid_input("its bias has not one number for each of " + std::to_string(channels) +
                       " channels");
}

Result<std::optional<double>> scalar_of(const ImportContext& context, const NodeData& node,
                                        size_t input, std::string_view attribute) {
  if (has_attribute(node, attribute)) return std::optional(real_of(node, attribute, 0));
  if (!has_input(node, input)) return std::optional<double>();
  MANTISSA_ASSIGN(const TensorData* tensor, weights_of(context, node, input));
  MANTISSA_ASSIGN(const std::vector<double> numbers, numbers_of(*tensor));
  if (numbers.size() == 1) return std::optional(numbers[0]);
  return invalid_input("its input " + std::to_string(input + 1) + " is not one number");
}

Result<std::optional<std::vector<int64_t>>> list_of(const ImportContext& context,
                                                    const NodeData& node, size_t input,
                                                    std::string_view attribute) {
  using List = std::optional<std::vector<int64_t>>;
  if (has_attribute(node, attribute)) return List(wholes_of(node, attribute));
  if (!has_input(node, input)) return List();
  MANTISSA_ASSIGN(const TensorData* tensor, weights_of(context, node, input));
  MANTISSA_ASSIGN(std::vector<int64_t> numbers, wholes_of(*tensor));
  return List(std::move(numbers));
}

std::string new_name(ImportContext& context, std::string_view wanted) {
  std::string name;
  for (const char c : wanted.substr(0, kLongestName)) {
    const bool is_valid = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' ||
                          c == '-' || c == '.' || c == '/';
    name += is_valid ? c : '_';
  }
  name.erase(0, name.find_first_not_of("/."));
  if (name.empty()) name = "node";
  std::string free = name;
  for (int copy = 2; !context.names.insert(free).second; ++copy) {
    free = name + "_" + std::to_string(copy);
  }
  return free;
}

std::string node_name(ImportContext& context, const NodeData& node) {
  return new_name(context, node.name.empty() ? node.op_type : node.name);
}

std::string layer_name(ImportContext& context, const NodeData& node, const TensorData& weights,
                       const TensorData* bias) {
  std::string_view owner = owner_of(weights.name);
  if (owner.empty() && bias != nullptr) owner = owner_of(bias->name);
  return owner.empty() ? node_name(context, node) : new_name(context, owner);
}

Result<int> add_node(ImportContext& context, const Op& op, const std::string& name,
                     std::vector<int> inputs, const Attributes& attributes,
                     std::vector<std::vector<double>> numbers) {
  GraphBuilder& builder = context.builder;
  std::vector<Shape> shapes;
  for (const int input : inputs) shapes.push_back(builder.shape(input));
  // Asked before, since an error of the builder stays.
  MANTISSA_RETURN_IF_ERROR(status_of(output_shape(op, attributes, shapes)));
  const int value = builder.add(op, name, std::move(inputs), attributes);
  if (!builder.status().ok()) return builder.status().error();
  const Graph& graph = builder.graph();
  const std::vector<int>& parameters = graph.nodes.back().parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = graph.parameters[parameters[i]];
    if (i >= numbers.size() || std::ssize(numbers[i]) != parameter.shape.count()) {
      return invalid_input("its constants have not the shape of " + parameter.name + ", " +
                           to_string(parameter.shape));
    }
    const auto too_large = [](double x) { return !std::isfinite(static_cast<float>(x)); };
    if (std::any_of(numbers[i].begin(), numbers[i].end(), too_large)) {
      return invalid_input("has numbers in " + parameter.name +
                           " that are infinite or too large for float32");
    }
    ImportedParameter imported{
        .name = parameter.name, .shape = parameter.shape, .floats = {}, .doubles = {}};
    if (parameter.storage == Storage::kReal) {
      imported.doubles = std::move(numbers[i]);
    } else {
      imported.floats.assign(numbers[i].begin(), numbers[i].end());
    }
    context.parameters.push_back(std::move(imported));
  }
  return value;
}

Result<int> image_of(ImportContext& context, const Imported& imported, std::vector<double>* scale) {
  if (imported.layout.dims().size() == 3) return images_of(context, imported, scale);
  return invalid_input("wants an input of [N, C, H, W]");
}

Result<int> images_of(ImportContext& context, const Imported& imported,
                      std::vector<double>* scale) {
  const size_t rank = imported.layout.dims().size();
  if (rank != 3 && rank != 4) {
    return invalid_input("wants an input of [N, C, H, W] or [N, C, D, H, W]");
  }
  constexpr int kOfImage[] = {1, 2, 0}, kOfVolume[] = {1, 2, 3, 0};
  const std::span<const int> order =
      rank == 3 ? std::span<const int>(kOfImage) : std::span<const int>(kOfVolume);
  const Shape shape = channels_last_shape(imported.layout);
  Result<int> image = invalid_input(
      imported.is_channels_last()
          ? "reads [N, H, W, C] as if channels came first: a Transpose to [N, C, H, W] is missing"
          : "its input is no image: a Reshape or Transpose before has mixed its dimensions");
  if (imported.layout.lies_as(order)) {
    image = reshaped(context, imported.value, shape);
  } else if (const auto groups = imported.layout.shuffle_of_last(order)) {
    MANTISSA_ASSIGN(const int from, reshaped(context, imported.value, shape));
    image = add_node(context, ops::kChannelShuffle, new_name(context, "shuffle"), {from},
                     {{"groups", *groups}});
  }
  if (!image.ok() || imported.scale.empty()) return image;
  if (std::ssize(imported.scale) != shape.last()) {
    return invalid_input("rearranges pixels before the first layer");
  }
  if (scale != nullptr) {
    *scale = imported.scale;
    return image;
  }
  return scaled(context, new_name(context, "scale"), *image, imported.scale, {});
}

Result<Vector> vector_of(ImportContext& context, const Imported& imported, bool takes_scale) {
  if (imported.layout.dims().size() != 1) {
    return invalid_input("wants an input of [N, C]");
  }
  if (!imported.scale.empty() && !takes_scale) {
    return invalid_input("wants a layer or pool between itself and the pixels");
  }
  MANTISSA_ASSIGN(const int value,
                  reshaped(context, imported.value, Shape{imported.layout.count()}));
  return Vector{value, imported.order.empty() ? imported.layout.places() : imported.order,
                imported.scale};
}

void define_image(ImportContext& context, const std::string& name, int value) {
  define(context, name, {value, layout_of(context.builder.shape(value)), {}});
}

void define(ImportContext& context, const std::string& name, Imported imported) {
  context.values[name] = std::move(imported);
}

Result<int> scaled(ImportContext& context, const std::string& name, int image,
                   const std::vector<double>& factors, const std::vector<double>& summands,
                   bool trains) {
  const auto channels = static_cast<int64_t>(factors.size());
  const bool bias = !summands.empty();
  std::vector<std::vector<double>> numbers = {factors};
  if (bias) numbers.push_back(summands);
  MANTISSA_ASSIGN(
      const int value,
      add_node(context, ops::kConvolution, name, {image},
               {{"channels", channels},
                {"kernel", 1},
                {"groups", channels},
                {"bias", bias ? 1 : 0}},
               std::move(numbers)));
  if (!trains) leave_untrained(context);
  return value;
}

bool is_parameter(const ImportContext& context, const TensorData* tensor) {
  return tensor != nullptr && !context.fixed.contains(tensor->name);
}

void leave_untrained(ImportContext& context) {
  const Graph& graph = context.builder.graph();
  for (const int parameter : graph.nodes.back().parameters) {
    context.untrained.insert(graph.parameters[parameter].name);
  }
}

}  // namespace mantissa::onnx

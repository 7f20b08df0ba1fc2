#include "onnx/import/inputs.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "ops/ops.h"
#include "tensor/table_numbers.h"

namespace mantissa::onnx {
namespace {

std::string graph_name(const ImportContext& context) {
  return context.model->name.empty() ? "imported" : context.model->name;
}

// "[?, 3, 64]".
std::string dims_text(const std::vector<Dimension>& dims) {
  std::string text;
  for (const Dimension& dimension : dims) {
    text += (text.empty() ? "" : ", ") +
            (dimension.size < 0 ? std::string("?") : std::to_string(dimension.size));
  }
  return "[" + text + "]";
}

// The output depends on other inputs than are possible.
Error other_inputs(std::span<const ValueData* const> inputs) {
  if (inputs.empty()) return invalid_input("the model's output depends on no input");
  constexpr size_t kMost = 6;
  std::string names;
  for (size_t i = 0; i < std::min(inputs.size(), kMost); ++i) {
    names += (i == 0 ? "" : ", ") + std::string("'") + readable(inputs[i]->name) + "' (" +
             element_name(inputs[i]->type) + " " + dims_text(inputs[i]->dims) + ")";
  }
  if (inputs.size() > kMost) names += " and " + std::to_string(inputs.size() - kMost) + " more";
  return invalid_input(
      std::string("the model's output depends on the input") + (inputs.size() == 1 ? " " : "s ") +
      names +
      "; possible are inputs of pictures, [N, C, H, W], volumes, [N, C, D, H, W], and of a table's columns, [N, F], or one "
      "of tokens, whole numbers [N, T], or of sequences of numbers, [N, T, C], and with such a "
      "sequence its lengths, [N], or a mask of padding, [N, T], with tokens their "
      "token_type_ids, [N, T], and the places of rows, [N, rows], that GatherND or GatherElements "
      "picks");
}

constexpr int kFractionBits = 16;  // of means
constexpr double kLargestPixel = 255;
constexpr int64_t kMostPixelChannels = 4;

// The usual numbers of training on ImageNet.
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

bool is_pixel_count(int64_t channels) {
  return channels == 1 || channels == 3 || channels == kMostPixelChannels;
}

struct Normalisation {
  std::vector<double> mean, deviation;
};

Result<std::vector<double>> for_channels(const std::vector<double>& given,
                                         std::span<const double> colour, double otherwise,
                                         const char* what, int64_t channels) {
  std::vector<double> to = given;
  const bool is_colour = channels == 3;
  if (given.empty() && is_colour) to.assign(colour.begin(), colour.end());
  if (given.empty() && !is_colour) to.assign(static_cast<size_t>(channels), otherwise);
  if (given.size() == 1) to.assign(static_cast<size_t>(channels), given[0]);
  if (std::ssize(to) == channels) return to;
  return invalid_input(std::string(what) + " wants one number, or one for each of " +
                       std::to_string(channels) + " channels");
}

// A model that takes bytes normalises them itself.
Normalisation none(ImportContext& context, int64_t channels) {
  note_once(context, "pixels enter the model as the bytes that they are");
  const auto count = static_cast<size_t>(channels);
  return {std::vector<double>(count, 0), std::vector<double>(count, 1 / kLargestPixel)};
}

Result<Normalisation> choose_normalisation(ImportContext& context, const ValueData& input,
                                           int64_t channels) {
  const ImportOptions& options = *context.options;
  const bool is_open = options.mean.empty() && options.deviation.empty();
  if (is_open && input.type == ElementType::kUint8) return none(context, channels);
  Normalisation n;
  MANTISSA_ASSIGN(n.mean,
                  for_channels(options.mean, kImageNetMean, 0, "the mean of the input", channels));
  MANTISSA_ASSIGN(n.deviation, for_channels(options.deviation, kImageNetDeviation, 1,
                                            "the standard deviation of the input", channels));
  for (int64_t c = 0; c < channels; ++c) {
    if (n.mean[c] >= 0 && n.mean[c] <= 1 && n.deviation[c] > 1e-6 && n.deviation[c] < 1e6) continue;
    return invalid_input("the mean of the input wants 0 to 1, its standard deviation more than 0");
  }
  const bool assumed = options.mean.empty() || options.deviation.empty();
  note_once(context,
            "pixels enter the model as (pixel / 255 - mean) / std, with mean " + list_text(n.mean) +
                " and std " + list_text(n.deviation) +
                (assumed ? (channels == 3 ? ", ImageNet's: assumed" : ": assumed") : ""));
  return n;
}

// Begins the network, in which these names are taken.
void begin_network(ImportContext& context, std::set<std::string> names) {
  context.builder = GraphBuilder(new_name(context, graph_name(context)));
  context.names = std::move(names);
}

// The name of an input in the network: the usual one, or of several its own.
std::string begin_input(ImportContext& context, const ValueData& input, const char* usual) {
  if (context.has_several_inputs) return new_name(context, input.name);
  begin_network(context, {usual, "labels", "loss", "input"});
  return usual;
}

Status add_pixels(ImportContext& context, const ValueData& input, const Layout& layout,
                  const Shape& shape) {
  MANTISSA_ASSIGN(const Normalisation n, choose_normalisation(context, input, shape[2]));
  const int bytes = context.builder.add_input(begin_input(context, input, "pixels"), shape,
                                              Element::kMantissa);
  WholeList means;
  Imported pixels{-1, layout, {}};
  for (int64_t c = 0; c < shape[2]; ++c) {
    means.push_back(std::llround(std::ldexp(kLargestPixel * n.mean[c], kFractionBits)));
    pixels.scale.push_back(64 / (kLargestPixel * n.deviation[c]));
  }
  MANTISSA_ASSIGN(pixels.value, add_node(context, ops::kNormaliseInput,
                                         new_name(context, "normalise"), {bytes},
                                         {{"means", means}, {"fraction_bits", kFractionBits}}));
  define(context, input.name, std::move(pixels));
  return {};
}

constexpr int64_t kLongest = 1 << 20;

bool is_volume(const ValueData& input) {
  return input.type == ElementType::kFloat && input.dims.size() == 5;
}

// Sizes of an input, with the chosen sizes for open ones; an error if one is not known.
Result<std::vector<int64_t>> sizes_of(const ValueData& input) {
  std::vector<int64_t> sizes;
  for (const Dimension& dimension : input.dims) sizes.push_back(dimension.size);
  const bool is_known = std::all_of(sizes.begin(), sizes.end(),
                                    [](int64_t size) { return size > 0 && size <= kLongest; });
  if (is_known) return sizes;
  return invalid_input("the input '" + readable(input.name) + "' is " + dims_text(input.dims) +
                       (is_volume(input)
                            ? "; of volumes [N, C, D, H, W] all sizes but N are fixed: export the "
                              "model with them"
                            : "; --sequence says how many positions a sequence has where the model "
                              "leaves that open"));
}

void note_numbers(ImportContext& context) {
  note_once(context,
            "numbers enter as whole multiples of 1/4096, from -8 to 8: they should be "
            "standardised");
}

// Numbers as the network's input, and as the values of the format.
Status add_numbers(ImportContext& context, const ValueData& input, const Shape& shape,
                   Imported value) {
  const int numbers = context.builder.add_numbers(begin_input(context, input, "numbers"), shape,
                                                  kFeatureExponent);
  MANTISSA_ASSIGN(value.value,
                  add_node(context, ops::kQuantiseInput, new_name(context, "quantise"), {numbers}));
  note_numbers(context);
  define(context, input.name, std::move(value));
  return {};
}

// Positions with channels, in a network of pictures of one row.
Status add_signal(ImportContext& context, const ValueData& input) {
  MANTISSA_ASSIGN(const std::vector<int64_t> sizes, sizes_of(input));
  context.batch = sizes[0];
  if (context.signal == SignalAxes::kChannelsLast) {
    return add_numbers(context, input, Shape{sizes[1], sizes[2]},
                       {-1, Layout::of(std::vector{sizes[1], sizes[2]}), {}});
  }
  Imported value{-1, Layout::image(1, sizes[2], sizes[1]), {}};
  value.layout.reshape(std::vector{sizes[1], sizes[2]});
  return add_numbers(context, input, Shape{sizes[2], sizes[1]}, std::move(value));
}

// Pictures of more channels than pixels have.
Status add_many_channels(ImportContext& context, const ValueData& input) {
  const auto at = [&](size_t i) { return input.dims[i].size; };
  context.batch = at(0);
  if (context.reads_channels_last) {
    return add_numbers(context, input, Shape{at(1), at(2), at(3)},
                       {-1, Layout::channels_last(at(1), at(2), at(3)), {}});
  }
  return add_numbers(context, input, Shape{at(2), at(3), at(1)},
                     {-1, Layout::image(at(2), at(3), at(1)), {}});
}

// Volumes and videos of numbers, [N, C, D, H, W].
Status add_volume(ImportContext& context, const ValueData& input) {
  MANTISSA_ASSIGN(const std::vector<int64_t> sizes, sizes_of(input));
  context.batch = sizes[0];
  return add_numbers(context, input, Shape{sizes[2], sizes[3], sizes[4], sizes[1]},
                     {-1, Layout::volume(sizes[2], sizes[3], sizes[4], sizes[1]), {}});
}

Status add_picture(ImportContext& context, const ValueData& input) {
  if (is_volume(input)) return add_volume(context, input);
  bool is_known = input.dims.size() == 4;
  for (size_t i = 1; i < input.dims.size(); ++i) {
    is_known = is_known && input.dims[i].size > 0 && input.dims[i].size <= INT32_MAX;
  }
  const auto is_count = [&](size_t i) { return input.dims[i].size <= kMostPixelChannels; };
  const bool is_pixels = is_known && (is_count(1) || is_count(3));
  if (is_known && !is_pixels && input.type == ElementType::kFloat) {
    return add_many_channels(context, input);
  }
  if (!is_pixels) {
    const bool is_picture = input.dims.size() == 4;
    return invalid_input("the input '" + readable(input.name) + "' is " + dims_text(input.dims) +
                         "; [N, C, H, W] is possible, of bytes with up to 4 channels" +
                         (is_picture ? ", its size fixed or said by --input-size"
                                     : "; so are [N, columns] and [N, C, D, H, W] of float32"));
  }
  context.batch = input.dims[0].size;
  const auto at = [&](size_t i) { return input.dims[i].size; };
  if (is_count(1)) {
    return add_pixels(context, input, Layout::image(at(2), at(3), at(1)),
                      Shape{at(2), at(3), at(1)});
  }
  // TensorFlow's order.
  return add_pixels(context, input, Layout::channels_last(at(1), at(2), at(3)),
                    Shape{at(1), at(2), at(3)});
}

bool is_real(ElementType type) {
  return type == ElementType::kFloat || type == ElementType::kDouble ||
         type == ElementType::kFloat16 || type == ElementType::kBfloat16;
}

bool is_whole(ElementType type) {
  return type == ElementType::kInt64 || type == ElementType::kInt32;
}

// Whether it says which of two texts each token belongs to, [N, T], like BERT's token_type_ids.
bool is_segments(const ValueData& input) {
  return is_whole(input.type) && input.dims.size() == 2 &&
         input.name.find("token_type") != std::string::npos;
}

// Whether it says how long each example's sequence is, [N].
bool is_lengths(const ValueData& input) { return is_whole(input.type) && input.dims.size() == 1; }

// Whether it is a table's columns, [N, F].
bool is_columns(const ValueData& input) { return is_real(input.type) && input.dims.size() == 2; }

// The columns of a row are a vector, like flattened pixels.
Status add_columns(ImportContext& context, const ValueData& input) {
  const int64_t columns = input.dims[1].size;
  if (columns < 1 || columns > kLongest) {
    return invalid_input("the input '" + readable(input.name) + "' is " + dims_text(input.dims) +
                         "; a table's network wants a known number of columns");
  }
  context.batch = input.dims[0].size;
  return add_numbers(context, input, Shape{columns}, {-1, Layout::vector(columns), {}});
}

Status add_sequence(ImportContext& context, const ValueData& input) {
  MANTISSA_ASSIGN(std::vector<int64_t> sizes, sizes_of(input));
  const int axis = context.batch_axis;
  context.batch = sizes[axis];
  if (axis == 1) std::swap(sizes[0], sizes[1]);
  Imported value{-1, Layout::of(sizes), {}, Form::kRows};
  if (axis == 1) {
    std::vector<int> order = {1, 0, 2};
    order.resize(sizes.size());
    value.layout.transpose(order);
  }
  if (is_whole(input.type)) {
    value.value = context.builder.add_input(is_segments(input) ? "segments" : "tokens",
                                            Shape{sizes[1]}, Element::kIndex);
    define(context, input.name, std::move(value));
    return {};
  }
  const int numbers =
      context.builder.add_numbers("numbers", Shape{sizes[1], sizes[2]}, kFeatureExponent);
  MANTISSA_ASSIGN(value.value,
                  add_node(context, ops::kQuantiseInput, new_name(context, "quantise"), {numbers}));
  note_numbers(context);
  define(context, input.name, std::move(value));
  return {};
}

// Whether nodes read the value as places of rows alone, which they pick by these.
bool are_places(const ImportContext& context, const std::string& value) {
  constexpr std::string_view kPassing[] = {"Cast", "Identity", "Reshape", "Unsqueeze"};
  const auto readers = context.readers.find(value);
  if (readers == context.readers.end()) return false;
  return std::ranges::all_of(readers->second, [&](const NodeData* node) {
    const bool passes = std::ranges::find(kPassing, node->op_type) != std::end(kPassing);
    if (passes) return node->inputs[0] == value && are_places(context, node->outputs[0]);
    return node->op_type == "GatherND" && node->inputs[0] != value && node->inputs[1] == value &&
           !context.constants.contains(node->inputs[0]);
  });
}

// Places of rows, [N, rows], called as in the model.
Status add_places(ImportContext& context, const ValueData& input) {
  MANTISSA_ASSIGN(const std::vector<int64_t> sizes, sizes_of(input));
  if (sizes.size() != 2 || sizes[0] != context.batch || !is_whole(input.type)) {
    return invalid_input("the input '" + readable(input.name) + "' " + dims_text(input.dims) +
                         " has places of rows, and they are not whole numbers [N, rows]");
  }
  const std::string name = new_name(context, input.name);
  const int value = context.builder.add_input(name, Shape{sizes[1]}, Element::kIndex);
  context.notes.push_back("the input '" + readable(input.name) + "' has places of rows; the data " +
                          "call it '" + name + "'");
  define(context, input.name, {value, Layout::of(sizes), {}, Form::kRows});
  return {};
}

Status add_sequences(ImportContext& context, std::span<const ValueData* const> all) {
  std::vector<const ValueData*> inputs(all.begin(), all.end()), places;
  std::erase_if(inputs, [&](const ValueData* input) {
    const bool names_rows = are_places(context, input->name);
    if (names_rows) places.push_back(input);
    return names_rows;
  });
  const auto count = [&](bool (*is)(const ValueData&)) {
    return std::count_if(inputs.begin(), inputs.end(),
                         [&](const ValueData* input) { return is(*input); });
  };
  const auto segments = count(is_segments), lengths = count(is_lengths);
  const auto sequences = count(is_sequence) - segments;
  if (sequences != 1 || segments > 1 || lengths > 1 ||
      std::ssize(inputs) != sequences + segments + lengths) {
    return other_inputs(inputs);
  }
  context.builder = GraphBuilder(new_name(context, graph_name(context)));
  context.form = Form::kRows;
  context.names = {"tokens", "segments", "numbers", "lengths", "labels", "loss", "input"};
  for (const ValueData* input : inputs) {
    if (is_sequence(*input)) MANTISSA_RETURN_IF_ERROR(add_sequence(context, *input));
  }
  for (const ValueData* input : inputs) {
    if (is_sequence(*input)) continue;
    if (input->dims[0].size != context.batch) return other_inputs(inputs);
    const int value = context.builder.add_input("lengths", Shape{}, Element::kIndex);
    define(context, input->name, {value, Layout::of(std::vector{context.batch}), {}, Form::kRows});
  }
  for (const ValueData* input : places) MANTISSA_RETURN_IF_ERROR(add_places(context, *input));
  return {};
}

void choose(Dimension& open, int64_t wanted) {
  if (open.size < 1 && wanted > 0) open = {wanted, ""};
}

}  // namespace

bool is_sequence(const ValueData& input) {
  const bool is_float = input.type == ElementType::kFloat;
  return (is_whole(input.type) && input.dims.size() == 2) || (is_float && input.dims.size() == 3);
}

void choose_sizes(const ImportOptions& options, int batch_axis, SignalAxes signal,
                  ValueData& input) {
  // With two examples, nodes that mix examples are noticed.
  constexpr int64_t kSequences = 2, kPictures = 1, kRows = 1;
  std::vector<Dimension>& dims = input.dims;
  if (signal != SignalAxes::kNone && is_sequence(input)) {
    choose(dims[0], kPictures);
    choose(dims[signal == SignalAxes::kChannelsFirst ? 2 : 1], options.sequence);
  } else if (is_lengths(input)) {
    choose(dims[0], kSequences);
  } else if (is_sequence(input)) {
    choose(dims[batch_axis], kSequences);
    choose(dims[1 - batch_axis], options.sequence);
  } else if (is_columns(input) && input.name.find("mask") == std::string::npos) {
    choose(dims[0], kRows);
  } else if (is_volume(input)) {
    choose(dims[0], kPictures);
  } else if (dims.size() == 4) {
    const bool is_channels_last = !is_pixel_count(dims[1].size) && is_pixel_count(dims[3].size);
    const size_t first = is_channels_last ? 1 : 2;
    choose(dims[0], kPictures);
    choose(dims[first], options.height);
    choose(dims[first + 1], options.width);
  }
}

Status add_inputs(ImportContext& context, std::span<const ValueData* const> inputs) {
  if (context.signal != SignalAxes::kNone) return add_signal(context, *inputs[0]);
  const bool has_sequences = std::any_of(
      inputs.begin(), inputs.end(), [](const ValueData* input) { return is_sequence(*input); });
  if (has_sequences) return add_sequences(context, inputs);
  if (inputs.empty()) return other_inputs(inputs);
  context.has_several_inputs = inputs.size() > 1;
  if (context.has_several_inputs) {
    const bool are_possible =
        std::all_of(inputs.begin(), inputs.end(), [](const ValueData* input) {
          return is_columns(*input) || is_volume(*input) || input->dims.size() == 4;
        });
    if (!are_possible) return other_inputs(inputs);
    begin_network(context, {"labels", "targets", "weights", "loss", "input"});
  }
  for (const ValueData* input : inputs) {
    MANTISSA_RETURN_IF_ERROR(is_columns(*input) ? add_columns(context, *input)
                                                : add_picture(context, *input));
  }
  return {};
}

}  // namespace mantissa::onnx

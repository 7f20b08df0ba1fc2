// The state of an import, shared by the families of operators (operators.h).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "onnx/files/node_values.h"
#include "onnx/import/import.h"
#include "onnx/import/layout.h"
#include "onnx/import/rewrite/one_axis.h"
#include "onnx/import/rewrite/rewrite.h"
#include "onnx/model.h"
#include "ops/loss.h"

namespace mantissa::onnx {

// The family of a value. It decides which function of an operator imports a node that reads it.
enum class Form : uint8_t {
  kImage,  // [C, H, W], or [C] of a vector: the layout leaves the examples out
  kRows,   // [N, T, C], or [N, C] of a vector, in any order and division: the layout has them
};

// A value of the model in the graph.
struct Imported {
  int value = -1;  // of the graph
  Layout layout;
  // ONNX's numbers are the graph's numbers times these, by channel. Empty: they are the same.
  // Pixels have them until the first layer takes them into its weights. Rows have one number for
  // all channels.
  std::vector<double> scale;
  Form form = Form::kImage;
  // Of a joined vector, which linear layers alone read: where each of its elements lies, if the
  // layout does not say it. Empty: it does.
  std::vector<int64_t> order = {};

  // Whether the model has it as [N, H, W, C].
  bool is_channels_last() const;
};

// Makes an image of [N, H, W, C] one of [N, C, H, W]. False: it is none, and stays.
bool turn_channels_first(Imported& value);
// The other way round, if that was done.
void turn_back(bool was_last, Imported& value);
// An axis of [N, H, W, C] in [N, C, H, W].
int64_t axis_of_channels_first(int64_t axis);

// Attention's scores, and probabilities, which are no values of the graph: attention computes them.
struct Scores {
  Imported queries, keys;  // [..., positions, channels of a head]
  double scale = 1;        // of the products
  // A number for each head and distance of positions, [heads, ...], which is added to them.
  std::vector<double> bias;
  int64_t bias_height = 1, bias_width = 0;
  bool causal = false, padded = false, softmax = false;
};

struct ImportContext {
  const GraphData* model;
  const ImportOptions* options;
  int64_t opset = 0;  // of the model's operators
  GraphBuilder builder{""};
  Form form = Form::kImage;  // of the model's inputs
  SignalAxes signal = SignalAxes::kNone;
  bool reads_channels_last = false;  // the first node makes [N, C, H, W] of [N, H, W, C]
  int64_t batch = -1;        // the dimension of the input that counts examples; -1: any
  int batch_axis = 0;        // the index of that dimension
  // The lengths of the examples' sequences in the mask that the import made; empty: no mask.
  std::vector<int64_t> mask_lengths;
  int lengths = -1;                                    // the network's input that the mask became
  std::map<std::string, std::vector<int64_t>> shapes;  // of values of the model
  std::map<std::string, const TensorData*> constants;
  std::map<std::string, Imported> values;
  std::map<std::string, Scores> scores;
  std::set<std::string> always_false;
  std::map<std::string, Form> unknown;  // values of nodes that could not be imported
  std::map<std::string, std::vector<const NodeData*>> readers;
  std::set<const NodeData*> done;    // nodes that others took in
  std::set<const NodeData*> fitted;  // HardSigmoids whose input was scaled to make it ours
  // The factors by which the inputs of batch norms were multiplied, by channel.
  std::map<const NodeData*, std::vector<double>> norm_factors;
  std::set<std::string> results;      // of the model
  std::set<std::string> names;        // of nodes and values of the graph
  bool has_several_inputs = false;    // which are called as those of the model
  std::vector<ImportedParameter> parameters;
  std::set<std::string> fixed;        // constants that the model does not train (fixed_constants)
  std::set<std::string> untrained;    // parameters that training does not change
  std::vector<std::string> notes;
};

// A name of the model's, which is arbitrary bytes, as text of one line.
std::string readable(const std::string& name);
// The form of the first value that the node reads; of constants alone, that of the model's inputs.
Form form_of(const ImportContext& context, const NodeData& node);
// Whether a node, or the model's caller, reads the value.
bool is_read(const ImportContext& context, const std::string& value);
// Adds a note, unless it is there.
void note_once(ImportContext& context, const std::string& note);

// The input, which must be a value that was computed from the model's inputs.
Result<Imported> input_of(const ImportContext& context, const NodeData& node, size_t index);
// The input if it is a constant, else null.
const TensorData* constant_of(const ImportContext& context, const NodeData& node, size_t index);
// The input, which must be a constant.
Result<const TensorData*> weights_of(const ImportContext& context, const NodeData& node,
                                     size_t index);

// A number of the input, or of the attribute, or neither. An error if it is no constant.
Result<std::optional<double>> scalar_of(const ImportContext& context, const NodeData& node,
                                        size_t input, std::string_view attribute);
// Whole numbers of the input, or of the attribute, or neither.
Result<std::optional<std::vector<int64_t>>> list_of(const ImportContext& context,
                                                    const NodeData& node, size_t input,
                                                    std::string_view attribute);
// The channels of a value: their number, the value's rank, and their dimension, counting the batch.
struct Channels {
  int64_t count, rank, axis = 1;
};
// The factor or summand for each channel that the constant is; nothing if it is something else.
std::optional<std::vector<double>> per_channel(const TensorData& tensor, const Channels& channels);

// A name for a node of the graph: `wanted` made valid, and one that nothing has.
std::string new_name(ImportContext& context, std::string_view wanted);
// The same, of a node of the model: by its name, or its operator.
std::string node_name(ImportContext& context, const NodeData& node);
// The same, of the layer whose weights, or else bias, the tensor is, or else of the node.
std::string layer_name(ImportContext& context, const NodeData& node, const TensorData& weights,
                       const TensorData* bias = nullptr);

// Adds a node, with the numbers of its parameters in the order of the operator's.
Result<int> add_node(ImportContext& context, const Op& op, const std::string& name,
                     std::vector<int> inputs, const Attributes& attributes = {},
                     std::vector<std::vector<double>> numbers = {});

// The value as [H, W, C], for one of [C, H, W]. Nodes are added if it lies otherwise, or has a
// scale, which `scale` takes if it is given.
Result<int> image_of(ImportContext& context, const Imported& imported,
                     std::vector<double>* scale = nullptr);
// The same, for a volume too: [C, D, H, W] as [D, H, W, C].
Result<int> images_of(ImportContext& context, const Imported& imported,
                      std::vector<double>* scale = nullptr);
// The value as a vector, for one of [C], and where each of its elements lies (Layout::places).
struct Vector {
  int value;
  std::vector<int64_t> places;
  std::vector<double> scale;  // of Imported, if the caller takes it: by place, again and again

  double scale_at(int64_t place) const {
    return scale.empty() ? 1 : scale[static_cast<size_t>(place % std::ssize(scale))];
  }
};
Result<Vector> vector_of(ImportContext& context, const Imported& imported,
                         bool takes_scale = false);

// The node's first output. Its layout follows from the shape: a volume, an image, or a vector.
void define_image(ImportContext& context, const std::string& name, int value);
void define(ImportContext& context, const std::string& name, Imported imported);

// The value per channel times `factors` plus `summands`, by a convolution of each channel alone.
// Training changes them if they are parameters of the model.
Result<int> scaled(ImportContext& context, const std::string& name, int image,
                   const std::vector<double>& factors, const std::vector<double>& summands,
                   bool trains = false);

// Whether the constant is a parameter, which the model trains; a null one is none.
bool is_parameter(const ImportContext& context, const TensorData* tensor);
// Training does not change the parameters of the node that was added last.
void leave_untrained(ImportContext& context);

// Constant factors and summands per channel that follow a value which nothing else reads, taken in
// by the layer that makes it.
struct Affine {
  std::vector<double> factors, summands;
  std::string result;  // the value after them
  const TensorData* last_summand = nullptr;
  bool has_parameters = false;  // the model trains some of them
  bool has_summands() const;
};
Affine absorb_affine(ImportContext& context, const std::string& value, const Channels& channels,
                     bool takes_factors = true);
// Weights and bias of a layer, combined with the nodes after it: y = factor * (w x + b) + summand.
void take_in(const Affine& affine, std::vector<double>& weights, std::vector<double>& bias);
// The bias of a layer, its input 2: empty if there is none.
Result<std::vector<double>> bias_of(const ImportContext& context, const NodeData& node,
                                    int64_t channels);

}  // namespace mantissa::onnx

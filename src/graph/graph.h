// A network as data: values, nodes and parameters. Knows no operator by name; nodes point to rows
// of a table that is handed in (ops/ops.inc).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "graph/attributes.h"
#include "numerics/block_kind.h"
#include "numerics/weight_grid.h"
#include "tensor/tensor.h"

namespace mantissa {

struct Op;

// How the numbers of a parameter are stored.
enum class Storage : uint8_t {
  kWeights,     // mantissas of w bits, perhaps with an exponent for each output channel
  kBias,        // mantissas of `bias` bits
  kMantissa16,  // mantissas of 16 bits
  kReal,        // double: statistics
  kInt32,       // with an exponent, of the frozen network
  kInt64,       // of the frozen network
  kSum,         // int32 at the exponents of a layer's sums, of the frozen network
  kFloat,       // float32, of the frozen network
  kBlocks,      // blocks of small numbers with scales, as a file has them; never trained
};

// How a parameter starts.
enum class Initialiser {
  kZero,
  kOne,
  kQuarter,       // 1/4
  kHeUniform,     // uniform in +-sqrt(6 / fan_in)
  kFanInUniform,  // uniform in +-sqrt(1 / fan_in)
};

// The most elements that all values of one example have together; all parameters, too. Sizes in
// bytes, also of the largest batch, then fit 64 bits.
constexpr int64_t kMostElements = int64_t{1} << 36;

// The elements of a shape, or nothing if there are more than that or a dimension is below 1.
std::optional<int64_t> element_count(const Shape& shape);

struct Parameter {
  std::string name;  // "conv1.weights"
  Shape shape;
  Storage storage = Storage::kWeights;
  Initialiser initialiser = Initialiser::kZero;
  int64_t fan_in = 1;
  bool trained = true;     // updates change it; mantissas only
  bool decays = false;     // by weight decay
  double rate_factor = 1;  // multiplies the learning rate
  // With bits: the mantissas are on this grid, and the exponent stays grid_exponent, in any format.
  WeightGrid grid = {};
  int grid_exponent = 0;
  // DoReFa: the stored number is c * tanh(w), and updates move it as steps of w would. Only for
  // grids that stay.
  bool steps_through_tanh = false;
  BlockKind blocks = BlockKind::kNone;  // of kBlocks

  // Whether the gradient is changed before an update takes it.
  bool bends_gradient() const { return steps_through_tanh || grid.stops; }
};

// The elements of a value.
enum class Element : uint8_t {
  kMantissa,  // numbers with an exponent
  kIndex,     // int32: classes, tokens
  kNumber,    // int16 mantissas of an input, at a fixed exponent: measurements, targets
  kReal,      // a number for reports, such as a loss: it is added to a step's totals
  kPixel,     // of what an op reads: bytes of the batch, which are mantissas of an input
};

struct Value {
  std::string name;
  Shape shape;        // of one example: [H, W, C], [T, C], [C], [] ...
  int producer = -1;  // node, or -1 for an input
  int port = 0;       // which of the producer's outputs
  Element element = Element::kMantissa;
  DataType type = DataType::kInt8;  // of an input: kUint8, kInt32 or, of numbers, kInt16
  int exponent = 0;                 // of an input of numbers
};

struct Node {
  std::string name;
  const Op* op = nullptr;
  Attributes attributes;        // all of the op's schema
  std::vector<int> inputs;      // values
  std::vector<int> outputs;     // values
  std::vector<int> parameters;  // parameters; other nodes may use them, too
};

// Nodes are in an order in which each value is produced before it is read.
struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<Parameter> parameters;
  std::vector<int> inputs;   // values, in the order in which batches bring them
  std::vector<int> outputs;  // values, the network's results
  std::vector<int> losses;   // nodes; training minimises their first results

  // Elements of the last dimension of the first result.
  int64_t classes() const { return values[outputs[0]].shape.last(); }
  bool is_output(int value) const;
  bool is_loss(int node) const;
  // Numbers that training changes.
  int64_t trained_parameters() const;
  // An error that names weights in blocks, if there are any, and says who does not take them.
  Status check_no_blocks(std::string_view who) const;
};

constexpr int kMostLosses = 8;

// Builds a graph node by node. The first error sticks and is returned by finish().
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name) { graph_.name = std::move(name); }
  // With an input of pixels.
  GraphBuilder(std::string name, const Shape& pixels);
  // Goes on with a graph that was finished.
  explicit GraphBuilder(Graph graph) : graph_(std::move(graph)) {}

  // Adds an input: of indices, int32, or of pixels, uint8. Returns its value.
  int add_input(std::string name, const Shape& shape, Element element);
  // Adds an input of numbers, mantissa * 2^exponent with int16 mantissas.
  int add_numbers(std::string name, const Shape& shape, int exponent);
  // The first input.
  int input() const { return graph_.inputs[0]; }
  const Shape& shape(int value) const { return graph_.values[value].shape; }
  // As far as it was built.
  const Graph& graph() const { return graph_; }
  const Status& status() const { return status_; }

  // Adds a node, infers its output's shape and creates its parameters; returns the output value.
  // Attributes that are left out have their defaults.
  int add(const Op& op, std::string name, std::vector<int> inputs,
          const Attributes& attributes = {});

  // The same for all outputs of the node.
  std::vector<int> add_all(const Op& op, std::string name, std::vector<int> inputs,
                           const Attributes& attributes = {});
  // Adds a node that uses the parameters of the node that produces the value `with`.
  int add_sharing(int with, const Op& op, std::string name, std::vector<int> inputs,
                  const Attributes& attributes = {});
  // Adds a node whose first output is a loss. At most kMostLosses.
  void add_loss(const Op& op, std::string name, std::vector<int> inputs,
                const Attributes& attributes = {});

  Result<Graph> finish(int result) { return finish(std::vector<int>{result}); }
  Result<Graph> finish(std::vector<int> results);

 private:
  std::vector<int> add_node(Node node, const Attributes& attributes, const Node* shares_with);
  Status create_parameters(Node& node, std::span<const Shape> shapes, const Node* shares_with);

  Graph graph_;
  Status status_;
};

// Gives a node another op, with these attributes and the defaults of the others; the op must take
// them.
void replace_op(Node& node, const Op& op, const Attributes& attributes = {});

// By value: the nodes that read it, each once, in order.
std::vector<std::vector<int>> readers_of(const Graph& graph);

// Every reference exists, values are produced once and before use, shapes agree with the ops'
// rules.
Status verify(const Graph& graph);

// One line per node: name, op, inputs, output shape, parameters.
std::string to_string(const Graph& graph);

}  // namespace mantissa

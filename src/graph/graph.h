// A network as data: values, nodes and parameters. Knows no operator by name; nodes point to rows
// of a table that is handed in (ops/ops.inc).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "graph/attributes.h"
#include "tensor/tensor.h"

namespace mantissa {

struct Op;

// What a parameter is for; decides how it is stored, initialised and updated.
enum class ParameterRole {
  kWeights,          // int8, lazily updated, decayed
  kBias,             // int16, lazily updated
  kScale,            // int16, lazily updated (batch norm's gamma)
  kOffset,           // int16, lazily updated (batch norm's beta)
  kRunningMean,      // double, batch-norm statistics
  kRunningVariance,  // double, batch-norm statistics
  kMultiplier,       // int32, of the frozen network
  kWideOffset,       // int64, of the frozen network
};

// How a parameter starts.
enum class Initialiser {
  kZero,
  kOne,
  kHeUniform,     // uniform in +-sqrt(6 / fan_in)
  kFanInUniform,  // uniform in +-sqrt(1 / fan_in)
};

struct Parameter {
  std::string name;  // "conv1.weights"
  Shape shape;
  ParameterRole role = ParameterRole::kWeights;
  Initialiser initialiser = Initialiser::kZero;
  int64_t fan_in = 1;
};

bool is_trained(ParameterRole role);

struct Value {
  std::string name;
  Shape shape;        // of one example: [H, W, C] or [C]
  int producer = -1;  // node, or -1 for the input
};

struct Node {
  std::string name;
  const Op* op = nullptr;
  Attributes attributes;        // all of the op's schema
  std::vector<int> inputs;      // values
  int output = -1;              // value
  std::vector<int> parameters;  // parameters
};

// Nodes are in an order in which each value is produced before it is read.
struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<Parameter> parameters;
  int input = -1;   // value
  int logits = -1;  // value, the network's result

  int64_t classes() const { return values[logits].shape.last(); }
  // Numbers that training changes.
  int64_t trained_parameters() const;
  std::vector<int> readers(int value) const;
};

// Builds a graph node by node. The first error sticks and is returned by finish().
class GraphBuilder {
 public:
  GraphBuilder(std::string name, Shape input_shape);

  int input() const { return graph_.input; }
  const Shape& shape(int value) const { return graph_.values[value].shape; }

  // Adds a node, infers its output's shape and creates its parameters; returns the output value.
  // Attributes that are left out have their defaults.
  int add(const Op& op, std::string name, std::vector<int> inputs,
          const Attributes& attributes = {});

  Result<Graph> finish(int logits);

 private:
  Graph graph_;
  Status status_;
};

// Gives a node another op, with these attributes and the defaults of the others; the op must take
// them.
void replace_op(Node& node, const Op& op, const Attributes& attributes = {});

// Every reference exists, values are produced once and before use, shapes agree with the ops'
// rules.
Status verify(const Graph& graph);

// One line per node: name, op, inputs, output shape, parameters.
std::string to_string(const Graph& graph);

}  // namespace mantissa

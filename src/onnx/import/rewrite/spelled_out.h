// A graph with who makes and reads its values, for the search of functions that exporters spell
// out.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "onnx/model.h"

namespace mantissa::onnx {

class SpelledOut {
 public:
  explicit SpelledOut(GraphData& graph);

  std::vector<NodeData>& nodes() { return graph_.nodes; }
  // The node that makes the value, if it is of that kind and has at least this many inputs; else
  // null.
  const NodeData* maker(const std::string& value, const char* op_type, size_t inputs = 1) const;
  // The same if nothing else reads the value, to be changed.
  NodeData* only_read_maker(const std::string& value, const char* op_type);
  // Null: it is no constant.
  const TensorData* constant(const std::string& name) const;
  void add_constant(TensorData tensor);
  // The number of a constant with one number; NaN: it is no such constant.
  double number(const std::string& name) const;
  std::vector<int64_t> wholes(const std::string& name) const;
  // The axes of a mean, by attribute or input.
  std::vector<int64_t> axes(const NodeData& mean) const;
  // Whether the value is x * x, or x to the power of 2.
  bool is_square(const std::string& value, const std::string& x) const;
  // Within 1e-5 of it.
  static bool near(double number, double wanted);
  // The other input of a node of two inputs, if one is that number; else "".
  std::string beside(const NodeData& node, double wanted) const;
  // x if the value is x times the factor, by Mul or Div; else "".
  std::string unscaled(const std::string& value, double factor) const;
  // Makes the node another one, of one input.
  void become(NodeData& node, const char* op_type, const std::string& input,
              std::vector<NodeAttribute> attributes);
  // Adds an input behind the others.
  void add_input(NodeData& node, const std::string& input);
  // Takes out nodes that nothing reads.
  void sweep();

 private:
  GraphData& graph_;
  std::map<std::string, const TensorData*> constants_;
  std::map<std::string, NodeData*> makers_;
  std::map<std::string, int> reads_;
};

// A constant of that name.
TensorData whole_numbers(const std::string& name, std::vector<int64_t> numbers);

// Each makes the node the function whose last part it is, and returns whether it is one.
bool join_gelu(SpelledOut& graph, NodeData& node);      // gelu.cpp
bool join_rms_norm(SpelledOut& graph, NodeData& node);  // rms_norm.cpp
bool join_gathered(SpelledOut& graph, NodeData& node);  // gathered.cpp
// Rows by places of each example: GatherElements of places that are spread over the channels
// becomes GatherND (gathered.cpp).
bool join_spread_places(SpelledOut& graph, NodeData& node);
// Exchanges a factor for each channel with the Transpose before it (channel_factor.cpp).
bool move_channel_factor(SpelledOut& graph, NodeData& node);

}  // namespace mantissa::onnx

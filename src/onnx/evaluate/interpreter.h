// Runs nodes one after the other, with numbers, or for types and shapes alone. In the second case,
// values that do not depend on the numbers of inputs are still computed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/system/thread_pool.h"
#include "onnx/evaluate/call.h"
#include "onnx/model.h"

namespace mantissa::onnx {

// Values by name: a graph's own, and through `around` those of the graphs around it.
struct Scope {
  std::unordered_map<std::string, EvaluatedValue> values;
  const Scope* around = nullptr;

  const EvaluatedValue* find(const std::string& name) const;
};

// A node that cannot be run, and why.
struct Problem {
  std::string node;  // its name, or its output's
  std::string op_type;
  std::string reason;
};

struct Interpreter {
  int64_t opset = 0;
  bool shapes_only = false;
  ThreadPool* pool = nullptr;
  // Computed constants may take this many more bytes.
  int64_t constant_bytes = 0;
  // And so much computing (work.h).
  int64_t constant_work = 0;
  // With shapes_only: bytes that all values take which are still to be read, and the most so far.
  int64_t live_bytes = 0;
  int64_t peak_bytes = 0;
  int64_t body_walks = 0;  // of loops, with shapes_only
  std::vector<Problem> problems;
  // Called after each node of the outermost graph.
  std::function<void(const NodeData& node, const Scope& scope,
                     const std::vector<EvaluatedValue>& outputs)>
      observe;

  // The outputs of one node. A node that fails is a problem, and its outputs have no shape.
  std::vector<EvaluatedValue> run_node(const NodeData& node, const Scope& scope);

  // Runs all nodes of a graph in `scope`, which has its inputs, and gives its outputs. With
  // numbers, it stops at the first problem.
  std::vector<EvaluatedValue> run_graph(const GraphData& graph, Scope& scope, bool outermost);

 private:
  Result<std::vector<EvaluatedValue>> run_operator(const NodeData& node, const Scope& scope);
  struct Computed {
    std::vector<EvaluatedValue> outputs;
    bool undetermined = false;  // a shape depends on numbers that are not known
  };
  Result<Computed> compute(const NodeData& node, bool shapes_alone,
                           std::vector<const EvaluatedValue*> inputs, Status (*function)(OpCall&));
  Result<std::vector<EvaluatedValue>> run_known(const NodeData& node,
                                                std::vector<const EvaluatedValue*> inputs,
                                                Status (*function)(OpCall&));
  void release(const NodeData& node, std::unordered_map<std::string, int64_t>& reads, Scope& scope);
};

// The name of a node in messages.
std::string name_of(const NodeData& node);

// Adds the graph's initialisers to the scope.
void add_initialisers(const GraphData& graph, Scope& scope);

// Calls function(name) for each value that a node reads, in graphs within it too.
void for_each_read(const NodeData& node, const std::function<void(const std::string&)>& function);

}  // namespace mantissa::onnx

// From an ONNX model to a network of ours that trains: channels last, our operators, a loss.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "onnx/model.h"
#include "ops/loss.h"

namespace mantissa::onnx {

struct ImportOptions {
  // The model wants (pixel / 255 - mean) / deviation, by channel. Empty: ImageNet's for three
  // channels, 0 and 1 for others.
  std::vector<double> mean, deviation;
  // Outputs of the model: a name, names with commas between them, or `all`; empty: the first.
  std::string output;
  int64_t height = 0, width = 0;  // of pictures, if the model leaves them open
  int64_t sequence = 0;           // positions of sequences, if the model leaves them open
  // The loss that is added, and whether its kind is chosen: else it follows from the end of the
  // model.
  ops::LossOptions loss = {};
  bool has_loss = false;
  // With has_loss: the kinds for several outputs, in their order. Empty: the kind of `loss` for all.
  std::vector<ops::LossKind> losses = {};
};

// The numbers of a parameter of the graph: `floats`, or, of running statistics, `doubles`, or of a
// parameter in blocks their bytes.
struct ImportedParameter {
  std::string name;
  Shape shape;
  std::vector<float> floats;
  std::vector<double> doubles;
  BlockKind blocks = BlockKind::kNone;
  std::vector<std::byte> bytes = {};
};

struct ImportedNetwork {
  // Inputs "pixels", "tokens" or "numbers", and "labels"; one output; the loss between it and the
  // labels. Or several outputs, each with a loss, whose labels or targets are called as the output.
  Graph graph;
  std::vector<ImportedParameter> parameters;  // all of the graph's, in its order
  std::vector<std::string> notes;             // assumptions, and parts left out: a line each
  std::vector<std::string> outputs;           // of the model, from which one or several were taken
};

// Imports the part of the model that its output needs. An error lists all unsupported nodes, each
// with the reason.
Result<ImportedNetwork> import_network(const ModelData& model, const ImportOptions& options = {});

}  // namespace mantissa::onnx

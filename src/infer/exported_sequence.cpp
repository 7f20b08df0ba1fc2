#include "infer/exported_sequence.h"

#include <map>
#include <string>
#include <utility>

#include "infer/exported_network.h"

namespace mantissa {
namespace {

struct SequenceExport {
  const Graph& graph;
  const State& state;
  const Format& format;
};

Result<onnx::ExportedModel> export_sequence(const SequenceExport& from, onnx::ExportTarget target,
                                            std::map<std::string, std::string> metadata) {
  if (target != onnx::ExportTarget::kOnnxRuntime) {
    return invalid_input(
        "networks of sequences have one form, of --target ort: it has standard operators alone");
  }
  MANTISSA_ASSIGN(onnx::ExportedModel result,
                  onnx::export_network(exported_view(from.graph, from.state, from.format), target));
  metadata["mantissa.format"] = to_string(from.format);
  metadata["mantissa.network"] = from.graph.name;
  metadata[kSequenceForm] = from.format.is_float() ? kRealNumbers : kIntegerLayers;
  result.model.metadata = std::move(metadata);
  if (from.format.is_float()) return result;
  result.notes = {
      "linear layers are computed with 8-bit integers; recurrent layers, attention, norms and "
      "functions "
      "in float32: results are near those of Mantissa, not equal",
      "CPUs with AVX2 and without VNNI saturate sums of two products in these layers, and lose a "
      "little more"};
  return result;
}

}  // namespace

Result<onnx::ExportedModel> export_sequences(const FrozenNetwork& network,
                                             onnx::ExportTarget target) {
  const FrozenDescription& d = network.description;
  std::map<std::string, std::string> metadata = {{"mantissa.data", d.data},
                                                 {"mantissa.weights_sha256", d.weights_sha256}};
  if (!d.tokenizer.empty()) metadata["mantissa.tokenizer"] = d.tokenizer;
  if (d.table) metadata["mantissa.class_names"] = class_names_text(d);
  if (d.table && !d.table->text) metadata[kColumns] = to_json(*d.table);
  return export_sequence({network.graph, network.state, d.format}, target, std::move(metadata));
}

Result<onnx::ExportedModel> export_encoder(const Encoder& encoder, onnx::ExportTarget target) {
  return export_sequence(
      {encoder.graph, encoder.state, encoder.format}, target,
      {{"mantissa.weights_sha256", encoder.state.sha256(StateGroup::kPredictor)}});
}

}  // namespace mantissa

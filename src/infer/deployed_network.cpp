#include "infer/deployed_network.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "base/base64.h"
#include "base/files/file_bytes.h"
#include "infer/exported_network.h"
#include "infer/exported_sequence.h"
#include "onnx/export/inputs.h"
#include "onnx/export/weights.h"
#include "onnx/files/read_budget.h"
#include "onnx/files/reader.h"
#include "onnx/files/writer.h"
#include "ops/attributes.h"
#include "ops/ops.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

// Entries of the model's metadata.
constexpr const char* kFrozen = "mantissa.frozen";      // frozen_bytes without weights, in base64
constexpr const char* kHash = "mantissa.model_sha256";  // the hash of the frozen network's state
constexpr const char* kTarget = "mantissa.target";
constexpr const char* kNear = "mantissa.near";          // "1": results are near, not equal
constexpr const char* kOrigin = "mantissa.weights_sha256";  // since the first version that exported

onnx::ExportedNetwork view(const FrozenNetwork& network) {
  onnx::ExportedNetwork result =
      exported_view(network.graph, network.state, network.description.format);
  result.columns = input_columns(network.description.table);
  return result;
}

std::string entry(const onnx::ModelData& model, const char* key) {
  const auto found = model.metadata.find(key);
  return found == model.metadata.end() ? std::string() : found->second;
}

// An ONNX file in memory.
struct DeployedFile {
  std::shared_ptr<const FileBytes> file;
  onnx::ModelData model;
};

Result<DeployedFile> read_deployed(const fs::path& path) {
  DeployedFile result;
  MANTISSA_ASSIGN(result.file, FileBytes::read(path, onnx::kMostFileBytes));
  auto model = onnx::parse_model(result.file->bytes(), result.file, path.parent_path());
  if (!model.ok()) return invalid_input("'" + path.string() + "': " + model.error().message);
  result.model = std::move(*model);
  return result;
}

Error changed(const fs::path& path, const std::string& what) {
  return invalid_input(path.string() + ": was changed after its export: " + what +
                       "; export the network again");
}

// An error for a network in integers whose file computes other numbers than Mantissa. One of real
// numbers is as other ONNX models.
Status check_is_exact(const fs::path& path, const onnx::ModelData& model) {
  const bool of_sequences = entry(model, kSequenceForm) == kIntegerLayers;
  if (!of_sequences && entry(model, kNear).empty()) return {};
  return invalid_input(path.string() + ": is an exported network" +
                       (of_sequences ? " of sequences" : "") +
                       ", of which ONNX Runtime computes a part in float: it does not load back. "
                       "Name the run or the file that it was exported from");
}

// Whether the format has at most 8 bits, though some values of the network ask for 16.
bool is_of_bytes(const Format& format) {
  const int most = std::max({format.weight_bits, format.most_activation_bits(), format.end_bits,
                             format.linear_bits});
  return !format.is_float() && !format.has_row_exponents() && format.even_ties && most <= 8;
}

// Why a model's metadata have no frozen network.
Error has_no_frozen_network(const fs::path& path, const onnx::ModelData& model) {
  if (entry(model, kOrigin).empty()) {
    return invalid_input(path.string() +
                         ": is an ONNX model that `mantissa export` did not write. `mantissa run` "
                         "computes it in float; `mantissa train --from` and `mantissa import` take "
                         "its network and weights");
  }
  if (entry(model, kSequenceForm).empty()) {
    return invalid_input(path.string() +
                         ": was exported by an earlier version, without what predicting with "
                         "Mantissa needs: export the network again");
  }
  return invalid_input(path.string() +
                       ": is an exported network in fp32, which does not predict in integers. "
                       "`mantissa run` computes it; or name the run that it was exported from");
}

// The frozen network as the metadata have it; the model's weights are missing in it.
Result<FrozenNetwork> described_network(const fs::path& path, const onnx::ModelData& model) {
  MANTISSA_RETURN_IF_ERROR(check_is_exact(path, model));
  const std::string text = entry(model, kFrozen);
  if (text.empty()) return has_no_frozen_network(path, model);
  const auto bytes = from_base64(text);
  if (!bytes) return changed(path, std::string(kFrozen) + " is no base64");
  MANTISSA_ASSIGN(const SafetensorsFile file, parse_safetensors(*bytes, path));
  int64_t weights = 1;
  for (const onnx::TensorData& tensor : model.graph.initialisers) {
    weights += 2 * std::ssize(tensor.bytes);  // of 4 bits two are a byte
  }
  return frozen_network(path, file, weights);
}

// Takes the weights from the model's tensors.
Status take_weights(const onnx::ModelData& model, FrozenNetwork& network) {
  MANTISSA_ASSIGN(const auto weights, onnx::recover_weights(view(network), model));
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i].empty()) continue;
    const int tensor = network.state.layout().parameters[i].mantissa;
    std::memcpy(network.state.bytes(tensor).data(), weights[i].data(), weights[i].size());
  }
  return {};
}

// The first tensor, or else the first part, in which two models differ.
std::string difference(const onnx::ModelData& a, const onnx::ModelData& b) {
  const auto &ours = a.graph.initialisers, &theirs = b.graph.initialisers;
  const auto differs = [](const onnx::TensorData& x, const onnx::TensorData& y) {
    return x.name != y.name || x.type != y.type || x.dims != y.dims ||
           !std::equal(x.bytes.begin(), x.bytes.end(), y.bytes.begin(), y.bytes.end());
  };
  for (size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    if (differs(ours[i], theirs[i])) return "tensor '" + ours[i].name + "' differs";
  }
  return a.metadata != b.metadata ? "its metadata differ" : "its graph differs";
}

constexpr int kMostGridBits = 8;

}  // namespace

Result<onnx::ExportedModel> export_frozen(const FrozenNetwork& network, onnx::ExportTarget target) {
  const FrozenDescription& d = network.description;
  MANTISSA_RETURN_IF_ERROR(network.graph.check_no_blocks("ONNX files are written without"));
  const Value& input = onnx::main_input(d.network);
  const bool is_of_rows = input.element == Element::kNumber && input.shape.rank == 2 &&
                          !onnx::reads_numbers_as_mantissas(d.network);
  if (input.element == Element::kIndex || is_of_rows) {
    return export_sequences(network, target);
  }
  for (const Node& node : d.network.nodes) {
    if (node.op != &ops::kQuantise || node.op->bits(node.attributes) <= kMostGridBits) continue;
    const auto& grid = node.attributes.as<ops::QuantiseAttributes>();
    return invalid_input("node '" + node.name + "' has a grid of " + std::to_string(grid.bits) +
                         " bits" +
                         (grid.is_signed ? "" : " without a sign, whose mantissas have " +
                                                    std::to_string(grid.bits + 1)) +
                         ": grids of at most 7 bits, or of 8 with a sign, can be exported");
  }
  if (d.form == FrozenForm::kTieFree) {
    return invalid_input("its format has ties=up; --target tflite writes such networks");
  }
  if (!is_of_bytes(d.format)) {
    return invalid_input("networks of 8 bits can be exported, and this one computes in " +
                         to_string(d.format));
  }
  MANTISSA_ASSIGN(onnx::ExportedModel result, onnx::export_network(view(network), target));
  auto& metadata = result.model.metadata;
  metadata = {{"mantissa.class_names", class_names_text(d)},
              {"mantissa.data", d.data},
              {"mantissa.format", to_string(d.format)},
              {"mantissa.network", d.network.name},
              {kOrigin, d.weights_sha256},
              {kTarget, target == onnx::ExportTarget::kPortable ? "portable" : "ort"}};
  const bool has_columns = d.table && (!d.table->is_shaped() || !d.table->outputs.empty());
  if (has_columns) metadata[kColumns] = to_json(*d.table);
  if (result.is_near) {
    metadata[kNear] = "1";
    result.notes.emplace_back(
        "the file does not load back: predict, eval and train --from take the run");
    return result;
  }
  MANTISSA_ASSIGN(const std::string frozen, frozen_bytes(network, false));
  metadata[kFrozen] = to_base64(std::as_bytes(std::span(frozen)));
  metadata[kHash] = network.state.sha256(StateGroup::kPredictor);
  return result;
}

Result<FrozenNetwork> load_deployed(const fs::path& path) {
  MANTISSA_ASSIGN(const DeployedFile deployed, read_deployed(path));
  const onnx::ModelData& model = deployed.model;
  MANTISSA_ASSIGN(FrozenNetwork network, described_network(path, model));
  const Status taken = take_weights(model, network);
  if (!taken.ok()) return changed(path, taken.error().message);
  if (network.state.sha256(StateGroup::kPredictor) != entry(model, kHash)) {
    return changed(path, "its weights are not those that were exported");
  }
  // Mantissa computes what the graph says only if the graph is still the export's.
  const auto target = entry(model, kTarget) == "portable" ? onnx::ExportTarget::kPortable
                                                          : onnx::ExportTarget::kOnnxRuntime;
  MANTISSA_ASSIGN(onnx::ExportedModel again, export_frozen(network, target));
  again.model.metadata[kFrozen] = entry(model, kFrozen);  // has its own checksum
  MANTISSA_ASSIGN(const std::string bytes, onnx::model_bytes(again.model));
  const std::span<const std::byte> expected = std::as_bytes(std::span(bytes));
  const std::span<const std::byte> found = deployed.file->bytes();
  if (std::equal(expected.begin(), expected.end(), found.begin(), found.end())) return network;
  return changed(path, difference(again.model, model) + ", or an earlier version exported it");
}

Result<bool> is_deployed(const fs::path& path) {
  MANTISSA_ASSIGN(const DeployedFile deployed, read_deployed(path));
  MANTISSA_RETURN_IF_ERROR(check_is_exact(path, deployed.model));
  return !entry(deployed.model, kFrozen).empty();
}

}  // namespace mantissa

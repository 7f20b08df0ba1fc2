#include "networks/imported_network.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <span>

#include "base/files/atomic_file.h"
#include "base/files/file_system.h"
#include "formats/arrays/safetensors.h"
#include "formats/arrays/safetensors_header.h"
#include "models/json/network_json.h"
#include "networks/classifier.h"
#include "networks/network.h"
#include "onnx/files/reader.h"

namespace mantissa {

// The first bytes decide the kind of a file; if they do not, or if it cannot be read, the name
// decides.
bool is_onnx_file(const std::filesystem::path& path) {
  constexpr size_t kHeader = 9;  // of safetensors: a length, and JSON
  constexpr auto kVersionTag = std::byte{0x08};
  constexpr auto kLatestVersion = std::byte{0x20};  // of ONNX, by far
  const bool is_named_so = path.extension() == ".onnx";
  auto file = InputFile::open(path);
  if (!file.ok()) return is_named_so;
  std::array<std::byte, kHeader> begin{};
  const auto bytes = file->read(begin);
  if (!bytes.ok() || *bytes < static_cast<int64_t>(kHeader)) return is_named_so;
  uint64_t length = 0;
  std::memcpy(&length, begin.data(), sizeof length);
  if (begin[8] == std::byte{'{'} && length <= static_cast<uint64_t>(file->size())) return false;
  return is_named_so || (begin[0] == kVersionTag && begin[1] < kLatestVersion);
}

Result<bool> is_model_folder(const std::filesystem::path& folder) {
  return is_there(folder / "config.json");
}

Error not_imported(const std::filesystem::path& path) {
  const std::string name = path.empty() ? "." : path.string();
  return invalid_input(name + " is a model of another program; mantissa import " + name +
                       " --out FILE.safetensors makes a file of it for --from");
}

namespace {

// An error if the options say how pixels enter a model that reads none.
Status check_reads_pixels(const Graph& graph, const onnx::ImportOptions& options) {
  if (options.mean.empty() && options.deviation.empty()) return {};
  const bool reads_pixels =
      std::any_of(graph.inputs.begin(), graph.inputs.end(),
                  [&](int input) { return graph.values[input].type == DataType::kUint8; });
  if (reads_pixels) return {};
  return invalid_input(
      "input-mean and input-std are for pixels, and this model reads none; numbers are brought to "
      "mean 0 and deviation 1 by the training examples: leave them out");
}

// An error for options that the network does not have, or several outputs that no data set has.
Status check_fits(const Graph& graph, const onnx::ImportOptions& options) {
  MANTISSA_RETURN_IF_ERROR(check_reads_pixels(graph, options));
  if (!has_several_outputs(graph)) return {};
  const auto known = example_options(graph);
  return known.ok() ? Status{} : known.error();
}

}  // namespace

Result<onnx::ImportedNetwork> import_file(const std::filesystem::path& path,
                                          const onnx::ImportOptions& options) {
  MANTISSA_ASSIGN(const onnx::ModelData model, onnx::read_model(path));
  auto imported = onnx::import_network(model, options);
  if (imported.ok()) {
    const Status fits = check_fits(imported->graph, options);
    if (!fits.ok()) imported = fits.error();
  }
  if (!imported.ok()) imported.error().message = path.string() + ": " + imported.error().message;
  return imported;
}

Status check_output_chosen(const std::vector<std::string>& outputs, const std::string& chosen,
                           int64_t classes) {
  if (outputs.size() < 2 || !chosen.empty()) return {};
  std::string names;
  for (const std::string& name : outputs) {
    names += (names.empty() ? "" : ", ") + readable_name(name);
  }
  return invalid_input("the model has the outputs " + names +
                       "; --output says which of them gets " + std::to_string(classes) +
                       " classes");
}

Status set_classes(int64_t classes, const std::string& layers, const std::string& chosen,
                   onnx::ImportedNetwork& imported) {
  if (has_several_outputs(imported.graph)) {
    return invalid_input("classes: is for networks with one output, and '" + imported.graph.name +
                         "' has several; leave it out");
  }
  MANTISSA_RETURN_IF_ERROR(check_output_chosen(imported.outputs, chosen, classes));
  MANTISSA_ASSIGN(imported.graph, with_classes(imported.graph, classes, layers));
  std::map<std::string, Shape> wanted;
  for (const Parameter& parameter : imported.graph.parameters) {
    wanted[parameter.name] = parameter.shape;
  }
  std::erase_if(imported.parameters, [&](const onnx::ImportedParameter& parameter) {
    if (wanted[parameter.name] == parameter.shape) return false;
    imported.notes.push_back(parameter.name + " is left out: the layer has other channels now");
    return true;
  });
  return {};
}

std::vector<NamedParameter> named_parameters(const onnx::ImportedNetwork& imported) {
  std::vector<NamedParameter> list;
  for (const onnx::ImportedParameter& parameter : imported.parameters) {
    const bool is_real = parameter.floats.empty();
    if (parameter.blocks != BlockKind::kNone) {
      NamedParameter blocks{.name = parameter.name,
                            .type = DataType::kUint8,
                            .shape = parameter.shape,
                            .numbers = parameter.bytes};
      blocks.blocks = parameter.blocks;
      list.push_back(std::move(blocks));
      continue;
    }
    list.push_back({.name = parameter.name,
                    .type = is_real ? DataType::kDouble : DataType::kFloat,
                    .shape = parameter.shape,
                    .numbers = is_real ? std::as_bytes(std::span(parameter.doubles))
                                       : std::as_bytes(std::span(parameter.floats))});
  }
  return list;
}

Status write_imported(const std::filesystem::path& path, const onnx::ImportedNetwork& imported,
                      const std::string& source,
                      const std::map<std::string, std::string>& entries) {
  std::vector<SafetensorsView> views;
  for (const NamedParameter& parameter : named_parameters(imported)) {
    views.push_back({parameter.name, data_type_name(parameter.type), dims_in_file(parameter),
                     parameter.numbers});
  }
  std::map<std::string, std::string> metadata = {
      {"kind", kImportedKind}, {"source", source}, {"network", to_json(imported.graph)}};
  metadata.insert(entries.begin(), entries.end());
  return write_safetensors(path, metadata, views);
}

}  // namespace mantissa

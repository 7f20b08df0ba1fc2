#include "train/imported_network.h"

#include <span>

#include "formats/safetensors.h"
#include "models/network_json.h"
#include "onnx/reader.h"

namespace mantissa {

bool is_onnx_file(const std::filesystem::path& path) { return path.extension() == ".onnx"; }

Result<onnx::ImportedNetwork> import_file(const std::filesystem::path& path,
                                          const onnx::ImportOptions& options) {
  MANTISSA_ASSIGN(const onnx::ModelData model, onnx::read_model(path));
  auto imported = onnx::import_network(model, options);
  if (!imported.ok()) imported.error().message = path.string() + ": " + imported.error().message;
  return imported;
}

std::vector<NamedParameter> named_parameters(const onnx::ImportedNetwork& imported) {
  std::vector<NamedParameter> list;
  for (const onnx::ImportedParameter& parameter : imported.parameters) {
    const bool is_real = parameter.floats.empty();
    list.push_back({.name = parameter.name,
                    .type = is_real ? DataType::kDouble : DataType::kFloat,
                    .shape = parameter.shape,
                    .numbers = is_real ? std::as_bytes(std::span(parameter.doubles))
                                       : std::as_bytes(std::span(parameter.floats))});
  }
  return list;
}

Status write_imported(const std::filesystem::path& path, const onnx::ImportedNetwork& imported,
                      const std::string& source) {
  std::vector<SafetensorsView> views;
  for (const NamedParameter& parameter : named_parameters(imported)) {
    const auto dims = parameter.shape.dims.begin();
    views.push_back({parameter.name,
                     data_type_name(parameter.type),
                     {dims, dims + parameter.shape.rank},
                     parameter.numbers});
  }
  return write_safetensors(
      path, {{"kind", kImportedKind}, {"source", source}, {"network", to_json(imported.graph)}},
      views);
}

}  // namespace mantissa

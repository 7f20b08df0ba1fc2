// The command "import".
#include "api/outcome.h"
#include "api/settings.h"
#include "api/target.h"
#include "train/imported_network.h"
#include "train/run_config.h"

namespace mantissa {
namespace {

Result<ImportOutcome> import_to_file(const std::string& path, const Settings& settings) {
  MANTISSA_RETURN_IF_ERROR(check_known("import", settings));
  RunConfig config;
  std::string out;
  for (const auto& [name, text] : settings) {
    if (name == "out") out = text;
    if (name == "output") config.import_options.output = text;
    for (const Setting& setting : training_settings()) {
      if (name != setting.name || !is_of_imports(name)) continue;
      Status status = setting.parse(text, config);
      if (!status.ok()) return invalid_input(name + ": " + status.error().message);
    }
  }
  if (out.empty()) return invalid_input("--out: name the safetensors file to write");
  MANTISSA_RETURN_IF_ERROR(check_target("out", out));
  MANTISSA_ASSIGN(onnx::ImportedNetwork imported, import_file(path, config.import_options));
  MANTISSA_RETURN_IF_ERROR(write_imported(out, imported, path));
  ImportOutcome outcome;
  outcome.network = imported.graph.name;
  outcome.layers = std::ssize(imported.graph.nodes);
  outcome.parameters = imported.graph.trained_parameters();
  outcome.notes = std::move(imported.notes);
  return outcome;
}

}  // namespace

ImportOutcome import_model(const std::string& path, const Settings& settings) {
  Result<ImportOutcome> outcome = import_to_file(path, settings);
  return outcome.ok() ? std::move(*outcome) : refused<ImportOutcome>(outcome.error());
}

}  // namespace mantissa

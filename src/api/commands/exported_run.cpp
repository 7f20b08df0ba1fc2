#include "api/commands/exported_run.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/files/atomic_file.h"
#include "base/files/file_system.h"
#include "device/export_training.h"
#include "device/saved_state.h"
#include "run/checkpoint.h"
#include "run/settings/config_file.h"
#include "run/settings/run_folder.h"
#include "run/settings/starting_point.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestFile = int64_t{1} << 32;

std::string folder_of(const std::string& path) {
  return fs::is_directory(path) ? path : fs::path(path).parent_path().string();
}

// The files that say what a run is.
Status copy_settings(const fs::path& from, const fs::path& to) {
  for (const char* name : {kNetworkFile, kStartFile, kConfigFile}) {
    MANTISSA_ASSIGN(const bool exists, is_there(from / name));
    if (!exists) continue;
    MANTISSA_ASSIGN(const auto bytes, read_file(from / name, kLargestFile));
    const std::span<const std::byte> pieces[] = {bytes};
    MANTISSA_RETURN_IF_ERROR(write_file_atomically(to / name, pieces));
  }
  return {};
}

Status check_new_folder(const std::string& folder) {
  MANTISSA_ASSIGN(const PathKind kind, path_kind(folder));
  if (kind == PathKind::kNothing) return {};
  if (kind == PathKind::kFolder) {
    MANTISSA_ASSIGN(const auto names, list_names(folder));
    if (names.empty()) return {};
  }
  return invalid_input("--out: '" + folder + "' is there already; name a new folder");
}

}  // namespace

Result<ExportedRun> read_run(const std::string& path) {
  const fs::path folder = folder_of(path);
  MANTISSA_ASSIGN(const ConfigFile file, read_config(folder / kConfigFile));
  ExportedRun run;
  MANTISSA_ASSIGN(run.config, make_run_config(file.settings, file.derived));
  run.config.out = folder.string();
  run.config.resume = true;
  MANTISSA_ASSIGN(const DatasetInfo info, inspect_run_data(run.config));
  MANTISSA_ASSIGN(run.plan, plan_run(run.config, info));
  MANTISSA_ASSIGN(const RunData data, load_run_data(run.config, info, run.plan));
  MANTISSA_RETURN_IF_ERROR(set_channel_means(run.config, data.channel_means, run.plan));
  run.identity = run_identity(run.config, data.sha256);
  return run;
}

Status check_has_one_answer(const std::string& path, const ModelOptions& options) {
  if (options.loss == ops::LossKind::kCtc) {
    return invalid_input(path +
                         ": the network finds labels in an order (ctc_loss), which this target "
                         "does not read from logits; predict --input takes files");
  }
  if (options.outputs.empty()) return {};
  return invalid_input(path + ": the network has several outputs, and this target has one; --target ort "
                              "and portable write all to an ONNX file");
}

bool is_saved_state(const std::string& path) {
  auto file = InputFile::open(path);
  if (!file.ok()) return false;
  std::array<std::byte, device::kSavedMagic.size()> begin = {};
  return file->read(begin).ok() &&
         std::memcmp(begin.data(), device::kSavedMagic.data(), begin.size()) == 0;
}

Outcome<ImportedModel> import_state(const std::string& path, const std::string& from,
                                    const std::string& out) {
  if (from.empty()) {
    return invalid_input("--run: name the folder of the run that the program was exported from");
  }
  MANTISSA_RETURN_IF_ERROR(check_new_folder(out));
  MANTISSA_ASSIGN(const auto bytes, read_file(path, kLargestFile));
  MANTISSA_ASSIGN(const ExportedRun run, read_run(from));
  MANTISSA_ASSIGN(State state, State::create(run.plan.layout));
  // Parameters that are not trained are those of the run.
  MANTISSA_ASSIGN(const auto before, load_newest_checkpoint(folder_of(from), run.identity, state));
  if (!before) return invalid_input("--run: '" + from + "' has no checkpoint");
  CheckpointInfo info;
  info.run_identity = run.identity;
  const auto step = device::read_saved_state(bytes, run.plan.graph, run.config.format, state);
  if (!step.ok()) return make_error(step.error().code, path + ": " + step.error().message);
  info.step = *step;
  MANTISSA_RETURN_IF_ERROR(make_folder(out));
  MANTISSA_RETURN_IF_ERROR(copy_settings(folder_of(from), out));
  MANTISSA_RETURN_IF_ERROR(write_checkpoint(checkpoint_path(out, info.step), info, state));
  ImportedModel model;
  model.network = run.plan.graph.name;
  model.layers = std::ssize(run.plan.graph.nodes);
  model.parameters = run.plan.graph.trained_parameters();
  model.notes = {"the state after step " + std::to_string(info.step) + ", weights_sha256 " +
                     state.sha256(StateGroup::kStatistics),
                 "mantissa train --resume --out " + out + " goes on from there"};
  return model;
}

}  // namespace mantissa

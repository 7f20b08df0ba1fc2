// Networks as JSON, for info.
#include "networks/network.h"

#include <filesystem>
#include <string>

#include "api/outcome.h"
#include "api/settings/commands.h"
#include "api/settings/settings.h"
#include "base/files/file_system.h"
#include "data/datasets/dataset.h"
#include "infer/frozen_network.h"
#include "mantissa/mantissa.h"
#include "models/json/network_json.h"
#include "run/plan/run_data.h"
#include "run/settings/run_folder.h"
#include "run/settings/run_network.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

struct InfoConfig {};
constexpr SettingOf<InfoConfig> kInfoRows[] = {
    {kOfTraining},
    // describe_path() reads it.
    {"shape", "sizes of an ONNX network's input, as in x=1x3x224x224", "", nullptr, traits::kList}};
constexpr CommandOf<InfoConfig> kInfoCommand = {"info", kInfoRows, traits::kInInfo};

// The network of a run's folder, or of a frozen network.
Result<Graph> network_at(const fs::path& path) {
  MANTISSA_ASSIGN(const PathKind kind, path_kind(path));
  const bool is_run = kind == PathKind::kFolder;
  if (is_run) {
    MANTISSA_ASSIGN(const bool has_network, is_there(path / kNetworkFile));
    if (has_network) return read_network(path / kNetworkFile);
  }
  MANTISSA_ASSIGN(FrozenNetwork frozen, load_frozen(is_run ? path / kModelFile : path));
  return std::move(frozen.description.network);
}

// The network that a run with these settings would train.
Result<Graph> network_of(const Settings& settings) {
  MANTISSA_ASSIGN(const RunConfig config, make_run_config(settings));
  const bool has_data = !config.network || settings.contains("data");
  if (!has_data) return *config.network;
  MANTISSA_ASSIGN(const DatasetInfo data, inspect_run_data(config));
  MANTISSA_ASSIGN(const ModelOptions options, model_options(config, data));
  if (config.network) return *config.network;
  MANTISSA_ASSIGN(Graph network, build_network(config, options));
  leave_out_means(network);
  return network;
}

Result<Graph> find_network(Settings settings) {
  const auto path = settings.find("path");
  const std::string named = path == settings.end() ? "" : path->second;
  if (path != settings.end()) settings.erase(path);
  MANTISSA_RETURN_IF_ERROR(check_known("info", settings));
  if (named.empty() == settings.empty()) {
    return invalid_input("--graph: name either --model, or a run or a file of a trained network");
  }
  return named.empty() ? network_of(settings) : network_at(named);
}

}  // namespace

CommandInfo info_command() { return info_of<kInfoCommand>(); }

Outcome<NetworkDescription> describe_network(const Settings& settings) {
  MANTISSA_ASSIGN(const Graph network, find_network(settings));
  return NetworkDescription{to_json(network)};
}

}  // namespace mantissa

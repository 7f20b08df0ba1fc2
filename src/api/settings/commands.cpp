#include "api/settings/commands.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "api/settings/settings.h"

namespace mantissa {
namespace {

struct ServerConfig {};

// The command line alone has these two: it reads their settings.
constexpr SettingOf<ServerConfig> kLaunchRows[] = {
    {"processes", "processes to start: one for each stage, times --replicas"},
    {"hosts", "file of the hosts to start them on, as mpirun takes it: NAME slots=N"},
    {"deadline", "seconds after which a process that is not heard of ends the run", "60"}};
constexpr CommandOf<ServerConfig> kLaunchCommand = {"launch", kLaunchRows};

constexpr SettingOf<ServerConfig> kServeRows[] = {
    {"checkpoint",
     "folder of a run, its model.safetensors, an exported .onnx file, or a language model: a file "
     "that import wrote, a GGUF file, or a folder with config.json"},
    {"format", "number format of a language model's file (left out: fp32)"},
    {"sequence",
     "positions of a text, of another program's language model (left out: 1,024, or as many as it "
     "has)"},
    {"threads", "threads that a language model computes with (left out, or 0: one per core)"},
    {"host", "address to listen on; 127.0.0.1 is this machine alone", "127.0.0.1"},
    {"port", "port to listen on (0: any that is free)", "8080"},
    {"names", "other names by which clients may call this machine, with commas"}};
constexpr CommandOf<ServerConfig> kServeCommand = {"serve", kServeRows};

constexpr CommandInfo (*kCommands[])() = {
    bench_command,    chat_command,      data_command,     embed_command,    eval_command,
    export_command,   fill_mask_command, generate_command, import_command,   info_command,
    launch_command,   plan_command,      predict_command,  profile_command,  quantize_command,
    report_command,   run_command,       serve_command,    simulate_command, statistics_command,
    train_command,    translate_command};

}  // namespace

std::vector<SettingInfo> settings_of(const std::string& command) {
  for (const auto& row : kCommands) {
    if (row().name == command) return row().settings();
  }
  return {};
}

Status check_known(const std::string& command, const Settings& settings) {
  const std::vector<SettingInfo> known = settings_of(command);
  for (const auto& [name, text] : settings) {
    const bool found = std::any_of(known.begin(), known.end(),
                                   [&name = name](const auto& info) { return info.name == name; });
    if (!found) return invalid_input("unknown setting '" + name + "' of " + command);
  }
  return {};
}

void list_training(uint32_t trait, std::vector<SettingInfo>& infos) {
  const size_t listed = infos.size();
  for (const Setting& row : training_settings()) {
    const bool is_listed = std::any_of(infos.begin(), infos.begin() + static_cast<long>(listed),
                                       [&](const auto& info) { return info.name == row.name; });
    if (!is_listed && (trait == 0 || row.has(trait))) infos.push_back(info_of(row));
  }
}

CommandInfo launch_command() { return info_of<kLaunchCommand>(); }

CommandInfo serve_command() { return info_of<kServeCommand>(); }

}  // namespace mantissa

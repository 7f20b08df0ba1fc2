// info, completion, and what import says before it imports.
#include "cli/command_line/completion.h"
#include "cli/commands/commands.h"
#include "cli/commands/printers.h"
#include "cli/commands/run_and_print.h"
#include "cli/reports/report.h"
#include "mantissa/language.h"

namespace mantissa::cli {
namespace {

// Settings of info that no network has.
bool is_of_info(const std::string& name) {
  return name == "isa" || name == "graph" || name == "tensors" || name == "shape";
}

int run_graph(const CommandLine& line) {
  Settings settings = line.settings;
  std::erase_if(settings, [](const auto& item) { return is_of_info(item.first); });
  if (!line.paths.empty()) settings["path"] = line.paths[0];
  const Outcome<NetworkDescription> network = describe_network(settings);
  if (!network.ok()) return tell(line, network.failure());
  print(network->json);
  return 0;
}

}  // namespace

int run_info(const CommandLine& line) {
  release_stop_signals();
  if (line.setting("graph") == "true") return run_graph(line);
  for (const auto& [name, text] : line.settings) {
    if (is_of_info(name)) continue;
    return tell(line, {Exit::kInvalidInput,
                       "--" + name + " is for --graph, which prints a network as JSON"});
  }
  if (!line.paths.empty()) return run_and_print<describe_path, print_description>(line);
  const Outcome<Info> found = info(line.setting("isa"));
  if (!found.ok()) return tell(line, found.failure());
  print(line.json ? info_json(*found) : info_report(*found, describe_terminal(1)));
  return 0;
}

int run_import(const CommandLine& line) {
  release_stop_signals();
  const Outcome<LanguageModelDescription> model = describe_language_model(line.paths[0]);
  if (!model.ok()) return tell(line, model.failure());
  if (!line.quiet && !line.json) {
    for (const std::string& text : model->lines) print(printable(text) + "\n");
    std::fflush(stdout);
  }
  return run_and_print<import_model, print_imported>(line);
}

int run_completion(const CommandLine& line) {
  release_stop_signals();
  const std::string script = completion_script(line.paths[0]);
  if (script.empty()) {
    return tell(line, {Exit::kInvalidInput,
                       "no script for '" + line.paths[0] + "': choose bash, zsh or fish"});
  }
  print(script);
  return 0;
}

}  // namespace mantissa::cli

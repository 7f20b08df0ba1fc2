#include "cli/next_steps.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "cli/reports/report.h"

namespace mantissa::cli {
namespace {

namespace fs = std::filesystem;
using Named = std::vector<std::pair<std::string, std::string>>;

// The run's name for another run beside it: "runs/a" -> "runs/resnet20", or "runs/resnet20-2" ...
std::string free_neighbour(const std::string& out, const std::string& name) {
  fs::path folder(out);
  if (!folder.has_filename()) folder = folder.parent_path();
  std::error_code ignored;
  for (int i = 1; i < 100; ++i) {
    const fs::path path = folder.parent_path() / (i == 1 ? name : name + "-" + std::to_string(i));
    if (!fs::exists(path, ignored)) return path.string();
  }
  return (folder.parent_path() / (name + "-next")).string();
}

// "runs/a" -> "runs/a.onnx".
std::string run_file(const std::string& out) {
  const fs::path folder(out);
  return (folder.has_filename() ? folder : folder.parent_path()).string() + ".onnx";
}

// Some test examples; if there are enough, the ones after those that train has shown.
std::string some_examples(const std::string& summary_json) {
  const int64_t count = std::atoll(summary_entry(summary_json, "test_examples").c_str());
  return count >= 20 ? "10-19" : count > 1 ? "0-" + std::to_string(count - 1) : "0";
}

// The run's own settings, with another network that fits them and the data; if necessary, in
// another format. Empty if there is none.
Named another_network(const CommandLine& line, const std::string& out,
                      const std::string& summary_json) {
  for (const char* format : {"", "bfp8"}) {
    for (const char* model : {"resnet20", "resnet8", "lenet5", "mlp"}) {
      if (summary_entry(summary_json, "model") == model) continue;
      Named settings = {{"config", (fs::path(out) / "config.toml").string()}, {"model", model}};
      if (*format != '\0') settings.emplace_back("format", format);
      // A learning rate that was chosen for one network is not for another.
      if (line.settings.contains("learning-rate")) settings.emplace_back("learning-rate", "0");
      const std::string budget = line.setting("memory-budget");
      if (!budget.empty()) settings.emplace_back("memory-budget", budget);
      if (plan({settings.begin(), settings.end()}).ok()) return settings;
    }
  }
  return {};
}

}  // namespace

std::string next_steps(const CommandLine& line, const std::string& out,
                       const std::string& summary_json) {
  std::string text = "What to try next:\n";
  const auto add = [&](const std::string& command, const Named& settings) {
    text += "  " + command_text(line.program, command, settings) + "\n";
  };
  const std::string data = summary_entry(summary_json, "data");
  add("eval", {{"checkpoint", out}, {"data", data}});
  if (!summary_entry(summary_json, "test_perplexity").empty()) {
    const std::string model = summary_entry(summary_json, "model");
    if (model.ends_with("nmt")) {
      add("translate", {{"checkpoint", out}, {"text", "Good morning."}});
    } else if (model.starts_with("bert")) {
      add("fill-mask", {{"checkpoint", out}, {"text", "th[MASK]"}});
    } else {
      add("generate", {{"checkpoint", out}, {"prompt", "The "}, {"temperature", "0.7"}});
    }
    return text;
  }
  add("predict", {{"checkpoint", out}, {"data", data}, {"index", some_examples(summary_json)}});
  if (line.command == "quantize") {
    const std::string format = summary_entry(summary_json, "format");
    const std::string method = line.setting("train");
    const bool has_offsets = method == "lsqplus" || method == "wrpn";
    if ((format == "bfp8" || format == "dfp8") && !has_offsets) {
      add("export", {{"checkpoint", out}, {"out", run_file(out)}});
    }
    return text;
  }
  const Named other = another_network(line, out, summary_json);
  if (other.empty()) return text;
  Named longer = other;
  longer.emplace_back("epochs", "10");
  longer.emplace_back("out", free_neighbour(out, other[1].second));
  add("train", longer);
  add("plan", other);
  return text;
}

}  // namespace mantissa::cli

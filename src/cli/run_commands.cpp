#include "cli/run_commands.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/command_line/output.h"
#include "cli/reports/report.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/text.h"
#include "mantissa/language.h"
#include "mantissa/mantissa.h"
#include "mantissa/onnx.h"
#include "mantissa/runs.h"

namespace mantissa::cli {

int run_verify(const CommandLine& line) {
  const VerifyOutcome outcome = verify(line.paths[0], line.paths[1]);
  const int code = exit_code(line, outcome);
  if (!outcome.error.empty()) return code;
  if (line.json) {
    print(verify_json(outcome));
  } else if (!line.quiet) {
    print(verify_report(outcome, describe_terminal(1)));
  }
  return code;
}

namespace {

// Keeps line feeds and tabs, and drops all other characters that a terminal would obey.
std::string printable_lines(const std::string& text) {
  std::string result;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find_first_of("\n\t", begin), text.size());
    result += printable(text.substr(begin, end - begin));
    if (end < text.size()) result += text[end];
    begin = end + 1;
  }
  return result;
}

}  // namespace

int run_generate(const CommandLine& line) {
  const GenerationOutcome outcome = generate(line.settings);
  if (const int code = exit_code(line, outcome)) return code;
  if (line.json) {
    const nlohmann::ordered_json json = {{"prompt", outcome.prompt}, {"text", outcome.text}};
    print(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  } else {
    print(printable_lines((line.quiet ? "" : outcome.prompt) + outcome.text) + "\n");
  }
  return 0;
}

int run_fill_mask(const CommandLine& line) {
  const MaskOutcome outcome = fill_mask(line.settings);
  if (const int code = exit_code(line, outcome)) return code;
  if (line.json) {
    auto masks = nlohmann::ordered_json::array();
    for (const auto& mask : outcome.masks) {
      auto guesses = nlohmann::ordered_json::array();
      for (const MaskOutcome::Guess& guess : mask) {
        guesses.push_back({{"token", guess.token}, {"probability", guess.probability}});
      }
      masks.push_back(std::move(guesses));
    }
    const nlohmann::ordered_json json = {{"masks", std::move(masks)}};
    print(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
    return 0;
  }
  for (const auto& mask : outcome.masks) {
    std::string text;
    for (const MaskOutcome::Guess& guess : mask) {
      std::array<char, 16> percent{};
      std::snprintf(percent.data(), percent.size(), " %.1f %%", 100 * guess.probability);
      text += (text.empty() ? "'" : ", '") + printable(guess.token) + "'" + percent.data();
    }
    print(text + "\n");
  }
  return 0;
}

int run_translate(const CommandLine& line) {
  TranslationOutcome outcome;
  {
    ProgressDisplay display(describe_terminal(2), line.quiet);
    outcome = translate(line.settings, {}, [&](const Progress& progress) {
      display.show(progress);
      return true;
    });
  }
  if (const int code = exit_code(line, outcome)) return code;
  for (const std::string& note : outcome.notes) say("mantissa translate: " + printable(note));
  if (outcome.truncated > 0) {
    say("mantissa translate: of " + std::to_string(outcome.truncated) +
        " sentences the end was not read: they have more tokens than the network reads");
  }
  const std::string file = line.setting("out");
  if (line.json) {
    const nlohmann::ordered_json json = {{"sources", outcome.sources},
                                         {"translations", outcome.translations},
                                         {"truncated", outcome.truncated},
                                         {"notes", outcome.notes},
                                         {"seconds", outcome.seconds}};
    print(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  } else if (file.empty()) {
    for (const std::string& one : outcome.translations) print(printable(one) + "\n");
  } else if (!line.quiet) {
    print(std::to_string(outcome.translations.size()) + " translations, written to " +
          printable(file) + "\n");
  }
  return 0;
}

int run_embed(const CommandLine& line) {
  const EmbeddingOutcome outcome = embed(line.settings);
  if (const int code = exit_code(line, outcome)) return code;
  if (line.json) {
    const nlohmann::ordered_json json = {{"sentences", outcome.sentences},
                                         {"channels", outcome.channels},
                                         {"truncated", outcome.truncated},
                                         {"seconds", outcome.seconds},
                                         {"file", line.setting("out")}};
    print(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
    return 0;
  }
  if (outcome.truncated > 0) {
    say("mantissa embed: " + std::to_string(outcome.truncated) +
        " sentences were cut short: --sequence says how many tokens are read");
  }
  if (!line.quiet) {
    print(std::to_string(outcome.sentences) + " vectors of " + std::to_string(outcome.channels) +
          " numbers, written to " + printable(line.setting("out")) + "\n");
  }
  return 0;
}

int run_report(const CommandLine& line) {
  const ReportOutcome outcome = report(line.paths, line.settings);
  if (const int code = exit_code(line, outcome)) return code;
  for (const std::string& problem : outcome.problems) {
    say("mantissa report: warning: " + printable(problem));
  }
  if (line.json) {
    const nlohmann::ordered_json json = {{"file", outcome.file}, {"problems", outcome.problems}};
    print(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  } else if (!line.quiet) {
    print("written to " + printable(outcome.file) + "\n");
  }
  return 0;
}

int run_export(const CommandLine& line) {
  const ExportOutcome outcome = export_model(line.settings);
  if (const int code = exit_code(line, outcome)) return code;
  if (line.json) {
    const nlohmann::ordered_json json = {
        {"file", outcome.file}, {"nodes", outcome.nodes}, {"notes", outcome.notes}};
    print(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  } else if (!line.quiet) {
    for (const std::string& note : outcome.notes) print("note: " + printable(note) + "\n");
    print("written to " + printable(outcome.file) + ": " + std::to_string(outcome.nodes) +
          " nodes\n");
  }
  return 0;
}

int run_statistics(const CommandLine& line) {
  const StatisticsOutcome outcome = statistics(line.paths[0], line.settings);
  if (const int code = exit_code(line, outcome)) return code;
  for (const std::string& problem : outcome.problems) {
    say("mantissa statistics: warning: " + printable(problem));
  }
  if (line.json) {
    print(outcome.json);
  } else {
    print(line.quiet ? statistics_line(outcome.json) + "\n"
                     : statistics_report(outcome.json, describe_terminal(1)));
  }
  return 0;
}

int run_import(const CommandLine& line) {
  const ImportOutcome outcome = import_model(line.paths[0], line.settings);
  if (const int code = exit_code(line, outcome)) return code;
  if (line.json) {
    const nlohmann::ordered_json json = {{"network", outcome.network},
                                         {"layers", outcome.layers},
                                         {"parameters", outcome.parameters},
                                         {"file", line.setting("out")},
                                         {"notes", outcome.notes}};
    print(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
    return 0;
  }
  for (const std::string& note : outcome.notes) say("mantissa import: " + printable(note));
  if (!line.quiet) {
    print(printable(outcome.network) + ": " + std::to_string(outcome.layers) + " layers, " +
          std::to_string(outcome.parameters) + " parameters, written to " +
          printable(line.setting("out")) + "\n");
  }
  return 0;
}

int run_describe(const CommandLine& line) {
  const DescriptionOutcome outcome = describe_path(line.paths[0], line.settings);
  if (const int code = exit_code(line, outcome)) return code;
  print(line.json ? outcome.json
                  : description_report(outcome.json, line.setting("tensors") == "true",
                                       describe_terminal(1)));
  return 0;
}

int run_onnx_network(const CommandLine& line) {
  const OnnxRunOutcome outcome = run_onnx(line.paths[0], line.settings);
  if (const int code = exit_code(line, outcome)) return code;
  if (line.json) {
    nlohmann::ordered_json json = {{"file", line.setting("out")}, {"seconds", outcome.seconds}};
    json["outputs"] = nlohmann::ordered_json::array();
    for (const ArrayInfo& output : outcome.outputs) {
      json["outputs"].push_back(
          {{"name", output.name}, {"type", output.type}, {"shape", output.shape}});
    }
    print(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  } else if (!line.quiet) {
    print(onnx_run_report(outcome, line.setting("out")));
  }
  return 0;
}

}  // namespace mantissa::cli

#include "cli/commands/printers.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/command_line/output.h"
#include "cli/reports/report.h"
#include "cli/terminal/picture.h"

namespace mantissa::cli {
namespace {

using Json = nlohmann::ordered_json;

// More pictures than this are a wall, not a view.
constexpr size_t kMostPictures = 24;

void print_json(const Json& json) {
  print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

void say_of(const CommandLine& line, const std::string& text) {
  say("mantissa " + line.command + ": " + text);
}

}  // namespace

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

const char* finish_name(const GeneratedText& generated) {
  switch (generated.finish) {
    case TextFinish::kEnd:
      return "end";
    case TextFinish::kStopped:
      return "stopped";
    case TextFinish::kStop:
      return "stop";
    case TextFinish::kLength:
      break;
  }
  return "length";
}

void print_evaluation(const CommandLine& line, const Evaluation& evaluation) {
  print(line.json ? evaluation.json
                  : evaluation_report(evaluation, !line.quiet, describe_terminal(1)));
}

void print_predictions(const CommandLine& line, const Predictions& predictions) {
  for (const std::string& note : predictions.notes) say_of(line, printable(note));
  for (const std::string& problem : predictions.problems) say(printable(problem));
  if (predictions.predictions.empty()) return;
  const Terminal terminal = describe_terminal(1);
  if (line.json) return print(prediction_json(predictions));
  if (line.setting("csv") == "-") return print(predictions.csv);
  if (!line.quiet && predictions.predictions.size() <= kMostPictures) {
    print(picture_gallery(predictions, terminal));
  }
  print(prediction_table(predictions, terminal));
}

void print_generated(const CommandLine& line, const GeneratedText& generated) {
  if (line.json) {
    return print_json({{"prompt", generated.prompt},
                       {"text", generated.text},
                       {"tokens", generated.tokens},
                       {"finish", finish_name(generated)},
                       {"weights_bytes", generated.memory.weights},
                       {"cache_bytes", generated.memory.cache},
                       {"arena_bytes", generated.memory.arena}});
  }
  print(printable_lines((line.quiet ? "" : generated.prompt) + generated.text) + "\n");
  std::fflush(stdout);
  if (!generated.memory.is_cached) {
    say_of(line, "each token was computed with all tokens before it: the network has operators "
                 "that read ahead, which no cache serves");
  }
  if (line.quiet || generated.finish != TextFinish::kEnd) return;
  say_of(line, "the model ended its text after " + std::to_string(generated.tokens) + " tokens");
}

void print_masks(const CommandLine& line, const FilledMasks& filled) {
  Json masks = Json::array();
  for (const auto& mask : filled.masks) {
    Json guesses = Json::array();
    std::string text;
    for (const FilledMasks::Guess& guess : mask) {
      guesses.push_back({{"token", guess.token}, {"probability", guess.probability}});
      std::array<char, 16> percent{};
      std::snprintf(percent.data(), percent.size(), " %.1f %%", 100 * guess.probability);
      text += (text.empty() ? "'" : ", '") + printable(guess.token) + "'" + percent.data();
    }
    masks.push_back(std::move(guesses));
    if (!line.json) print(text + "\n");
  }
  if (line.json) print_json({{"masks", std::move(masks)}});
}

void print_translations(const CommandLine& line, const Translations& translations) {
  for (const std::string& note : translations.notes) say_of(line, printable(note));
  if (translations.truncated > 0) {
    say_of(line, "of " + std::to_string(translations.truncated) +
                     " sentences the end was not read: they have more tokens than the network "
                     "reads");
  }
  const std::string file = line.setting("out");
  if (line.json) {
    print_json({{"sources", translations.sources},
                {"translations", translations.translations},
                {"truncated", translations.truncated},
                {"notes", translations.notes},
                {"seconds", translations.seconds}});
  } else if (file.empty()) {
    for (const std::string& one : translations.translations) print(printable(one) + "\n");
  } else if (!line.quiet) {
    print(std::to_string(translations.translations.size()) + " translations, written to " +
          printable(file) + "\n");
  }
}

void print_embeddings(const CommandLine& line, const Embeddings& embeddings) {
  if (line.json) {
    return print_json({{"sentences", embeddings.sentences},
                       {"channels", embeddings.channels},
                       {"truncated", embeddings.truncated},
                       {"seconds", embeddings.seconds},
                       {"file", line.setting("out")}});
  }
  if (embeddings.truncated > 0) {
    say_of(line, std::to_string(embeddings.truncated) +
                     " sentences were cut short: --sequence says how many tokens are read");
  }
  if (line.quiet) return;
  print(std::to_string(embeddings.sentences) + " vectors of " +
        std::to_string(embeddings.channels) + " numbers, written to " +
        printable(line.setting("out")) + "\n");
}

void print_exported(const CommandLine& line, const ExportedModel& model) {
  if (line.json) {
    return print_json({{"file", model.file}, {"nodes", model.nodes}, {"notes", model.notes}});
  }
  if (line.quiet) return;
  for (const std::string& note : model.notes) print("note: " + printable(note) + "\n");
  print("written to " + printable(model.file) + ": " + std::to_string(model.nodes) + " nodes\n");
}

void print_imported(const CommandLine& line, const ImportedModel& model) {
  if (line.json) {
    Json result = {{"network", model.network},
                   {"layers", model.layers},
                   {"parameters", model.parameters},
                   {"file", line.setting("out")},
                   {"notes", model.notes}};
    if (!model.description.empty()) result["description"] = model.description;
    return print_json(result);
  }
  for (const std::string& note : model.notes) say_of(line, printable(note));
  if (line.quiet) return;
  print(printable(model.network) + ": " + std::to_string(model.layers) + " layers, " +
        std::to_string(model.parameters) + " parameters, written to " +
        printable(line.setting("out")) + "\n");
}

void print_blocks(const CommandLine& line, const LanguageModelInBlocks& model) {
  if (line.json) return print_whole_lines(model.json);
  print("loss " + decimal(model.loss_before, 4) + " before, " + decimal(model.loss_after, 4) +
        " with these weights: fp32, " + std::to_string(model.held_out_tokens) +
        " tokens that were not used\n");
  if (line.quiet) return;
  print(model.blocks + "\nwritten to " + printable(model.file) +
        "; values have the bits of the format that train, eval and generate name\n");
}

void print_data(const CommandLine& line, const DataDescription& data) {
  print(line.json    ? data.json
        : line.quiet ? data_line(data.json)
                     : data_report(data.json, describe_terminal(1)));
}

void print_plan(const CommandLine& line, const Plan& plan) {
  print_whole_lines(line.json ? plan.json : plan.text);
}

void print_simulation(const CommandLine& line, const Simulation& simulation) {
  print(line.json ? simulation.json + "\n" : simulation.text);
}

void print_profile(const CommandLine& line, const MeasuredProfile& profile) {
  print(line.json ? profile.json + "\n" : profile.text);
  if (!line.quiet) say("written to " + printable(profile.path));
}

void print_bench(const CommandLine& line, const BenchReport& bench) {
  if (!line.json && !line.quiet) {
    return print(bench_report(bench.json, line.setting("sort") == "time", describe_terminal(1)));
  }
  for (const std::string& warning : bench_warnings(bench.json)) {
    say_of(line, "warning: " + warning);
  }
  print(line.json ? bench.json : bench_line(bench.json));
}

void print_comparison(const CommandLine& line, const Comparison& comparison) {
  if (line.json) return print(verify_json(comparison));
  if (!line.quiet) print(verify_report(comparison, describe_terminal(1)));
}

void print_written_report(const CommandLine& line, const WrittenReport& report) {
  for (const std::string& problem : report.problems) {
    say_of(line, "warning: " + printable(problem));
  }
  if (line.json) return print_json({{"file", report.file}, {"problems", report.problems}});
  if (!line.quiet) print("written to " + printable(report.file) + "\n");
}

void print_statistics(const CommandLine& line, const RunStatistics& statistics) {
  for (const std::string& problem : statistics.problems) {
    say_of(line, "warning: " + printable(problem));
  }
  print(line.json    ? statistics.json
        : line.quiet ? statistics_line(statistics.json) + "\n"
                     : statistics_report(statistics.json, describe_terminal(1)));
}

void print_description(const CommandLine& line, const PathDescription& description) {
  print(line.json ? description.json
                  : description_report(description.json, line.setting("tensors") == "true",
                                       describe_terminal(1)));
}

void print_onnx_outputs(const CommandLine& line, const OnnxOutputs& ran) {
  if (!line.json && line.quiet) return;
  if (!line.json) return print(onnx_run_report(ran, line.setting("out")));
  Json json = {{"file", line.setting("out")}, {"seconds", ran.seconds}};
  json["outputs"] = Json::array();
  for (const ArrayInfo& output : ran.outputs) {
    json["outputs"].push_back(
        {{"name", output.name}, {"type", output.type}, {"shape", output.shape}});
  }
  print_json(json);
}

}  // namespace mantissa::cli

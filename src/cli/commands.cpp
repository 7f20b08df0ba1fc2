#include "cli/commands.h"

#include <chrono>
#include <cstdio>
#include <filesystem>

#include "cli/command_line/completion.h"
#include "cli/command_line/output.h"
#include "cli/fetched.h"
#include "cli/launch/launch.h"
#include "cli/next_steps.h"
#include "cli/reports/report.h"
#include "cli/run_commands.h"
#include "cli/serve.h"
#include "cli/terminal/picture.h"
#include "cli/terminal/process.h"
#include "cli/terminal/progress.h"

namespace mantissa::cli {
namespace {

// More pictures than this are a wall, not a view.
constexpr size_t kMostPictures = 24;

// For JSON of the library, whose last line may lack its end.
void print_whole_lines(const std::string& text) {
  print(text);
  if (!text.empty() && text.back() != '\n') print("\n");
}

// The progress of a training run.
struct TrainedRun {
  TrainingOutcome outcome;
  double seconds = 0;
  std::string out;     // folder of its results; "" if not known
  std::string data;    // its training data
  bool saved = false;  // a checkpoint, from which it can go on
};

// Some test examples with the trained network's guesses. Nothing if they cannot be had: the
// training itself is done.
std::string sample_predictions(const CommandLine& line, const TrainedRun& run,
                               const Terminal& terminal) {
  Settings settings = {{"checkpoint", run.out}, {"data", run.data}, {"index", "0-5"}};
  for (const SettingInfo& info : settings_of("predict")) {
    // Such as "threads". Settings given above stay.
    const auto given = line.settings.find(info.name);
    if (given != line.settings.end()) settings.insert(*given);
  }
  const PredictionOutcome outcome = predict(settings);
  if (outcome.exit != Exit::kDone || !outcome.error.empty()) return "";
  return "\n" + picture_gallery(outcome, terminal);
}

void report_training(const CommandLine& line, const TrainedRun& run) {
  const Terminal terminal = describe_terminal(1);
  const std::string& summary = run.outcome.summary_json;
  if (line.json) return print_whole_lines(summary);
  if (line.quiet) return print(training_line(summary, run.out));
  const std::optional<double> time =
      run.outcome.already_finished ? std::nullopt : std::optional<double>(run.seconds);
  print("\n" + training_report(summary, time, terminal));
  if (run.out.empty()) return;
  const std::filesystem::path folder(run.out);
  print("  " + terminal.paint("2", pad_right("results", 15)) +
        printable((folder / "model.safetensors").string()) + ", " +
        printable((folder / "summary.json").string()) + "\n");
  // It may take a moment, so the known part is shown first.
  std::fflush(stdout);
  if (summary_entry(summary, "test_perplexity").empty()) {
    print(sample_predictions(line, run, terminal));
  }
  print(next_steps(line, run.out, summary));
}

// Trains, and shows how it gets on.
template <typename Train>
TrainedRun train_visibly(const CommandLine& line, const Train& train) {
  const Terminal terminal = describe_terminal(2);
  const auto start = std::chrono::steady_clock::now();
  TrainedRun run;
  run.out = line.setting("out");
  run.saved = line.setting("resume") == "true";
  ProgressDisplay display(terminal, line.quiet);
  Interrupt interrupt("stopping after this step, saving a checkpoint", terminal.redraws);
  run.outcome = train(line.settings, [&](const Progress& progress) {
    const bool is_note =
        progress.kind == Progress::Kind::kMessage || progress.kind == Progress::Kind::kStarting;
    if (!is_note) interrupt.begun();
    if (progress.kind == Progress::Kind::kCheckpoint) {
      run.saved = true;
      // If only a configuration file names the folder, the checkpoint's path tells it.
      if (run.out.empty()) {
        run.out = std::filesystem::path(progress.message).parent_path().string();
      }
    }
    const bool stops = interrupt.requested();
    if (!stops || progress.kind != Progress::Kind::kStep) display.show(progress);
    return !stops;
  });
  run.data = summary_entry(run.outcome.summary_json, "data");
  if (run.data.empty()) run.data = line.setting("data");
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return run;
}

int report_run(const CommandLine& line, const TrainedRun& run) {
  const int code = exit_code(line, run.outcome);
  if (run.outcome.exit == Exit::kInterrupted && run.saved) {
    say("to go on: " + resume_text(line));
  }
  if (code != 0) return code;
  if (run.outcome.already_finished) {
    say("this run is already finished: " + printable(run.out));
  }
  report_training(line, run);
  return 0;
}

// Calls run(line) with the files that --from named by an address.
template <typename Run>
int with_fetched(const CommandLine& line, const Run& run) {
  CommandLine fetched = line;
  Fetched files;
  const std::string error = files.resolve(fetched.settings);
  if (files.was_interrupted()) return static_cast<int>(Exit::kInterrupted);
  if (!error.empty()) {
    say("mantissa " + line.command + ": " + printable(error));
    return static_cast<int>(Exit::kFailed);
  }
  return run(fetched);
}

// A process that works for another one shows nothing, and is told when to stop.
int run_helper(const CommandLine& line) {
  ignore_requests_to_stop();
  const TrainingOutcome outcome = train(line.settings);
  return outcome.error.empty() ? 0 : exit_code(line, outcome);
}

int run_train(const CommandLine& line) {
  if (launched_process() > 0) return run_helper(line);
  return with_fetched(line, [](const CommandLine& fetched) {
    return report_run(fetched, train_visibly(fetched, train));
  });
}

int run_sensitivity(const CommandLine& line) {
  SensitivityOutcome outcome;
  {
    ProgressDisplay display(describe_terminal(2), line.quiet);
    const Interrupt interrupt("stopping after this layer", describe_terminal(2).redraws);
    outcome = layer_sensitivity(line.settings, [&](const Progress& progress) {
      display.show(progress);
      return !interrupt.requested();
    });
  }
  if (const int code = exit_code(line, outcome)) return code;
  print(line.json ? sensitivity_json(outcome) : sensitivity_table(outcome, describe_terminal(1)));
  return 0;
}

int run_quantise(const CommandLine& line) {
  if (line.setting("sensitivity") == "true") return run_sensitivity(line);
  std::vector<QuantisedLayerInfo> layers;
  const TrainedRun run =
      train_visibly(line, [&](const Settings& settings, const Observer& observer) {
        QuantisationOutcome outcome = quantize_network(settings, observer);
        layers = std::move(outcome.layers);
        return TrainingOutcome(std::move(outcome));
      });
  const bool shown = !line.json && !line.quiet && !layers.empty();
  if (shown) print(quantisation_table(layers, describe_terminal(1)));
  return report_run(line, run);
}

int run_eval(const CommandLine& line) {
  EvaluationOutcome outcome;
  {
    // Ctrl-C ends it at once: there is nothing to save.
    ProgressDisplay display(describe_terminal(2), line.quiet);
    outcome = evaluate(line.settings, [&](const Progress& progress) {
      display.show(progress);
      return true;
    });
  }
  if (const int code = exit_code(line, outcome)) return code;
  print(line.json ? outcome.json : evaluation_report(outcome, !line.quiet, describe_terminal(1)));
  return 0;
}

int run_predict(const CommandLine& line) {
  const PredictionOutcome outcome = predict(line.settings);
  for (const std::string& note : outcome.notes) say("mantissa predict: " + printable(note));
  for (const std::string& problem : outcome.problems) say(printable(problem));
  if (outcome.predictions.empty()) return exit_code(line, outcome);
  const Terminal terminal = describe_terminal(1);
  if (line.json) {
    print(prediction_json(outcome));
  } else if (line.setting("csv") == "-") {
    print(outcome.csv);
  } else {
    if (!line.quiet && outcome.predictions.size() <= kMostPictures) {
      print(picture_gallery(outcome, terminal));
    }
    print(prediction_table(outcome, terminal));
  }
  std::fflush(stdout);
  return exit_code(line, outcome);
}

int run_data(const CommandLine& line) {
  const DataOutcome outcome = describe_data(line.settings);
  if (line.json) {
    print(outcome.json);
  } else if (!outcome.json.empty()) {
    print(line.quiet ? data_line(outcome.json) : data_report(outcome.json, describe_terminal(1)));
  }
  std::fflush(stdout);
  return exit_code(line, outcome);
}

int run_plan(const CommandLine& line) {
  const PlanOutcome outcome = plan(line.settings);
  if (const int code = exit_code(line, outcome)) return code;
  print_whole_lines(line.json ? outcome.json : outcome.text);
  return 0;
}

int run_simulate(const CommandLine& line) {
  const SimulateOutcome outcome = simulate(line.settings);
  if (const int code = exit_code(line, outcome)) return code;
  print(line.json ? outcome.json + "\n" : outcome.text);
  return 0;
}

// Measures with bench or profile, and shows how it gets on.
template <typename Measure>
auto measure_visibly(const CommandLine& line, const Measure& measure) {
  const Terminal terminal = describe_terminal(2);
  ProgressDisplay display(terminal, line.quiet);
  const Interrupt interrupt("stopping after this step", terminal.redraws);
  return measure(line.settings, [&](const Progress& progress) {
    const bool stops = interrupt.requested();
    if (!stops) display.show(progress);
    return !stops;
  });
}

int run_profile(const CommandLine& line) {
  const ProfileOutcome outcome = measure_visibly(line, profile);
  if (const int code = exit_code(line, outcome)) return code;
  print(line.json ? outcome.json + "\n" : outcome.text);
  if (!line.quiet) say("written to " + printable(outcome.path));
  return 0;
}

void report_bench(const CommandLine& line, const std::string& json) {
  if (!line.json && !line.quiet) {
    return print(bench_report(json, line.setting("sort") == "time", describe_terminal(1)));
  }
  for (const std::string& warning : bench_warnings(json)) {
    say("mantissa bench: warning: " + warning);
  }
  print(line.json ? json : bench_line(json));
}

int run_bench(const CommandLine& line) {
  const BenchOutcome outcome = measure_visibly(line, bench);
  // The measurement is shown even if it cannot be saved; then the error comes after it.
  if (!outcome.json.empty()) report_bench(line, outcome.json);
  std::fflush(stdout);
  return exit_code(line, outcome);
}

int run_completion(const CommandLine& line) {
  const std::string script = completion_script(line.paths[0]);
  if (script.empty()) {
    say("mantissa completion: no script for '" + printable(line.paths[0]) +
        "': choose bash, zsh or fish");
    return static_cast<int>(Exit::kInvalidInput);
  }
  print(script);
  return 0;
}

// Settings of info that no network has.
bool is_of_info(const std::string& name) {
  return name == "isa" || name == "graph" || name == "tensors" || name == "shape";
}

int run_graph(const CommandLine& line) {
  Settings settings = line.settings;
  std::erase_if(settings, [](const auto& item) { return is_of_info(item.first); });
  if (!line.paths.empty()) settings["path"] = line.paths[0];
  const NetworkOutcome outcome = describe_network(settings);
  if (const int code = exit_code(line, outcome)) return code;
  print(outcome.json);
  return 0;
}

int run_info(const CommandLine& line) {
  if (line.setting("graph") == "true") return run_graph(line);
  for (const auto& [name, text] : line.settings) {
    if (is_of_info(name)) continue;
    say("mantissa info: --" + name + " is for --graph, which prints a network as JSON");
    return static_cast<int>(Exit::kInvalidInput);
  }
  if (!line.paths.empty()) return run_describe(line);
  std::string error;
  const Info found = info(line.setting("isa"), error);
  if (!error.empty()) {
    say("mantissa info: " + printable(error));
    return static_cast<int>(Exit::kInvalidInput);
  }
  print(line.json ? info_json(found) : info_report(found, describe_terminal(1)));
  return 0;
}

}  // namespace

int run_command(const CommandLine& line) {
  // These stop in good order; the others have nothing to save, and end at once.
  if (line.command == "train") return run_train(line);
  if (line.command == "quantize") return with_fetched(line, run_quantise);
  if (line.command == "serve") return run_serve(line);
  if (line.command == "launch") return run_launch(line);
  if (line.command == "bench") return run_bench(line);
  if (line.command == "profile") return run_profile(line);
  release_stop_signals();
  if (line.command == "eval") return run_eval(line);
  if (line.command == "predict") return run_predict(line);
  if (line.command == "generate") return run_generate(line);
  if (line.command == "fill-mask") return run_fill_mask(line);
  if (line.command == "translate") return run_translate(line);
  if (line.command == "embed") return run_embed(line);
  if (line.command == "plan") return run_plan(line);
  if (line.command == "simulate") return run_simulate(line);
  if (line.command == "data") return run_data(line);
  if (line.command == "import") return run_import(line);
  if (line.command == "verify") return run_verify(line);
  if (line.command == "report") return run_report(line);
  if (line.command == "export") return run_export(line);
  if (line.command == "statistics") return run_statistics(line);
  if (line.command == "run") return run_onnx_network(line);
  if (line.command == "completion") return run_completion(line);
  return run_info(line);
}

}  // namespace mantissa::cli

// train and quantize.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "cli/commands/commands.h"
#include "cli/commands/printers.h"
#include "cli/commands/run_and_print.h"
#include "cli/fetched.h"
#include "cli/next_steps.h"
#include "cli/reports/report.h"
#include "cli/terminal/picture.h"

namespace mantissa::cli {
namespace {

// A run as it was seen from outside.
struct SeenRun {
  double seconds = 0;
  std::string out;     // folder of its results; "" if not known
  bool saved = false;  // a checkpoint, from which it can go on
};

// Some test examples with the trained network's guesses. Nothing if they cannot be had: the
// training itself is done.
std::string sample_predictions(const CommandLine& line, const std::string& out,
                               const std::string& data, const Terminal& terminal) {
  Settings settings = {{"checkpoint", out}, {"data", data}, {"index", "0-5"}};
  for (const SettingInfo& info : settings_of("predict")) {
    // Such as "threads". Settings given above stay.
    const auto given = line.settings.find(info.name);
    if (given != line.settings.end()) settings.insert(*given);
  }
  const Outcome<Predictions> found = predict(settings);
  if (!found.ok() || found->problem.exit != Exit::kDone) return "";
  return "\n" + picture_gallery(*found, terminal);
}

void print_run(const CommandLine& line, const TrainedRun& run, const SeenRun& seen) {
  const Terminal terminal = describe_terminal(1);
  const std::string& summary = run.summary_json;
  if (line.json) return print_whole_lines(summary);
  if (line.quiet) return print(training_line(summary, seen.out));
  const std::optional<double> time =
      run.already_finished ? std::nullopt : std::optional<double>(seen.seconds);
  print("\n" + training_report(summary, time, terminal));
  if (seen.out.empty()) return;
  const std::filesystem::path folder(seen.out);
  print("  " + terminal.paint("2", pad_right("results", 15)) +
        printable((folder / "model.safetensors").string()) + ", " +
        printable((folder / "summary.json").string()) + "\n");
  // It may take a moment, so the known part is shown first.
  std::fflush(stdout);
  if (summary_entry(summary, "test_perplexity").empty()) {
    const std::string trained_on = summary_entry(summary, "data");
    const std::string data = trained_on.empty() ? line.setting("data") : trained_on;
    print(sample_predictions(line, seen.out, data, terminal));
  }
  print(next_steps(line, seen.out, summary));
}

// Trains, and shows how it gets on.
template <typename Run>
Outcome<Run> train_visibly(const CommandLine& line,
                           Outcome<Run> (*train)(const Settings&, const Observer&), SeenRun& seen) {
  const Terminal terminal = describe_terminal(2);
  const auto start = std::chrono::steady_clock::now();
  seen.out = line.setting("out");
  seen.saved = line.setting("resume") == "true";
  ProgressDisplay display(terminal, line.quiet);
  Interrupt interrupt("stopping after this step, saving a checkpoint", terminal.redraws);
  Outcome<Run> run = train(line.settings, [&](const Progress& progress) {
    const bool is_note =
        progress.kind == Progress::Kind::kMessage || progress.kind == Progress::Kind::kStarting;
    if (!is_note) interrupt.begun();
    if (progress.kind == Progress::Kind::kCheckpoint) {
      seen.saved = true;
      // If only a configuration file names the folder, the checkpoint's path tells it.
      if (seen.out.empty()) {
        seen.out = std::filesystem::path(progress.message).parent_path().string();
      }
    }
    const bool stops = interrupt.requested();
    if (!stops || progress.kind != Progress::Kind::kStep) display.show(progress);
    return !stops;
  });
  seen.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return run;
}

template <typename Run>
int run_visibly(const CommandLine& line, Outcome<Run> (*train)(const Settings&, const Observer&)) {
  SeenRun seen;
  const Outcome<Run> run = train_visibly(line, train, seen);
  if (!run.ok()) {
    const int code = tell(line, run.failure());
    if (run.failure().exit == Exit::kInterrupted && seen.saved) {
      say("to go on: " + resume_text(line));
    }
    return code;
  }
  if constexpr (requires { run->layers; }) {
    const bool shown = !line.json && !line.quiet && !run->layers.empty();
    if (shown) print(quantisation_table(run->layers, describe_terminal(1)));
  }
  if (run->already_finished) say("this run is already finished: " + printable(seen.out));
  print_run(line, *run, seen);
  return 0;
}

// Calls run(line) with the files that --from named by an address.
template <typename Run>
int with_fetched(const CommandLine& line, const Run& run) {
  CommandLine fetched = line;
  Fetched files;
  const std::string error = files.resolve(fetched.settings);
  if (files.was_interrupted()) return static_cast<int>(Exit::kInterrupted);
  if (!error.empty()) return tell(line, {Exit::kFailed, error});
  return run(fetched);
}

// A process that works for another one shows nothing, and is told when to stop.
int run_helper(const CommandLine& line) {
  ignore_requests_to_stop();
  const Outcome<TrainedRun> run = train(line.settings);
  return run.ok() ? 0 : tell(line, run.failure());
}

int run_sensitivity(const CommandLine& line) {
  const Outcome<Sensitivity> found =
      watched(line, "stopping after this layer",
              [&](const Observer& observer) { return layer_sensitivity(line.settings, observer); });
  if (!found.ok()) return tell(line, found.failure());
  print(line.json ? sensitivity_json(*found) : sensitivity_table(*found, describe_terminal(1)));
  return 0;
}

// Weights in blocks. A line for each layer is progress: with --quiet there is none.
int run_blocks(const CommandLine& line) {
  Progress nothing;
  nothing.kind = Progress::Kind::kStarting;
  const Outcome<LanguageModelInBlocks> made =
      watched(line, "stopping after this layer", [&](const Observer& observer) {
        return quantize_language_model(line.settings, [&](const Progress& progress) {
          const bool is_hidden = line.quiet && progress.steps > 0;
          return observer(is_hidden ? nothing : progress);
        });
      });
  if (!made.ok()) return tell(line, made.failure());
  print_blocks(line, *made);
  return 0;
}

}  // namespace

int run_train(const CommandLine& line) {
  if (launched_process() > 0) return run_helper(line);
  return with_fetched(line, [](const CommandLine& fetched) { return run_visibly(fetched, train); });
}

int run_quantize(const CommandLine& line) {
  return with_fetched(line, [](const CommandLine& fetched) {
    if (fetched.setting("sensitivity") == "true") return run_sensitivity(fetched);
    const Settings& settings = fetched.settings;
    const bool in_blocks = settings.contains("blocks") || settings.contains("group");
    return in_blocks ? run_blocks(fetched) : run_visibly(fetched, quantize_network);
  });
}

}  // namespace mantissa::cli

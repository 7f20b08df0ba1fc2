// The commands of the command line, with their settings as text. Results are JSON where the command
// has a form of its own for them.
#include <mantissa/language.h>
#include <mantissa/mantissa.h>
#include <mantissa/onnx.h>
#include <mantissa/runs.h>
#include <mantissa/training.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "arrays.h"
#include "core.h"
#include "errors.h"
#include "watcher.h"

namespace mantissa::python {
namespace nb = nanobind;
namespace {

std::string train_run(const Settings& settings, nb::object callback) {
  Watcher watcher(std::move(callback));
  return value_of(watcher.watch([&](const Observer& o) { return train(settings, o); }))
      .summary_json;
}

std::string quantise_run(const Settings& settings, nb::object callback) {
  Watcher watcher(std::move(callback));
  if (settings.contains("blocks") || settings.contains("group")) {
    return value_of(watcher.watch(
                        [&](const Observer& o) { return quantize_language_model(settings, o); }))
        .json;
  }
  return value_of(watcher.watch([&](const Observer& o) { return quantize_network(settings, o); }))
      .summary_json;
}

std::string evaluate_run(const Settings& settings, nb::object callback) {
  Watcher watcher(std::move(callback));
  return value_of(watcher.watch([&](const Observer& o) { return evaluate(settings, o); })).json;
}

const char* kind_name(const Progress& progress) {
  switch (progress.kind) {
    case Progress::Kind::kStarting:
      return "starting";
    case Progress::Kind::kStep:
      return "step";
    case Progress::Kind::kCheckpoint:
      return "checkpoint";
    case Progress::Kind::kPretraining:
      return "pretraining";
    case Progress::Kind::kReestimating:
      return "reestimating";
    case Progress::Kind::kValidating:
      return "validating";
    case Progress::Kind::kEvaluating:
      return "evaluating";
    case Progress::Kind::kTranslating:
      return "translating";
    case Progress::Kind::kMessage:
      return "message";
  }
  return "";
}

// The means as FitProgress has them.
StepReport report_of(const Progress& progress) {
  StepReport report;
  report.loss = progress.loss;
  report.loss_count = 1;
  report.losses[0].mean = progress.loss;
  report.losses[0].accuracy = progress.accuracy;
  return report;
}

using SettingRow = std::tuple<std::string, std::string, std::string, bool>;

std::vector<SettingRow> settings_rows(const std::string& command) {
  std::vector<SettingRow> rows;
  for (const SettingInfo& s : settings_of(command)) {
    rows.emplace_back(s.name, s.help, s.default_value, s.is_switch);
  }
  return rows;
}

std::tuple<std::string, std::string> plan_of(const Settings& settings) {
  Plan planned = value_of(released([&] { return plan(settings); }));
  return {std::move(planned.text), std::move(planned.json)};
}

std::vector<std::string> import_file(const std::string& path, const Settings& settings) {
  return value_of(released([&] { return import_model(path, settings); })).notes;
}

std::vector<std::string> export_file(const Settings& settings) {
  return value_of(released([&] { return export_model(settings); })).notes;
}

nb::object sentence_vectors(const Settings& settings, const std::vector<std::string>& sentences,
                            nb::object callback) {
  PythonCalls calls;
  Outcome<Embeddings> outcome = released([&] {
    return embed(settings, sentences, [&](int64_t done) { return calls.goes_on(callback, done); });
  });
  calls.raise_if_failed();
  Embeddings embeddings = value_of(std::move(outcome));
  const std::vector<size_t> shape = {static_cast<size_t>(embeddings.sentences),
                                     static_cast<size_t>(embeddings.channels)};
  return numpy_array(std::move(embeddings.vectors), shape);
}

std::vector<std::string> translated(const Settings& settings,
                                    const std::vector<std::string>& sentences,
                                    nb::object callback) {
  Watcher watcher(std::move(callback));
  return value_of(
             watcher.watch([&](const Observer& o) { return translate(settings, sentences, o); }))
      .translations;
}

std::vector<std::vector<std::pair<std::string, double>>> masks_filled(const Settings& settings) {
  std::vector<std::vector<std::pair<std::string, double>>> masks;
  for (const auto& mask : value_of(released([&] { return fill_mask(settings); })).masks) {
    masks.emplace_back();
    for (const FilledMasks::Guess& guess : mask) {
      masks.back().emplace_back(guess.token, guess.probability);
    }
  }
  return masks;
}

std::string path_json(const std::string& path, const Settings& settings) {
  return value_of(released([&] { return describe_path(path, settings); })).json;
}

std::string data_json(const Settings& settings) {
  DataDescription data = value_of(released([&] { return describe_data(settings); }));
  if (data.problem.exit != Exit::kDone) throw EngineError(data.problem);
  return std::move(data.json);
}

std::string statistics_json(const std::string& run, const Settings& settings) {
  return value_of(released([&] { return statistics(run, settings); })).json;
}

std::string write_report(const std::vector<std::string>& runs, const Settings& settings) {
  return value_of(released([&] { return report(runs, settings); })).file;
}

std::tuple<std::string, std::string, std::vector<std::pair<std::string, std::string>>> machine() {
  const Info found = value_of(info());
  return {found.version, found.isa, found.kernels};
}

}  // namespace

void bind_commands(nb::module_& module) {
  nb::class_<Progress>(module, "Progress")
      .def("__repr__",
           [](const Progress& p) {
             std::string text = "<" + std::string(kind_name(p)) + ": step " +
                                std::to_string(p.step) + " of " + std::to_string(p.steps);
             if (!p.message.empty()) text += ", " + p.message;
             return text + ">";
           })
      .def_prop_ro("kind", &kind_name)
      .def_ro("step", &Progress::step)
      .def_ro("steps", &Progress::steps)
      .def_ro("epoch", &Progress::epoch)
      .def_ro("epochs", &Progress::epochs)
      .def_ro("loss", &Progress::loss)
      .def_prop_ro("training", &report_of)
      .def_ro("accuracy", &Progress::accuracy)
      .def_ro("learning_rate", &Progress::learning_rate)
      .def_ro("examples_per_second", &Progress::examples_per_second)
      .def_ro("seconds_left", &Progress::seconds_left)
      .def_ro("message", &Progress::message);
  module.def("train", &train_run, nb::arg("settings"), nb::arg("callback").none());
  module.def("quantize", &quantise_run, nb::arg("settings"), nb::arg("callback").none());
  module.def("evaluate", &evaluate_run, nb::arg("settings"), nb::arg("callback").none());
  module.def("plan", &plan_of, nb::arg("settings"));
  module.def("import_model", &import_file, nb::arg("path"), nb::arg("settings"));
  module.def("export_model", &export_file, nb::arg("settings"));
  module.def("embed", &sentence_vectors, nb::arg("settings"), nb::arg("sentences"),
             nb::arg("callback").none());
  module.def("fill_mask", &masks_filled, nb::arg("settings"));
  module.def("translate", &translated, nb::arg("settings"), nb::arg("sentences"),
             nb::arg("callback").none());
  module.def("describe_path", &path_json, nb::arg("path"), nb::arg("settings"));
  module.def("describe_data", &data_json, nb::arg("settings"));
  module.def("statistics", &statistics_json, nb::arg("run"), nb::arg("settings"));
  module.def("report", &write_report, nb::arg("runs"), nb::arg("settings"));
  module.def("settings_of", &settings_rows, nb::arg("command"));
  module.def("built_in_models", &built_in_models);
  module.def("info", &machine);
}

}  // namespace mantissa::python

// Trainers and models. The interpreter is free while the engine works.
#include <mantissa/training.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <iomanip>
#include <sstream>
#include <tuple>

#include "arrays.h"
#include "callbacks.h"
#include "core.h"
#include "errors.h"

namespace mantissa::python {
namespace {

using NamedArrays = std::vector<std::pair<std::string, nb::object>>;

std::vector<std::pair<double, double>> losses_of(const StepReport& report) {
  std::vector<std::pair<double, double>> losses;
  for (int i = 0; i < report.loss_count; ++i) {
    losses.emplace_back(report.losses[i].mean, report.losses[i].accuracy);
  }
  return losses;
}

// The first loss that compares with a class; -1 where there is none.
double accuracy_of(const StepReport& report) {
  for (int i = 0; i < report.loss_count; ++i) {
    if (report.losses[i].accuracy >= 0) return report.losses[i].accuracy;
  }
  return -1;
}

int64_t uncounted_of(const StepReport& report) {
  int64_t uncounted = 0;
  for (int i = 0; i < report.loss_count; ++i) uncounted += report.losses[i].uncounted;
  return uncounted;
}

// Calls Python between steps: now and then, so that a step costs nothing by it, and for signals,
// which Python only sees when it is asked to. What Python raises ends the call, and is raised from
// it.
class Callbacks {
 public:
  Callbacks(nb::object on_step, nb::object on_epoch)
      : on_step_(std::move(on_step)), on_epoch_(std::move(on_epoch)) {}

  bool step(const FitProgress& progress) {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < kPause && progress.step < progress.steps && !is_ending()) return true;
    last_ = now;
    return calls_.goes_on(on_step_, progress);
  }
  bool epoch(const EpochReport& report) { return calls_.goes_on(on_epoch_, report); }
  void raise_if_failed() { calls_.raise_if_failed(); }

 private:
  static constexpr std::chrono::milliseconds kPause{50};

  nb::object on_step_, on_epoch_;
  PythonCalls calls_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// A trainer has state that a step changes: one thread at a time.
class PythonTrainer {
 public:
  PythonTrainer(const Network& network, const Settings& settings)
      : trainer_(value_of(released([&] { return Trainer::create(network, settings); }))) {
    for (const InputInfo& input : network.inputs()) names_.push_back(input.name);
    batch_.resize(names_.size());
  }

  // Arrays in the order of the network's inputs.
  StepReport step(const nb::tuple& arrays, double learning_rate) {
    const Owner::Turn turn(owner_, "step");
    set_batch(arrays);
    auto report = released([&] { return trainer_.step(batch_.set(), learning_rate); });
    batch_.release();
    return value_of(std::move(report));
  }

  std::vector<TensorStatistics> observed_step(const nb::tuple& arrays, double learning_rate) {
    const Owner::Turn turn(owner_, "observed_step");
    set_batch(arrays);
    auto seen = released([&] { return trainer_.observed_step(batch_.set(), learning_rate); });
    batch_.release();
    return value_of(std::move(seen));
  }

  std::vector<EpochReport> fit(const NamedArrays& arrays, int64_t epochs, int64_t steps,
                               bool goes_on, nb::object on_step, nb::object on_epoch) {
    const Owner::Turn turn(owner_, "fit");
    const BorrowedArrays borrowed = borrow(arrays);
    Callbacks callbacks(std::move(on_step), std::move(on_epoch));
    const FitOptions options{
        .epochs = epochs,
        .steps = steps,
        .goes_on = goes_on,
        .observer = [&](const EpochReport& report) { return callbacks.epoch(report); },
        .step_observer = [&](const FitProgress& progress) { return callbacks.step(progress); }};
    auto history = released([&] { return trainer_.fit(borrowed.set(), options); });
    callbacks.raise_if_failed();
    return value_of(std::move(history));
  }

  Model freeze(const NamedArrays& arrays) const {
    const Owner::Turn turn(owner_, "freeze");
    const BorrowedArrays borrowed = borrow(arrays);
    return value_of(released([&] { return trainer_.freeze(borrowed.set()); }));
  }

  std::tuple<nb::object, nb::object, nb::object> parameter(const std::string& name) const {
    const Owner::Turn turn(owner_, "values");
    ParameterNumbers numbers = value_of(trainer_.parameter(name));
    const std::vector<size_t> shape(numbers.dims.begin(), numbers.dims.end());
    const size_t exponents = numbers.exponents.size();
    const std::vector<size_t> whole = numbers.mantissas.empty() ? std::vector<size_t>{0} : shape;
    return {numpy_array(std::move(numbers.numbers), shape),
            numpy_array(std::move(numbers.mantissas), whole),
            numpy_array(std::move(numbers.exponents), {exponents})};
  }

  void set_parameter(const std::string& name,
                     const nb::ndarray<const double, nb::c_contig, nb::device::cpu>& numbers) {
    const Owner::Turn turn(owner_, "set_values");
    value_of(trainer_.set_parameter(
        name, std::vector<double>(numbers.data(), numbers.data() + numbers.size())));
  }

  std::tuple<std::vector<std::string>, std::vector<std::string>, std::vector<std::string>> take(
      const TrainedParameters& trained) {
    const Owner::Turn turn(owner_, "take");
    TakenNames names = value_of(trainer_.take(trained));
    return {std::move(names.taken), std::move(names.initial), std::move(names.left_over)};
  }

  void save(const std::string& path) const {
    const Owner::Turn turn(owner_, "save");
    value_of(released([&] { return trainer_.save(path); }));
  }
  void load(const std::string& path) {
    const Owner::Turn turn(owner_, "load");
    value_of(released([&] { return trainer_.load(path); }));
  }
  int64_t steps_done() const { return trainer_.steps_done(); }
  int64_t batch_size() const { return trainer_.batch_size(); }
  std::string weights_sha256() const {
    const Owner::Turn turn(owner_, "weights_sha256");
    return trainer_.weights_sha256();
  }
  std::string plan() const { return trainer_.plan(); }

 private:
  void set_batch(const nb::tuple& arrays) {
    if (arrays.size() != names_.size()) {
      std::string names;
      for (const auto& name : names_) names += (names.empty() ? "" : ", ") + name;
      throw EngineError({Exit::kInvalidInput, "a step wants " + std::to_string(names_.size()) +
                                                  " arrays (" + names + "), and there are " +
                                                  std::to_string(arrays.size())});
    }
    for (size_t i = 0; i < names_.size(); ++i) batch_.set(i, names_[i], arrays[i]);
  }

  mutable Owner owner_{"trainer"};
  Trainer trainer_;
  std::vector<std::string> names_;  // of the network's inputs
  BorrowedArrays batch_;
};

std::vector<nb::object> predict(const Model& model, const NamedArrays& arrays) {
  const BorrowedArrays borrowed = borrow(arrays);
  auto found = released([&] { return model.predict(borrowed.set()); });
  const auto count = static_cast<size_t>(borrowed.set().count);
  std::vector<nb::object> outputs;
  for (auto& numbers : value_of(std::move(found))) {
    const size_t each = count == 0 ? 0 : numbers.size() / count;
    outputs.push_back(numpy_array(std::move(numbers), {count, each}));
  }
  return outputs;
}

StepReport evaluate(const Model& model, const NamedArrays& arrays) {
  const BorrowedArrays borrowed = borrow(arrays);
  return value_of(released([&] { return model.evaluate(borrowed.set()); }));
}

// Columns as (name, numbers, texts): one of both is empty.
using Columns = std::vector<std::tuple<std::string, std::vector<double>, std::vector<std::string>>>;

std::tuple<nb::dict, std::vector<std::string>> encode(const Model& model, const Columns& columns) {
  std::vector<NamedColumn> named;
  for (const auto& [name, numbers, texts] : columns) named.push_back({name, numbers, texts});
  EncodedRows rows = value_of(released([&] { return model.encode(named); }));
  return {arrays_of(rows.arrays, rows.memory), std::move(rows.notes)};
}

std::string text_of(double value) {
  std::ostringstream text;
  text << std::setprecision(4) << value;
  return text.str();
}

// "loss 0.1234, accuracy 98.2 %"
std::string figures_of(const StepReport& report) {
  std::string text = "loss " + text_of(report.loss);
  if (accuracy_of(report) >= 0) text += ", accuracy " + text_of(100 * accuracy_of(report)) + " %";
  return text;
}

std::string place_of(int64_t now, int64_t all) {
  return std::to_string(now) + " of " + std::to_string(all);
}

std::string text_of(const StepReport& report) {
  std::string text = "<" + std::to_string(report.examples) + " examples: " + figures_of(report);
  if (uncounted_of(report) > 0) {
    text += ", " + std::to_string(uncounted_of(report)) + " labels do not count";
  }
  if (report.clipped > 0) text += ", " + std::to_string(report.clipped) + " mantissas clipped";
  return text + ">";
}

}  // namespace

void bind_training(nb::module_& module) {
  nb::class_<TrainedParameters>(module, "TrainedParameters")
      .def_static(
          "read",
          [](const std::string& path) {
            return value_of(released([&] { return TrainedParameters::read(path); }));
          },
          nb::arg("path"))
      .def("network", [](const TrainedParameters& trained) { return value_of(trained.network()); })
      .def(
          "parameter",
          [](const TrainedParameters& trained, const std::string& name) {
            ParameterNumbers numbers = value_of(trained.parameter(name));
            const std::vector<size_t> shape(numbers.dims.begin(), numbers.dims.end());
            return numpy_array(std::move(numbers.numbers), shape);
          },
          nb::arg("name"))
      .def("__repr__", [](const TrainedParameters&) { return "<trained parameters of a file>"; });
  nb::class_<StepReport>(module, "StepReport")
      .def_ro("examples", &StepReport::examples)
      .def_ro("loss", &StepReport::loss)
      .def_ro("clipped", &StepReport::clipped)
      .def_prop_ro("losses", &losses_of)
      .def_prop_ro("accuracy", &accuracy_of)
      .def_prop_ro("uncounted", &uncounted_of)
      .def("__repr__", [](const StepReport& report) { return text_of(report); });
  nb::class_<TensorStatistics>(module, "TensorStatistics")
      .def_ro("name", &TensorStatistics::name)
      .def_ro("kind", &TensorStatistics::kind)
      .def_ro("written_by", &TensorStatistics::written_by)
      .def_ro("bits", &TensorStatistics::bits)
      .def_ro("exponent", &TensorStatistics::exponent)
      .def_ro("clipped", &TensorStatistics::clipped)
      .def_ro("mean_bits", &TensorStatistics::mean_bits)
      .def_ro("lengths", &TensorStatistics::lengths)
      .def("__repr__", [](const TensorStatistics& t) {
        return "<" + t.kind + " " + t.name + ": " + std::to_string(t.bits) + " bits, exponent " +
               std::to_string(t.exponent) + ", clipped " + std::to_string(t.clipped) + ">";
      });
  nb::class_<EpochReport>(module, "EpochReport")
      .def_ro("epoch", &EpochReport::epoch)
      .def_ro("epochs", &EpochReport::epochs)
      .def_ro("training", &EpochReport::training)
      .def_ro("learning_rate", &EpochReport::learning_rate)
      .def("__repr__", [](const EpochReport& report) {
        return "<epoch " + place_of(report.epoch, report.epochs) + ": " +
               figures_of(report.training) + ">";
      });
  nb::class_<FitProgress>(module, "FitProgress")
      .def_ro("step", &FitProgress::step)
      .def_ro("steps", &FitProgress::steps)
      .def_ro("epoch", &FitProgress::epoch)
      .def_ro("epochs", &FitProgress::epochs)
      .def_ro("training", &FitProgress::training)
      .def_ro("learning_rate", &FitProgress::learning_rate)
      .def("__repr__", [](const FitProgress& progress) {
        return "<step " + place_of(progress.step, progress.steps) + ": " +
               figures_of(progress.training) + ">";
      });
  nb::class_<PythonTrainer>(module, "Trainer")
      .def(nb::init<const Network&, const Settings&>(), nb::arg("network"), nb::arg("settings"))
      .def("step", &PythonTrainer::step, nb::arg("arrays"), nb::arg("learning_rate"))
      .def("observed_step", &PythonTrainer::observed_step, nb::arg("arrays"),
           nb::arg("learning_rate"))
      .def("fit", &PythonTrainer::fit, nb::arg("arrays"), nb::arg("epochs"), nb::arg("steps"),
           nb::arg("goes_on"), nb::arg("on_step").none(), nb::arg("on_epoch").none())
      .def("freeze", &PythonTrainer::freeze, nb::arg("arrays"))
      .def("parameter", &PythonTrainer::parameter, nb::arg("name"))
      .def("set_parameter", &PythonTrainer::set_parameter, nb::arg("name"), nb::arg("numbers"))
      .def("take", &PythonTrainer::take, nb::arg("trained"))
      .def("save", &PythonTrainer::save, nb::arg("path"))
      .def("load", &PythonTrainer::load, nb::arg("path"))
      .def("steps_done", &PythonTrainer::steps_done)
      .def("batch_size", &PythonTrainer::batch_size)
      .def("weights_sha256", &PythonTrainer::weights_sha256)
      .def("plan", &PythonTrainer::plan)
      .def("__repr__", [](const PythonTrainer& trainer) {
        return "<trainer after " + std::to_string(trainer.steps_done()) + " steps>";
      });
  nb::class_<Model>(module, "Model")
      .def_static(
          "load",
          [](const std::string& path, int threads) { return value_of(Model::load(path, threads)); },
          nb::arg("path"), nb::arg("threads"))
      .def(
          "save", [](const Model& model, const std::string& path) { value_of(model.save(path)); },
          nb::arg("path"))
      .def("predict", &predict, nb::arg("arrays"))
      .def("evaluate", &evaluate, nb::arg("arrays"))
      .def("encode", &encode, nb::arg("columns"))
      .def("class_names", &Model::class_names)
      .def("table_json", &Model::table_json)
      .def("network", &Model::network)
      .def("weights_sha256", &Model::weights_sha256)
      .def("__repr__",
           [](const Model& model) { return "<model of " + model.network().name() + ">"; });
}

}  // namespace mantissa::python

// Networks, and their making.
#include <mantissa/network.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "core.h"
#include "errors.h"

namespace mantissa::python {
namespace nb = nanobind;
namespace {

const char* name_of(Elements elements) {
  return elements == Elements::kUint8      ? "uint8"
         : elements == Elements::kMantissa ? "int16"
                                           : "int32";
}

std::vector<std::tuple<std::string, std::string, Dims, int>> inputs_of(const Network& network) {
  std::vector<std::tuple<std::string, std::string, Dims, int>> inputs;
  for (const InputInfo& input : network.inputs()) {
    inputs.emplace_back(input.name, name_of(input.elements), input.dims, input.exponent);
  }
  return inputs;
}

std::vector<std::tuple<std::string, Dims, bool>> parameters_of(const Network& network) {
  std::vector<std::tuple<std::string, Dims, bool>> parameters;
  for (const ParameterInfo& p : network.parameters()) {
    parameters.emplace_back(p.name, p.dims, p.trained);
  }
  return parameters;
}

Network built_in(const std::string& name, const Dims& pixels, int64_t classes, double width,
                 double label_smoothing, const std::string& loss, bool by_output, double focal,
                 const std::vector<double>& positive, double huber_delta) {
  return value_of(Network::built_in(name, {.pixels = pixels,
                                           .classes = classes,
                                           .width = width,
                                           .label_smoothing = label_smoothing,
                                           .loss = loss,
                                           .by_output = by_output,
                                           .focal = focal,
                                           .positive_weights = positive,
                                           .huber_delta = huber_delta}));
}

// A builder whose errors are thrown where they arise. Values are indices.
class Builder {
 public:
  explicit Builder(const std::string& name) : builder_(name) {}
  explicit Builder(const Network& network) : builder_(network) { check(); }

  std::vector<int> outputs() const {
    std::vector<int> values;
    for (const Var var : builder_.outputs()) values.push_back(var.index);
    return values;
  }

  int pixels(const std::string& name, const Dims& dims, const std::vector<int64_t>& means) {
    return checked(builder_.pixels(name, dims, means));
  }
  int numbers(const std::string& name, const Dims& dims, int exponent) {
    return checked(builder_.numbers(name, dims, exponent));
  }
  int indices(const std::string& name, const Dims& dims) {
    return checked(builder_.indices(name, dims));
  }
  std::vector<int> add(const std::string& op, const std::vector<int>& inputs,
                       const OperatorSettings& settings, const std::string& name, int shares) {
    std::vector<Var> vars;
    for (const int input : inputs) vars.push_back({input});
    if (shares >= 0) {
      return {checked(builder_.add_sharing({shares}, op, vars, settings, name))};
    }
    std::vector<int> results;
    for (const Var var : builder_.add_all(op, vars, settings, name)) results.push_back(var.index);
    check();
    return results;
  }
  Dims dims(int value) const { return builder_.dims({value}); }
  void cross_entropy(int logits, const std::string& labels, double smoothing,
                     const std::string& weights) {
    builder_.cross_entropy({logits}, labels, smoothing, weights);
    check();
  }
  void sigmoid_cross_entropy(int logits, const std::string& labels, bool by_output, bool ordinal,
                             double smoothing, double focal, const std::vector<double>& positive,
                             const std::string& weights) {
    builder_.sigmoid_cross_entropy({logits}, labels,
                                   {.by_output = by_output,
                                    .ordinal = ordinal,
                                    .label_smoothing = smoothing,
                                    .focal = focal,
                                    .positive_weights = positive,
                                    .weights = weights});
    check();
  }
  void number_error(int results, const std::string& targets, int exponent,
                    const std::string& penalty, double delta, const std::string& weights) {
    builder_.number_error({results}, targets, exponent,
                          {.penalty = penalty, .delta = delta, .weights = weights});
    check();
  }
  void soft_cross_entropy(int logits, const std::string& targets, const std::string& weights) {
    builder_.soft_cross_entropy({logits}, targets, weights);
    check();
  }
  void distilled_cross_entropy(int logits, const std::string& labels, const std::string& targets,
                               double temperature, double teacher_weight,
                               const std::string& weights) {
    builder_.distilled_cross_entropy({logits}, labels, targets, temperature, teacher_weight,
                                     weights);
    check();
  }
  void dice(int logits, const std::string& labels, double smooth, double cross_entropy,
            const std::string& weights) {
    builder_.dice({logits}, labels,
                  {.smooth = smooth, .cross_entropy = cross_entropy, .weights = weights});
    check();
  }
  void contrastive(int vectors, const std::string& labels, double temperature) {
    builder_.contrastive({vectors}, labels, temperature);
    check();
  }
  void triplet(int vectors, const std::string& labels, double margin, const std::string& mining) {
    builder_.triplet({vectors}, labels, {.margin = margin, .mining = mining});
    check();
  }
  void ctc(int logits, const std::string& labels, int64_t most_labels, int64_t blank,
           const std::string& lengths) {
    builder_.ctc({logits}, labels, most_labels, {.blank = blank, .lengths = lengths});
    check();
  }
  void loss_weight(const std::string& compared, double weight) {
    builder_.loss_weight(compared, weight);
  }
  Network finish(const std::vector<int>& outputs) {
    std::vector<Var> vars;
    for (const int output : outputs) vars.push_back({output});
    return value_of(builder_.finish(vars));
  }

 private:
  void check() const {
    if (!builder_.error().empty()) throw EngineError({Exit::kInvalidInput, builder_.error()});
  }
  int checked(Var var) const {
    check();
    return var.index;
  }
  NetworkBuilder builder_;
};

}  // namespace

void bind_networks(nb::module_& module) {
  nb::class_<Network>(module, "Network")
      .def("__repr__", [](const Network& n) { return "<network " + n.name() + ">"; })
      .def_static(
          "from_json", [](const std::string& t) { return value_of(Network::from_json(t)); },
          nb::arg("text"))
      .def_static(
          "read", [](const std::string& path) { return value_of(Network::read(path)); },
          nb::arg("path"))
      .def_static("built_in", &built_in, nb::arg("name"), nb::arg("pixels"), nb::arg("classes"),
                  nb::arg("width"), nb::arg("label_smoothing"), nb::arg("loss"),
                  nb::arg("by_output"), nb::arg("focal"), nb::arg("positive"),
                  nb::arg("huber_delta"))
      .def("to_json", &Network::to_json)
      .def_prop_ro("name", &Network::name)
      .def("inputs", &inputs_of)
      .def("parameters", &parameters_of)
      .def(
          "with_pixel_means",
          [](const Network& network, const std::vector<int64_t>& means) {
            return value_of(network.with_pixel_means(means));
          },
          nb::arg("means"))
      .def(
          "with_frozen",
          [](const Network& network, const std::string& patterns) {
            return value_of(network.with_frozen(patterns));
          },
          nb::arg("patterns"));
  nb::class_<Builder>(module, "Builder")
      .def(nb::init<const std::string&>(), nb::arg("name"))
      .def_static(
          "of", [](const Network& network) { return Builder(network); }, nb::arg("network"))
      .def("outputs", &Builder::outputs)
      .def("__repr__", [](const Builder&) { return "<network that is being built>"; })
      .def("pixels", &Builder::pixels, nb::arg("name"), nb::arg("dims"), nb::arg("means"))
      .def("numbers", &Builder::numbers, nb::arg("name"), nb::arg("dims"), nb::arg("exponent"))
      .def("indices", &Builder::indices, nb::arg("name"), nb::arg("dims"))
      .def("add", &Builder::add, nb::arg("op"), nb::arg("inputs"), nb::arg("settings"),
           nb::arg("name"), nb::arg("shares"))
      .def("dims", &Builder::dims, nb::arg("value"))
      .def("cross_entropy", &Builder::cross_entropy, nb::arg("logits"), nb::arg("labels"),
           nb::arg("smoothing"), nb::arg("weights"))
      .def("sigmoid_cross_entropy", &Builder::sigmoid_cross_entropy, nb::arg("logits"),
           nb::arg("labels"), nb::arg("by_output"), nb::arg("ordinal"), nb::arg("smoothing"),
           nb::arg("focal"), nb::arg("positive"), nb::arg("weights"))
      .def("number_error", &Builder::number_error, nb::arg("results"), nb::arg("targets"),
           nb::arg("exponent"), nb::arg("penalty"), nb::arg("delta"), nb::arg("weights"))
      .def("soft_cross_entropy", &Builder::soft_cross_entropy, nb::arg("logits"),
           nb::arg("targets"), nb::arg("weights"))
      .def("distilled_cross_entropy", &Builder::distilled_cross_entropy, nb::arg("logits"),
           nb::arg("labels"), nb::arg("targets"), nb::arg("temperature"),
           nb::arg("teacher_weight"), nb::arg("weights"))
      .def("dice", &Builder::dice, nb::arg("logits"), nb::arg("labels"), nb::arg("smooth"),
           nb::arg("cross_entropy"), nb::arg("weights"))
      .def("contrastive", &Builder::contrastive, nb::arg("vectors"), nb::arg("labels"),
           nb::arg("temperature"))
      .def("triplet", &Builder::triplet, nb::arg("vectors"), nb::arg("labels"),
           nb::arg("margin"), nb::arg("mining"))
      .def("ctc", &Builder::ctc, nb::arg("logits"), nb::arg("labels"), nb::arg("most_labels"),
           nb::arg("blank"), nb::arg("lengths"))
      .def("loss_weight", &Builder::loss_weight, nb::arg("compared"), nb::arg("weight"))
      .def("finish", &Builder::finish, nb::arg("outputs"));
  module.def("exponent_for", &exponent_for, nb::arg("largest"));
}

}  // namespace mantissa::python

// Language models and their tokens.
#include <mantissa/language.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core.h"
#include "errors.h"
#include "watcher.h"

namespace mantissa::python {

// A text that a model drew: bytes that are no UTF-8 become U+FFFD in Python.
struct Utf8 {
  std::string bytes;
};

}  // namespace mantissa::python

namespace nanobind::detail {

template <>
struct type_caster<mantissa::python::Utf8> {
  NB_TYPE_CASTER(mantissa::python::Utf8, const_name("str"))

  static handle from_cpp(const mantissa::python::Utf8& text, rv_policy, cleanup_list*) noexcept {
    return PyUnicode_DecodeUTF8(text.bytes.data(), static_cast<Py_ssize_t>(text.bytes.size()),
                                "replace");
  }
};

}  // namespace nanobind::detail

namespace mantissa::python {
namespace nb = nanobind;
namespace {

using Messages = std::vector<std::pair<std::string, std::string>>;  // role, content
using TokenList = std::vector<int32_t>;

std::vector<ChatMessage> messages_of(const Messages& pairs) {
  std::vector<ChatMessage> messages;
  for (const auto& [role, content] : pairs) messages.push_back({role, content});
  return messages;
}

const char* finish_of(const GeneratedText& text) {
  switch (text.finish) {
    case TextFinish::kEnd:
      return "end";
    case TextFinish::kStop:
      return "stop";
    case TextFinish::kStopped:
      return "stopped";
    case TextFinish::kLength:
      break;
  }
  return "length";
}

using Generated = std::tuple<Utf8, int64_t, int64_t, std::string>;  // its tokens, the prompt's

class PythonLanguageModel {
 public:
  explicit PythonLanguageModel(const Settings& settings)
      : model_(value_of(released([&] { return LanguageModel::load(settings); }))) {}

  Generated go_on(const std::string& prompt, const GenerationChoices& choices,
                  nb::object on_piece) const {
    return generated("generate", std::move(on_piece), [&](const auto& observer) {
      return model_.go_on(prompt, choices, observer);
    });
  }

  Generated answer(const Messages& messages, const GenerationChoices& choices,
                   nb::object on_piece) const {
    return generated("chat", std::move(on_piece), [&](const auto& observer) {
      return model_.answer(messages_of(messages), choices, observer);
    });
  }

  std::string loss(const std::string& text, nb::object on_progress) const {
    return measured("loss", std::move(on_progress),
                    [&](const Observer& observer) { return model_.loss(text, observer); });
  }

  std::string evaluate(const Settings& settings, nb::object on_progress) const {
    return measured("evaluate", std::move(on_progress), [&](const Observer& observer) {
      return model_.evaluate(settings, observer);
    });
  }

  const LanguageModel& model() const { return model_; }

 private:
  template <typename Work>
  Generated generated(const char* call, nb::object on_piece, const Work& work) const {
    const Owner::Turn turn(owner_, call);
    PythonCalls calls;
    const auto observer = [&](const std::string& piece) {
      return calls.goes_on(on_piece, Utf8{piece});
    };
    auto outcome = released([&] { return work(observer); });
    calls.raise_if_failed();
    GeneratedText text = value_of(std::move(outcome));
    return {Utf8{std::move(text.text)}, text.tokens, text.prompt_tokens, finish_of(text)};
  }

  template <typename Work>
  std::string measured(const char* call, nb::object on_progress, const Work& work) const {
    const Owner::Turn turn(owner_, call);
    Watcher watcher(std::move(on_progress));
    return value_of(watcher.watch(work)).json;
  }

  LanguageModel model_;
  mutable Owner owner_{"language model"};
};

}  // namespace

void bind_language(nb::module_& module) {
  nb::class_<SpecialTokens>(module, "SpecialTokens")
      .def_ro("first", &SpecialTokens::first)
      .def_ro("begin", &SpecialTokens::begin)
      .def_ro("end", &SpecialTokens::end)
      .def_ro("padding", &SpecialTokens::padding)
      .def_ro("ends", &SpecialTokens::ends)
      .def("__repr__", [](const SpecialTokens& t) {
        return "<special tokens: first " + std::to_string(t.first) + ", begin " +
               std::to_string(t.begin) + ", end " + std::to_string(t.end) + ", padding " +
               std::to_string(t.padding) + ">";
      });
  nb::class_<Tokenizer>(module, "Tokenizer")
      .def("kind", &Tokenizer::kind)
      .def("vocabulary_size", &Tokenizer::vocabulary_size)
      .def("special_tokens", &Tokenizer::special_tokens)
      .def("has_chat_template", &Tokenizer::has_chat_template)
      .def(
          "encode",
          [](const Tokenizer& t, const std::string& text) { return value_of(t.encode(text)); },
          nb::arg("text"))
      .def(
          "encode_chat",
          [](const Tokenizer& t, const Messages& messages, bool asks) {
            return value_of(t.encode(messages_of(messages), asks));
          },
          nb::arg("messages"), nb::arg("asks"))
      .def(
          "decode",
          [](const Tokenizer& t, const TokenList& tokens, bool with_special) {
            return Utf8{value_of(t.decode(tokens, with_special))};
          },
          nb::arg("tokens"), nb::arg("with_special"))
      .def(
          "token", [](const Tokenizer& t, int32_t number) { return value_of(t.token(number)); },
          nb::arg("number"))
      .def("__repr__", [](const Tokenizer& t) {
        return "<" + t.kind() + ": " + std::to_string(t.vocabulary_size()) + " tokens>";
      });
  nb::class_<GenerationChoices>(module, "GenerationChoices")
      .def(nb::init<>())
      .def_rw("length", &GenerationChoices::length)
      .def_rw("temperature", &GenerationChoices::temperature)
      .def_rw("top_k", &GenerationChoices::top_k)
      .def_rw("top_p", &GenerationChoices::top_p)
      .def_rw("seed", &GenerationChoices::seed)
      .def_rw("stop", &GenerationChoices::stop)
      .def_rw("stays_in_sequence", &GenerationChoices::stays_in_sequence)
      .def_rw("keeps_positions", &GenerationChoices::keeps_positions)
      .def("__repr__", [](const GenerationChoices& c) {
        return "<at most " + std::to_string(c.length) + " tokens>";
      });
  nb::class_<PythonLanguageModel>(module, "LanguageModel")
      .def(nb::init<const Settings&>(), nb::arg("settings"))
      .def("go_on", &PythonLanguageModel::go_on, nb::arg("prompt"), nb::arg("choices"),
           nb::arg("on_piece").none())
      .def("answer", &PythonLanguageModel::answer, nb::arg("messages"), nb::arg("choices"),
           nb::arg("on_piece").none())
      .def("loss", &PythonLanguageModel::loss, nb::arg("text"), nb::arg("on_progress").none())
      .def("evaluate", &PythonLanguageModel::evaluate, nb::arg("settings"),
           nb::arg("on_progress").none())
      .def("sequence", [](const PythonLanguageModel& m) { return m.model().sequence(); })
      .def("format", [](const PythonLanguageModel& m) { return m.model().format(); })
      .def("adapter_rank", [](const PythonLanguageModel& m) { return m.model().adapter_rank(); })
      .def("has_chat_template",
           [](const PythonLanguageModel& m) { return m.model().has_chat_template(); })
      .def("tokenizer", [](const PythonLanguageModel& m) { return m.model().tokenizer(); })
      .def("__repr__", [](const PythonLanguageModel& m) {
        return "<language model that reads " + std::to_string(m.model().sequence()) + " tokens>";
      });
  module.def(
      "describe_language_model",
      [](const std::string& path) {
        return value_of(released([&] { return describe_language_model(path); })).lines;
      },
      nb::arg("path"));
}

}  // namespace mantissa::python

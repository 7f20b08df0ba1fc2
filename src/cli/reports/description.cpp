#include <nlohmann/json.hpp>

#include "cli/reports/report.h"
#include "cli/terminal/table.h"
#include "cli/terminal/text.h"

namespace mantissa::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& value) {
  return printable(value.is_string() ? value.get<std::string>() : value.dump());
}

std::string entries(const char* title, const Json& object, const Terminal& terminal) {
  if (!object.is_object() || object.empty()) return "";
  int width = 0;
  for (const auto& [key, value] : object.items()) width = std::max(width, columns(key));
  std::string text = *title == '\0' ? "" : "\n" + terminal.paint("1", title) + "\n";
  for (const auto& [key, value] : object.items()) {
    text += "  " + pad_right(printable(key), width + 2) + text_of(value) + "\n";
  }
  return text;
}

std::string tensor_table(const Json& tensors, const Terminal& terminal) {
  Table table({{"tensor", Align::kTextCutAtStart},
               {"type"},
               {"shape"},
               {"bytes", Align::kNumber},
               {"exponent", Align::kNumber},
               {"largest bits", Align::kNumber},
               {"mean bits", Align::kNumber}});
  for (const Json& tensor : tensors) {
    const auto cell = [&](const char* key) {
      return tensor.contains(key) ? text_of(tensor[key]) : std::string("-");
    };
    const bool several =
        tensor.contains("smallest_exponent") && tensor["smallest_exponent"] != tensor["exponent"];
    table.add({cell("name"), cell("type"), cell("shape"), cell("bytes"),
               (several ? cell("smallest_exponent") + ".." : "") + cell("exponent"),
               cell("largest_bits"), cell("mean_bits")});
  }
  return "\n" + table.text(terminal.width(), terminal);
}

}  // namespace

std::string description_report(const std::string& description, bool with_tensors,
                               const Terminal& terminal) {
  const Json json = Json::parse(description, nullptr, false);
  Json head = Json::object();
  for (const auto& [key, value] : json.items()) {
    if (value.is_primitive() && !value.is_null()) head[key] = value;
  }
  std::string text =
      terminal.paint("1", text_of(json["kind"]) + " " + text_of(json["path"])) + "\n";
  head.erase("kind");
  head.erase("path");
  text += entries("", head, terminal);
  for (const char* part : {"metadata", "settings", "summary"}) {
    if (json.contains(part)) text += entries(part, json[part], terminal);
  }
  if (json.contains("files")) {
    Json files = Json::object();
    for (const Json& file : json["files"]) {
      const Json& bytes = file["bytes"];
      files[file["name"].get<std::string>()] =
          bytes.is_number() ? bytes_text(bytes.get<double>()) : "is no regular file";
    }
    text += entries("files", files, terminal);
  }
  if (json.contains("tensors")) {
    int64_t bytes = 0;
    for (const Json& tensor : json["tensors"]) bytes += tensor["bytes"].get<int64_t>();
    text += "\n" + grouped(static_cast<int64_t>(json["tensors"].size())) + " tensors, " +
            bytes_text(static_cast<double>(bytes)) +
            (with_tensors ? "" : " (--tensors lists them)") + "\n";
    if (with_tensors) text += tensor_table(json["tensors"], terminal);
  }
  if (json.contains("layers")) text += onnx_layers(description, terminal);
  if (json.contains("problems")) {
    for (const Json& problem : json["problems"]) text += "warning: " + text_of(problem) + "\n";
  }
  return text;
}

}  // namespace mantissa::cli

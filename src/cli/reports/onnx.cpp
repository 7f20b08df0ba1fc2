#include <nlohmann/json.hpp>

#include "cli/reports/report.h"
#include "cli/terminal/table.h"
#include "cli/terminal/text.h"

namespace mantissa::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string shape_text(const Json& shape) {
  if (!shape.is_array()) return "unknown";
  std::string text;
  for (const Json& size : shape) {
    if (!text.empty()) text += " x ";
    text += size.is_string() ? printable(size.get<std::string>())
            : size.is_null() ? "?"
                             : size.dump();
  }
  return text.empty() ? "one number" : text;
}

std::string count_text(const Json& count) {
  return count.get<int64_t>() == 0 ? "" : grouped(count.get<int64_t>());
}

std::string values_text(const char* title, const Json& values, const Terminal& terminal) {
  std::string text = "\n" + terminal.paint("1", title) + "\n";
  for (const Json& value : values) {
    text += "  " + printable(value["name"].get<std::string>()) + "  " +
            value["type"].get<std::string>() + "  " + shape_text(value["shape"]) + "\n";
  }
  return text;
}

}  // namespace

std::string onnx_layers(const std::string& description, const Terminal& terminal) {
  const Json json = Json::parse(description, nullptr, false);
  std::string text = values_text("inputs", json["inputs"], terminal) +
                     values_text("outputs", json["outputs"], terminal);
  Table table({{"layer", Align::kTextCutAtStart},
               {"operator"},
               {"output"},
               {"parameters", Align::kNumber},
               {"multiply-adds", Align::kNumber}});
  for (const Json& layer : json["layers"]) {
    table.add({printable(layer["name"].get<std::string>()),
               printable(layer["operator"].get<std::string>()), shape_text(layer["shape"]),
               count_text(layer["parameters"]), count_text(layer["multiply_adds"])});
  }
  const Json& work = json["multiply_adds"];
  table.add({"all", "", "", grouped(json["parameters"].get<int64_t>()),
             work.is_null() ? "unknown" : grouped(work.get<int64_t>())});
  text += "\n" + table.text(terminal.width(), terminal);
  for (const Json& note : json["notes"]) text += "\n" + printable(note.get<std::string>()) + "\n";
  if (json["unsupported"].empty()) return text + "\nmantissa run supports all nodes\n";
  text += "\n" + terminal.paint("1", "not supported") + "\n";
  for (const Json& problem : json["unsupported"]) {
    text += "  " + printable(problem["node"].get<std::string>()) + " (" +
            printable(problem["operator"].get<std::string>()) +
            "): " + printable(problem["reason"].get<std::string>()) + "\n";
  }
  return text;
}

std::string onnx_run_report(const OnnxOutputs& ran, const std::string& file) {
  std::string text;
  for (const ArrayInfo& output : ran.outputs) {
    text +=
        printable(output.name) + "  " + output.type + "  " + shape_text(Json(output.shape)) + "\n";
  }
  return text + "written to " + printable(file) + " after " + duration(ran.seconds) + "\n";
}

}  // namespace mantissa::cli

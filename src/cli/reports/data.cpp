#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/reports/report.h"
#include "cli/terminal/text.h"

namespace mantissa::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string size_text(const Json& size) {
  return std::to_string(size.at("height").get<int64_t>()) + "x" +
         std::to_string(size.at("width").get<int64_t>());
}

// "72.9, 80.1, 90.0"
std::string numbers(const Json& values) {
  std::string text;
  for (const Json& value : values) {
    text += (text.empty() ? "" : ", ") + decimal(value.get<double>(), 2);
  }
  return text;
}

std::string pictures(const Json& data) {
  const std::string smallest = size_text(data.at("smallest")),
                    largest = size_text(data.at("largest"));
  const std::string loaded = size_text(data);
  std::string text = smallest == largest ? smallest : smallest + " to " + largest;
  text += data.at("channels") == 1 ? ", grey" : ", colour";
  return text + (loaded == smallest && loaded == largest ? "" : ", brought to " + loaded);
}

std::string class_table(const Json& classes, bool with_validation, const Terminal& terminal) {
  int width = 5;
  for (const Json& one : classes) {
    width = std::max(width, columns(shortened(printable(one.at("name").get<std::string>()), 30)));
  }
  std::string text =
      terminal.paint("2", "  " + pad_right("class", width + 6) + "training" +
                              (with_validation ? "  validation" : "") + "      test") +
      "\n";
  int index = 0;
  for (const Json& one : classes) {
    const std::string name = shortened(printable(one.at("name").get<std::string>()), 30);
    text += "  " + pad_left(std::to_string(index++), 3) + " " + pad_right(name, width) +
            pad_left(grouped(one.at("train").get<int64_t>()), 10) +
            (with_validation ? pad_left(grouped(one.at("validation").get<int64_t>()), 12) : "") +
            pad_left(grouped(one.at("test").get<int64_t>()), 10) + "\n";
  }
  return text;
}

// At most `most` lines of a list.
std::string listed(const std::string& title, const Json& lines, size_t most,
                   const Terminal& terminal) {
  if (lines.empty()) return "";
  std::string text = "\n" + terminal.paint("1", title) + "\n";
  for (size_t i = 0; i < std::min(most, lines.size()); ++i) {
    text += "  " + printable(lines[i].get<std::string>()) + "\n";
  }
  if (lines.size() > most) text += "  and " + std::to_string(lines.size() - most) + " more\n";
  return text;
}

// "price", or "a, b" of several.
std::string target_text(const Json& table) {
  std::string text = printable(table.at("target").at("name").get<std::string>());
  for (const Json& column : table.value("more_targets", Json::array())) {
    text += ", " + printable(column.at("name").get<std::string>());
  }
  return text;
}

// "13 columns, 24 numbers of each row, to predict classes of 'species'".
std::string table_text(const Json& data) {
  const Json& table = data.at("table");
  return grouped(static_cast<int64_t>(table.at("columns").size())) + " columns, " +
         grouped(data.at("features").get<int64_t>()) + " numbers of each row, to predict " +
         (data.at("task") == "regression" ? table.contains("more_targets") ? "the numbers '"
                                                                           : "the number '"
          : table.contains("more_targets") ? "the labels '"
                                           : "the class '") +
         target_text(table) + "'" +
         (table.contains("weights")
              ? ", weighted by '" + printable(table.at("weights").get<std::string>()) + "'"
              : "");
}

// Lines about the examples, each with its name; the first says what they are.
std::vector<std::pair<const char*, std::string>> contents(const Json& data) {
  if (data.contains("table")) return {{"table", table_text(data)}};
  return {{"pictures", pictures(data)},
          {"mean", numbers(data.at("mean"))},
          {"deviation", numbers(data.at("deviation"))}};
}

std::string column_line(const Json& column, int width) {
  const bool is_number = !column.contains("categories");
  const std::string what =
      is_number ? "mean " + number_text(column.at("mean").get<double>()) + ", deviation " +
                      number_text(column.at("deviation").get<double>())
                : std::to_string(column.at("categories").size()) + " categories";
  const auto missing = column.at("missing").get<int64_t>();
  return "  " + pad_right(shortened(printable(column.at("name").get<std::string>()), 30), width) +
         what + (missing == 0 ? "" : ", " + grouped(missing) + " missing") + "\n";
}

std::string column_table(const Json& data, const Terminal& terminal) {
  constexpr size_t kMost = 100;
  const Json columns_json = data.value("/table/columns"_json_pointer, Json::array());
  if (columns_json.empty()) return "";
  int width = 8;
  for (const Json& column : columns_json) {
    width = std::max(width,
                     2 + columns(shortened(printable(column.at("name").get<std::string>()), 30)));
  }
  std::string text = terminal.paint("2", "  " + pad_right("column", width)) + "\n";
  for (size_t i = 0; i < std::min(kMost, columns_json.size()); ++i) {
    text += column_line(columns_json[i], width);
  }
  if (columns_json.size() > kMost) {
    text += "  and " + std::to_string(columns_json.size() - kMost) + " more\n";
  }
  return text + "\n";
}

}  // namespace

std::string data_line(const std::string& json) {
  const Json data = Json::parse(json);
  const auto validation = data.at("validation_examples").get<int64_t>();
  return printable(data.at("data").get<std::string>()) + ": " + data.at("kind").get<std::string>() +
         ", " + grouped(data.at("train_examples").get<int64_t>()) + " training" +
         (validation == 0 ? "" : ", " + grouped(validation) + " validation") + " and " +
         grouped(data.at("test_examples").get<int64_t>()) + " test examples" +
         (data.at("classes").empty()
              ? ""
              : " of " + std::to_string(data.at("classes").size()) + " classes") +
         ", " + contents(data)[0].second + "\n";
}

std::string data_report(const std::string& json, const Terminal& terminal) {
  const Json data = Json::parse(json);
  const auto row = [](const char* name, const std::string& value) {
    return "  " + pad_right(name, 12) + value + "\n";
  };
  const auto validation = data.at("validation_examples").get<int64_t>();
  std::string lines;
  for (const auto& [name, line] : contents(data)) lines += row(name, line);
  return printable(data.at("data").get<std::string>()) + "\n" +
         row("kind", data.at("kind").get<std::string>()) +
         row("training", grouped(data.at("train_examples").get<int64_t>()) + " examples") +
         (validation == 0 ? "" : row("validation", grouped(validation) + " examples")) +
         row("test", grouped(data.at("test_examples").get<int64_t>()) + " examples") + lines +
         row("in memory", bytes_text(data.at("bytes").get<double>())) + "\n" +
         column_table(data, terminal) +
         (data.at("classes").empty() ? ""
                                     : class_table(data.at("classes"), validation > 0, terminal)) +
         listed("worth knowing", data.at("notes"), 20, terminal) +
         listed("not readable", data.at("unreadable"), 20, terminal);
}

}  // namespace mantissa::cli

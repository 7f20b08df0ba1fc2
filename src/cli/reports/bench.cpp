// The JSON of bench (docs/bench.md) as tables.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/reports/report.h"
#include "cli/terminal/table.h"
#include "cli/terminal/text.h"

namespace mantissa::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kWidth = 100;

double number(const Json& object, const char* name) { return object.at(name).get<double>(); }

std::string text_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? printable(found->get<std::string>()) : "";
}

// "-" if there is no number.
std::string cell(const Json& row, const char* name, int decimals, double factor = 1) {
  const auto found = row.find(name);
  if (found == row.end() || !found->is_number()) return "-";
  return decimal(factor * found->get<double>(), decimals);
}

std::string times_cell(const Json& row) {
  const std::string speedup = cell(row, "speedup", 2);
  return speedup == "-" ? speedup : speedup + "x";
}

std::string dims_text(const Json& dims) {
  std::string text;
  for (const Json& dim : dims) {
    text += (text.empty() ? "" : "x") + std::to_string(dim.get<int64_t>());
  }
  return text;
}

// Short names, for the table that has most columns.
std::string short_phase(const std::string& phase) {
  if (phase == "backward_input") return "grad_in";
  if (phase == "backward_weights") return "grad_w";
  if (phase == "update_statistics") return "stats";
  return phase;
}

// The columns of times and rates, which all tables end with.
void add_rate_columns(bool compares, bool megabytes, std::vector<Column>& columns) {
  columns.push_back({"us", Align::kNumber});
  if (compares) {
    columns.push_back({"before", Align::kNumber});
    columns.push_back({"speedup", Align::kNumber});
  }
  for (const char* title : {"step%", "GOPS", "peak%"}) columns.push_back({title, Align::kNumber});
  if (megabytes) columns.push_back({"MB", Align::kNumber});
  columns.push_back({"GB/s", Align::kNumber});
}

void add_rate_cells(const Json& row, bool compares, bool megabytes,
                    std::vector<std::string>& cells) {
  cells.push_back(cell(row, "median_us", 1));
  if (compares) {
    cells.push_back(cell(row, "before_us", 1));
    cells.push_back(times_cell(row));
  }
  cells.push_back(cell(row, "percent_of_step", 1));
  cells.push_back(cell(row, "gops", 1));
  cells.push_back(cell(row, "percent_of_peak", 1));
  if (megabytes) cells.push_back(cell(row, "bytes", 2, 1e-6));
  cells.push_back(cell(row, "gb_per_s", 1));
}

std::string instruction_table(const Json& bench, bool by_time, const Terminal& terminal) {
  const bool compares = bench.contains("comparison");
  std::vector<const Json*> rows;
  for (const Json& row : bench.at("instructions")) rows.push_back(&row);
  if (by_time) {
    std::stable_sort(rows.begin(), rows.end(), [](const Json* a, const Json* b) {
      return number(*a, "median_us") > number(*b, "median_us");
    });
  }
  std::vector<Column> columns = {{"phase"},
                                 {"name", Align::kTextCutAtStart},
                                 {"op", Align::kTextCutAtEnd},
                                 {"output", Align::kText}};
  add_rate_columns(compares, !compares, columns);
  Table table(columns);
  for (const Json* row : rows) {
    std::vector<std::string> cells = {short_phase(text_of(*row, "phase")), text_of(*row, "name"),
                                      text_of(*row, "op"), dims_text(row->at("output"))};
    add_rate_cells(*row, compares, !compares, cells);
    table.add(std::move(cells));
  }
  return table.text(kWidth, terminal);
}

std::string sum_table(const Json& bench, const char* name, bool by_op, const Terminal& terminal) {
  const bool compares = bench.contains("comparison");
  std::vector<Column> columns = {{"phase"}};
  if (by_op) {
    columns.push_back({"op", Align::kTextCutAtEnd});
    columns.push_back({"kernel", Align::kTextCutAtEnd});
  }
  columns.push_back({"count", Align::kNumber});
  add_rate_columns(compares, false, columns);
  Table table(columns);
  for (const Json& row : bench.at(name)) {
    std::vector<std::string> cells = {text_of(row, "phase")};
    if (by_op) {
      cells.push_back(text_of(row, "op"));
      cells.push_back(text_of(row, "kernel"));
    }
    cells.push_back(cell(row, "instructions", 0));
    add_rate_cells(row, compares, false, cells);
    table.add(std::move(cells));
  }
  return table.text(kWidth, terminal);
}

std::string peak_table(const Json& bench, const Terminal& terminal) {
  const Json& peaks = bench.at("peaks");
  std::vector<Column> columns = {{"peaks"}, {""}, {""}};
  for (const Json& peak : peaks.at("measured")) {
    const auto threads = peak.at("threads").get<int64_t>();
    columns.push_back(
        {std::to_string(threads) + (threads == 1 ? " thread" : " threads"), Align::kNumber});
  }
  Table table(columns);
  const auto add = [&](const char* what, const std::string& how, const char* unit,
                       const char* name) {
    std::vector<std::string> cells = {what, how, unit};
    for (const Json& peak : peaks.at("measured")) {
      cells.push_back(number(peak, name) > 0 ? cell(peak, name, 1) : "-");
    }
    table.add(std::move(cells));
  };
  add("integer", text_of(peaks, "integer_instructions"), "GOPS", "integer_gops");
  add("fp32", text_of(peaks, "float_instructions"), "GFLOPS", "float_gops");
  add("memory", "read", "GB/s", "read_gb_per_s");
  add("memory", "copy (read + written)", "GB/s", "copy_gb_per_s");
  return table.text(kWidth, terminal);
}

std::string heading(const Json& bench) {
  const Json &run = bench.at("run"), &machine = bench.at("machine");
  const auto threads = machine.at("threads").get<int64_t>();
  std::string text = text_of(run, "model") + ", " + text_of(run, "format") + ", batch " +
                     cell(run, "batch_size", 0) + ", data " + text_of(run, "data");
  if (run.contains("input_size")) text += " " + dims_text(run.at("input_size"));
  text += "\n" + text_of(machine, "cpu") + ", " + text_of(machine, "isa") + ", " +
          std::to_string(threads) + (threads == 1 ? " thread" : " threads") + "; " +
          cell(bench, "steps", 0) + " steps after " + cell(bench, "warmup_steps", 0) + "\n";
  return text;
}

std::string us(const Json& object, const char* name) { return cell(object, name, 1) + " us"; }

std::string rate_text(const Json& step) {
  std::string text = grouped(number(step, "examples_per_second")) + " examples/s";
  if (step.at("gops").is_number()) text += ", " + cell(step, "gops", 1) + " GOPS";
  if (step.at("percent_of_peak").is_number()) {
    text += ", " + cell(step, "percent_of_peak", 1) + " % of the integer peak";
  }
  return text;
}

std::vector<std::string> warnings_of(const Json& bench) {
  std::vector<std::string> warnings;
  if (!bench.contains("comparison")) return warnings;
  for (const Json& warning : bench.at("comparison").at("warnings")) {
    warnings.push_back(printable(warning.get<std::string>()));
  }
  return warnings;
}

std::string comparison_lines(const Json& bench, const Terminal& terminal) {
  const auto found = bench.find("comparison");
  if (found == bench.end()) return "";
  std::string text = "\n" + terminal.paint("1", "compared with ") + text_of(*found, "file") + "\n";
  text += "  step     " + us(bench.at("step"), "before_us") + " before, " +
          us(bench.at("step"), "median_us") + " now: speedup " + times_cell(bench.at("step")) +
          "\n";
  if (number(*found, "instructions_only_before") > 0 ||
      number(*found, "instructions_only_now") > 0) {
    text += "  program  " + cell(*found, "instructions_only_before", 0) +
            " instructions only before (" + us(*found, "only_before_us") + "), " +
            cell(*found, "instructions_only_now", 0) + " only now\n";
  }
  for (const std::string& warning : warnings_of(bench)) {
    text += "  " + terminal.paint("31", "warning: " + warning) + "\n";
  }
  return text;
}

std::string step_lines(const Json& bench, const Terminal& terminal) {
  const Json& step = bench.at("step");
  std::string text = "\n" + terminal.paint("1", "step") + "\n";
  const auto add = [&](const char* name, const std::string& value) {
    text += "  " + terminal.paint("2", pad_right(name, 15)) + value + "\n";
  };
  add("median", us(step, "median_us") + "; 10 to 90 %: " + cell(step, "p10_us", 1) + " to " +
                    us(step, "p90_us"));
  add("speed", rate_text(step));
  add("overhead", us(step, "overhead_us") + " (" + cell(step, "overhead_percent", 1) +
                      " %) beyond the instructions");
  if (!bench.at("run").contains("input_size")) {
    add("data wait", us(step, "data_wait_us") + " before each step");
  }
  add("arena", bytes_text(number(bench, "arena_bytes")) + " planned");
  if (number(bench, "measured_peak_bytes") > 0) {
    add("weights", bytes_text(number(bench, "state_bytes")) + " with accumulators and optimiser");
    add("peak memory", bytes_text(number(bench, "measured_peak_bytes")) + " measured; a run: " +
                           bytes_text(number(bench, "planned_peak_bytes")) + " planned");
  }
  if (number(step, "re_executions") + number(step, "mispredictions") > 0) {
    add("computed twice", cell(step, "re_executions", 0) + " gradients, " +
                              cell(step, "mispredictions", 0) +
                              " values: their predicted exponent was wrong");
  }
  return text;
}

}  // namespace

std::vector<std::string> bench_warnings(const std::string& json) {
  return warnings_of(Json::parse(json));
}

std::string bench_report(const std::string& json, bool by_time, const Terminal& terminal) {
  const Json bench = Json::parse(json);
  return heading(bench) + "\n" + peak_table(bench, terminal) + "\n" +
         instruction_table(bench, by_time, terminal) + "\n" +
         sum_table(bench, "by_op", true, terminal) + "\n" +
         sum_table(bench, "by_phase", false, terminal) + step_lines(bench, terminal) +
         comparison_lines(bench, terminal);
}

std::string bench_line(const std::string& json) {
  const Json bench = Json::parse(json);
  const Json& step = bench.at("step");
  const std::string speedup =
      bench.contains("comparison") ? ", speedup " + times_cell(step) : std::string();
  return us(step, "median_us") + " per step, " + rate_text(step) + speedup + "\n";
}

}  // namespace mantissa::cli

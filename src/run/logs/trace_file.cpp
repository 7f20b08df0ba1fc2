#include "run/logs/trace_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/files/atomic_file.h"
#include "formats/json_text.h"

namespace mantissa {
namespace {

using nlohmann::ordered_json;
using pipeline::Trace;
using pipeline::TracedCell;
using pipeline::Work;

constexpr int64_t kMostTraceBytes = int64_t{64} << 20;
constexpr std::array<std::string_view, 4> kWorkNames = {"forward", "grad_input", "grad_weights",
                                                        "update"};
// The name of a grad_input that includes the gradients of weights.
constexpr std::string_view kWholeBackward = "backward";

// A text of a file, also if it is no UTF-8.
std::string dumped(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// Nanoseconds as microseconds.
std::string microseconds(int64_t ns) {
  std::string rest = std::to_string(ns % 1000);
  rest.insert(0, 3 - rest.size(), '0');
  return std::to_string(ns / 1000) + "." + rest;
}

bool has_grad_weights(const std::vector<TracedCell>& cells) {
  return std::ranges::find(cells, Work::kGradWeights, &TracedCell::work) != cells.end();
}

std::string event_text(size_t stage, std::string_view name, const TracedCell& cell) {
  std::string text = R"({"ph":"X","pid":1,"tid":)" + std::to_string(stage + 1) + R"(,"ts":)" +
                     microseconds(cell.start_ns) + R"(,"dur":)" +
                     microseconds(cell.end_ns - cell.start_ns) + R"(,"name":")" +
                     std::string(name) + R"(","cat":"pipeline","args":{"step":)" +
                     std::to_string(cell.step);
  if (cell.micro_batch > 0) text += R"(,"micro_batch":)" + std::to_string(cell.micro_batch);
  return text + "}}";
}

std::string name_text(const char* what, size_t thread, const std::string& name) {
  return dumped(
      {{"ph", "M"}, {"pid", 1}, {"tid", thread}, {"name", what}, {"args", {{"name", name}}}});
}

std::string row_text(size_t stage) {
  return dumped({{"ph", "M"},
                 {"pid", 1},
                 {"tid", stage + 1},
                 {"name", "thread_sort_index"},
                 {"args", {{"sort_index", stage + 1}}}});
}

ordered_json options_json(const Trace& trace) {
  const pipeline::Options& options = trace.options;
  return {{"program", "mantissa"},
          {"stages", trace.stages.size()},
          {"pipeline", pipeline::mode_name(options.mode)},
          {"flush_form", pipeline::flush_form_name(options.form)},
          {"windows", pipeline::windows_name(options.windows)},
          {"accumulate", options.accumulate},
          {"names", trace.names}};
}

// The entry of an object; null if there is none.
const nlohmann::json& entry(const nlohmann::json& object, const char* name) {
  static const nlohmann::json none;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() ? *found : none;
}

int64_t whole_of(const nlohmann::json& object, const char* name, int64_t most) {
  const nlohmann::json& number = entry(object, name);
  if (!number.is_number_unsigned() || number.get<uint64_t>() > static_cast<uint64_t>(most)) {
    return -1;
  }
  return number.get<int64_t>();
}

std::string text_of(const nlohmann::json& object, const char* name) {
  const nlohmann::json& text = entry(object, name);
  return text.is_string() ? text.get<std::string>() : "";
}

Result<pipeline::Options> parse_options(const nlohmann::json& json) {
  pipeline::Options options;
  MANTISSA_ASSIGN(options.mode, pipeline::parse_mode(text_of(json, "pipeline")));
  MANTISSA_ASSIGN(options.form, pipeline::parse_flush_form(text_of(json, "flush_form")));
  MANTISSA_ASSIGN(options.windows, pipeline::parse_windows(text_of(json, "windows")));
  options.stages = static_cast<int>(whole_of(json, "stages", pipeline::kMostStages));
  options.accumulate = static_cast<int>(whole_of(json, "accumulate", 1 << 20));
  if (options.stages < 1 || options.accumulate < 1) return invalid_input("no stages");
  return options;
}

// False: another program wrote it.
bool parse_event(const nlohmann::json& event, Trace& trace) {
  if (text_of(event, "ph") == "M") return true;
  const std::string name = text_of(event, "name");
  const auto work = std::ranges::find(kWorkNames, name);
  const int64_t stage = whole_of(event, "tid", std::ssize(trace.stages));
  const nlohmann::json& args = entry(event, "args");
  const nlohmann::json &start = entry(event, "ts"), &length = entry(event, "dur");
  TracedCell cell;
  cell.work = name == kWholeBackward
                  ? Work::kGradInput
                  : static_cast<Work>(work == kWorkNames.end() ? 0 : work - kWorkNames.begin());
  cell.step = whole_of(args, "step", int64_t{1} << 40);
  cell.micro_batch = static_cast<int>(std::max<int64_t>(0, whole_of(args, "micro_batch", 1 << 20)));
  const bool known = work != kWorkNames.end() || name == kWholeBackward;
  if (!known || stage < 1 || cell.step < 1 || !start.is_number() || !length.is_number()) {
    return false;
  }
  constexpr double kMostMicroseconds = 1e12;
  const double from = start.get<double>(), time = length.get<double>();
  if (!(from >= 0 && from < kMostMicroseconds && time >= 0 && time < kMostMicroseconds)) {
    return false;
  }
  cell.start_ns = std::llround(1000 * from);
  cell.end_ns = cell.start_ns + std::llround(1000 * time);
  trace.stages[static_cast<size_t>(stage) - 1].push_back(cell);
  return true;
}

}  // namespace

std::string trace_json(const Trace& trace) {
  std::string text = "{\"displayTimeUnit\":\"ms\",\n\"otherData\":" + dumped(options_json(trace)) +
                     ",\n\"traceEvents\":[\n" + name_text("process_name", 0, "mantissa");
  for (size_t s = 0; s < trace.stages.size(); ++s) {
    std::string name = "stage " + std::to_string(s + 1);
    if (s < trace.names.size()) name += ": " + trace.names[s];
    text += ",\n" + name_text("thread_name", s + 1, name) + ",\n" + row_text(s);
  }
  for (size_t s = 0; s < trace.stages.size(); ++s) {
    const bool splits = has_grad_weights(trace.stages[s]);
    for (const TracedCell& cell : trace.stages[s]) {
      const bool is_whole = cell.work == Work::kGradInput && !splits;
      text += ",\n" +
              event_text(s, is_whole ? kWholeBackward : kWorkNames[static_cast<size_t>(cell.work)],
                         cell);
    }
  }
  return text + "\n]}\n";
}

Result<Trace> read_trace(const std::filesystem::path& path) {
  MANTISSA_ASSIGN(const auto bytes, read_file(path, kMostTraceBytes));
  const auto json =
      parse_json(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  const nlohmann::json& other = entry(json, "otherData");
  const nlohmann::json& events = entry(json, "traceEvents");
  const Result<pipeline::Options> options = parse_options(other);
  if (text_of(other, "program") != "mantissa" || !options.ok() || !events.is_array()) {
    return invalid_input(path.string() + ": is no trace that mantissa train --trace wrote");
  }
  Trace trace = {.options = *options, .names = {}, .stages = {}};
  trace.stages.resize(static_cast<size_t>(options->stages));
  for (const auto& name : entry(other, "names")) {
    if (name.is_string()) trace.names.push_back(name.get<std::string>());
  }
  for (size_t i = 0; i < events.size(); ++i) {
    if (parse_event(events[i], trace)) continue;
    return invalid_input(path.string() + ": event " + std::to_string(i + 1) +
                         " is no piece of a pipeline's work");
  }
  return trace;
}

}  // namespace mantissa

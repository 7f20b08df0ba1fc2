// Benchmarks that were saved: reading them, which trusts nothing, and comparing.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/files/atomic_file.h"
#include "formats/json_text.h"
#include "measure/benchmark_json.h"

namespace mantissa {
namespace {

// The order of saved entries does not matter; ordered_json looks for each name from the start.
using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr int64_t kLargestFileBytes = int64_t{4} << 20;
constexpr size_t kMostNumbers = 8;  // in one condition
constexpr size_t kMostShown = 60;   // bytes of a condition in a warning

// Whether a value can be a condition. Nested values cannot: the library writes and compares them
// recursively.
bool is_condition(const Json& value) {
  if (!value.is_array()) return !value.is_object();
  return value.size() <= kMostNumbers &&
         std::all_of(value.begin(), value.end(), [](const Json& one) { return one.is_number(); });
}

// A number of microseconds under that name.
bool has_time(const Json& object) {
  const auto found = object.find("median_us");
  return found != object.end() && found->is_number() && std::isfinite(found->get<double>()) &&
         found->get<double>() >= 0;
}

template <typename AnyJson>
std::string text_of(const AnyJson& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->template get<std::string>() : "";
}

// `text`, cut if it is longer than a warning can show.
std::string cut(std::string text) {
  if (text.size() <= kMostShown) return text;
  size_t end = kMostShown;
  // Not within a character of UTF-8.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  return text + "...";
}

// The fault of a saved benchmark; "" if it has none.
std::string problem_of(const Json& saved) {
  if (saved.is_discarded()) return "is no JSON, or larger or deeper than a benchmark is";
  if (!saved.is_object() || !saved.contains("mantissa_bench")) {
    return "was not written by mantissa bench";
  }
  if (saved["mantissa_bench"] != 1) return "has a layout that this version does not know";
  for (const char* name : {"machine", "run", "step"}) {
    if (!saved.contains(name) || !saved[name].is_object()) {
      return std::string("has no object '") + name + "'";
    }
  }
  for (const char* section : {"machine", "run"}) {
    for (const auto& [name, value] : saved[section].items()) {
      if (!is_condition(value)) {
        return "has a value in '" + std::string(section) + "' that is no text and no number: '" +
               cut(name) + "'";
      }
    }
  }
  if (!has_time(saved["step"])) return "has no time of a step ('median_us' in 'step')";
  for (const char* name : {"instructions", "by_op", "by_phase"}) {
    if (!saved.contains(name) || !saved[name].is_array()) {
      return std::string("has no list '") + name + "'";
    }
    size_t index = 0;
    for (const Json& row : saved[name]) {
      if (!row.is_object() || text_of(row, "phase").empty() || !has_time(row)) {
        return std::string("entry ") + std::to_string(index) + " of '" + name +
               "' has no phase or no time";
      }
      ++index;
    }
  }
  return "";
}

// Rows of two benchmarks belong together if these agree, the first to the first and so on.
template <typename AnyJson>
std::string key_of(const AnyJson& row) {
  return text_of(row, "phase") + '\n' + text_of(row, "op") + '\n' + text_of(row, "name");
}

void add_before(double before_us, OrderedJson& row) {
  const double now_us = row["median_us"].get<double>();
  row["before_us"] = before_us;
  row["speedup"] = now_us > 0 ? OrderedJson(before_us / now_us) : OrderedJson();
}

// Rows that only one of two tables has.
struct Unmatched {
  int64_t now = 0, before = 0;
  double before_us = 0;
};

Unmatched compare_rows(const Json& before, OrderedJson& now) {
  std::map<std::string, std::vector<double>> times;
  for (const Json& row : before) times[key_of(row)].push_back(row["median_us"].get<double>());
  std::map<std::string, size_t> used;
  Unmatched unmatched;
  for (OrderedJson& row : now) {
    const std::string key = key_of(row);
    const std::vector<double>& there = times[key];
    size_t& next = used[key];
    if (next == there.size()) {
      row["before_us"] = row["speedup"] = nullptr;
      ++unmatched.now;
    } else {
      add_before(there[next++], row);
    }
  }
  for (const auto& [key, there] : times) {
    for (size_t i = used[key]; i < there.size(); ++i) {
      ++unmatched.before;
      unmatched.before_us += there[i];
    }
  }
  return unmatched;
}

std::string shown(const Json& value) {
  if (value.is_string()) return cut(value.get<std::string>());
  return cut(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void warn_of(const char* section, const Json& before, const OrderedJson& now,
             OrderedJson& warnings) {
  for (const auto& [name, entry] : now[section].items()) {
    if (name == "compiler") continue;  // often compared
    const Json value = entry;
    const auto found = before[section].find(name);
    const bool known = found != before[section].end();
    if (known && *found == value) continue;
    warnings.push_back(name + " differs: now " + shown(value) + ", before " +
                       (known ? shown(*found) : "unknown"));
  }
}

}  // namespace

std::string benchmark_file(const std::string& path) {
  std::error_code unreadable;
  if (!std::filesystem::is_directory(path, unreadable)) return path;
  return (std::filesystem::path(path) / "bench.json").string();
}

Result<Json> read_benchmark(const std::string& file) {
  MANTISSA_ASSIGN(const auto bytes, read_file(file, kLargestFileBytes));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Json saved = parse_json(text);
  if (const std::string problem = problem_of(saved); !problem.empty()) {
    return invalid_input(file + ": " + problem);
  }
  return saved;
}

void compare_benchmarks(const Json& before, const std::string& file, OrderedJson& now) {
  OrderedJson warnings = OrderedJson::array();
  warn_of("machine", before, now, warnings);
  warn_of("run", before, now, warnings);
  add_before(before["step"]["median_us"].get<double>(), now["step"]);
  const Unmatched unmatched = compare_rows(before["instructions"], now["instructions"]);
  compare_rows(before["by_op"], now["by_op"]);
  compare_rows(before["by_phase"], now["by_phase"]);
  now["comparison"] = {{"file", file},
                       {"warnings", warnings},
                       {"instructions_only_now", unmatched.now},
                       {"instructions_only_before", unmatched.before},
                       {"only_before_us", unmatched.before_us}};
}

}  // namespace mantissa

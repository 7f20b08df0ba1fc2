#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/reports/report.h"
#include "cli/terminal/text.h"

namespace mantissa::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostNames = 8;

std::string names_text(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
    text += (i == 0 ? "" : ", ") + printable(names[i]);
  }
  if (names.size() > kMostNames) {
    text += " and " + grouped(static_cast<int64_t>(names.size() - kMostNames)) + " more";
  }
  return text;
}

Json step_or_null(int64_t step) { return step < 0 ? Json() : Json(step); }

}  // namespace

std::string verify_report(const Comparison& comparison, const Terminal& terminal) {
  std::string text;
  if (comparison.differing_step < 0) {
    text = (comparison.same ? terminal.paint("32", "same")
                            : terminal.paint("33", "not known") +
                                  ": hashes are missing; same where "
                                  "both have them") +
           ": " + grouped(comparison.tensors) + " tensors at " +
           grouped(comparison.steps_compared) + " steps, the last of them " +
           grouped(comparison.last_same_step) + "\n";
  } else {
    text =
        terminal.paint("31", "differ") + ": first at step " + grouped(comparison.differing_step) +
        (comparison.last_same_step < 0 ? std::string(", the first that was compared")
                                       : ", same at step " + grouped(comparison.last_same_step)) +
        "\n  in " + grouped(static_cast<int64_t>(comparison.differing_tensors.size())) + " of " +
        grouped(comparison.tensors) + " tensors: " + names_text(comparison.differing_tensors) +
        "\n";
  }
  for (const std::string& note : comparison.notes) text += "note: " + printable(note) + "\n";
  return text;
}

std::string verify_json(const Comparison& comparison) {
  const bool known = comparison.same || comparison.differing_step >= 0;
  const Json json = {{"same", known ? Json(comparison.same) : Json()},
                     {"tensors", comparison.tensors},
                     {"steps_compared", comparison.steps_compared},
                     {"last_same_step", step_or_null(comparison.last_same_step)},
                     {"differing_step", step_or_null(comparison.differing_step)},
                     {"differing_tensors", comparison.differing_tensors},
                     {"notes", comparison.notes}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace mantissa::cli

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

std::string verify_report(const VerifyOutcome& outcome, const Terminal& terminal) {
  std::string text;
  if (outcome.differing_step < 0) {
    text = (outcome.same ? terminal.paint("32", "same")
                         : terminal.paint("33", "not known") +
                               ": hashes are missing; same where "
                               "both have them") +
           ": " + grouped(outcome.tensors) + " tensors at " + grouped(outcome.steps_compared) +
           " steps, the last of them " + grouped(outcome.last_same_step) + "\n";
  } else {
    text = terminal.paint("31", "differ") + ": first at step " + grouped(outcome.differing_step) +
           (outcome.last_same_step < 0 ? std::string(", the first that was compared")
                                       : ", same at step " + grouped(outcome.last_same_step)) +
           "\n  in " + grouped(static_cast<int64_t>(outcome.differing_tensors.size())) + " of " +
           grouped(outcome.tensors) + " tensors: " + names_text(outcome.differing_tensors) + "\n";
  }
  for (const std::string& note : outcome.notes) text += "note: " + printable(note) + "\n";
  return text;
}

std::string verify_json(const VerifyOutcome& outcome) {
  const bool known = outcome.same || outcome.differing_step >= 0;
  const Json json = {{"same", known ? Json(outcome.same) : Json()},
                     {"tensors", outcome.tensors},
                     {"steps_compared", outcome.steps_compared},
                     {"last_same_step", step_or_null(outcome.last_same_step)},
                     {"differing_step", step_or_null(outcome.differing_step)},
                     {"differing_tensors", outcome.differing_tensors},
                     {"notes", outcome.notes}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace mantissa::cli

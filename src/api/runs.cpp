// The public interface to what runs leave behind, in terms of report/.
#include "mantissa/runs.h"

#include "api/outcome.h"
#include "api/target.h"
#include "report/report.h"
#include "report/verify.h"

namespace mantissa {

VerifyOutcome verify(const std::string& run_a, const std::string& run_b) {
  Result<HashComparison> comparison = compare_hashes(run_a, run_b);
  if (!comparison.ok()) return refused<VerifyOutcome>(comparison.error());
  VerifyOutcome outcome;
  outcome.same = comparison->differing_step < 0;
  outcome.exit = outcome.same ? Exit::kDone : Exit::kFailed;
  outcome.tensors = comparison->tensors;
  outcome.steps_compared = comparison->steps_compared;
  outcome.last_same_step = comparison->last_same_step;
  outcome.differing_step = comparison->differing_step;
  outcome.differing_tensors = std::move(comparison->differing_tensors);
  outcome.notes = std::move(comparison->notes);
  return outcome;
}

namespace {

Result<ReportOutcome> write_report(const std::vector<std::string>& folders,
                                   const Settings& settings) {
  ReportOutcome outcome;
  outcome.file = "report.html";
  for (const auto& [name, text] : settings) {
    if (name != "out") return invalid_input("unknown setting '" + name + "' of report");
    outcome.file = text;
  }
  MANTISSA_RETURN_IF_ERROR(check_target(outcome.file));
  MANTISSA_ASSIGN(const std::vector<RunRecord> runs, read_runs(folders));
  MANTISSA_RETURN_IF_ERROR(write_target(outcome.file, report_html(runs)));
  for (const RunRecord& run : runs) {
    for (const std::string& problem : run.problems) {
      outcome.problems.push_back(run.folder.string() + ": " + problem);
    }
  }
  return outcome;
}

}  // namespace

ReportOutcome report(const std::vector<std::string>& runs, const Settings& settings) {
  Result<ReportOutcome> outcome = write_report(runs, settings);
  return outcome.ok() ? std::move(*outcome) : refused<ReportOutcome>(outcome.error());
}

}  // namespace mantissa

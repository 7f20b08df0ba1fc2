// The public interface to what runs leave behind, in terms of report/.
#include "mantissa/runs.h"

#include "api/outcome.h"
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

}  // namespace mantissa

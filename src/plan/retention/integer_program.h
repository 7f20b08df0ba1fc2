// A mixed integer linear programme: the numbers that minimise a cost under linear constraints.
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"

namespace mantissa {

struct IntegerProgram {
  struct Variable {
    double least = 0, most = 1;
    double cost = 0;
    bool integer = false;
  };
  struct Term {
    int variable;
    double factor;
  };
  struct Constraint {
    std::vector<Term> sum;  // of at most one term per variable
    double most;
  };

  std::vector<Variable> variables;
  std::vector<Constraint> constraints;
};

struct SolverLimits {
  double cutoff;         // solutions that cost as much or more are of no interest
  double gap = 0;        // how much more than the least the solution may cost, as a share of it
  double seconds = 600;  // of computing
};

// The values of the variables, or nothing if no solution is below the cutoff. Solved by Cbc, which
// is loaded when it is first needed. Errors: it cannot be loaded; the time was not enough.
Result<std::optional<std::vector<double>>> solve(const IntegerProgram& program,
                                                 const SolverLimits& limits);

}  // namespace mantissa

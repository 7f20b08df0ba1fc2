#include "plan/retention/integer_program.h"

#include <coin/Cbc_C_Interface.h>

#include <memory>
#include <string>

#include "base/system/shared_library.h"

namespace mantissa {
namespace {

// The functions of Cbc's C interface that are used.
struct Cbc {
  SharedLibrary library{MANTISSA_CBC_LIBRARY};
  decltype(&Cbc_newModel) create = library.find("Cbc_newModel");
  decltype(&Cbc_deleteModel) destroy = library.find("Cbc_deleteModel");
  decltype(&Cbc_addCol) add_variable = library.find("Cbc_addCol");
  decltype(&Cbc_addRow) add_constraint = library.find("Cbc_addRow");
  decltype(&Cbc_setParameter) set_parameter = library.find("Cbc_setParameter");
  decltype(&Cbc_setCutoff) set_cutoff = library.find("Cbc_setCutoff");
  decltype(&Cbc_setMaximumSeconds) set_seconds = library.find("Cbc_setMaximumSeconds");
  decltype(&Cbc_setLogLevel) set_log_level = library.find("Cbc_setLogLevel");
  decltype(&Cbc_solve) solve = library.find("Cbc_solve");
  decltype(&Cbc_isProvenOptimal) is_proven_optimal = library.find("Cbc_isProvenOptimal");
  decltype(&Cbc_isProvenInfeasible) is_proven_infeasible = library.find("Cbc_isProvenInfeasible");
  decltype(&Cbc_isSecondsLimitReached) is_out_of_time = library.find("Cbc_isSecondsLimitReached");
  decltype(&Cbc_getColSolution) solution = library.find("Cbc_getColSolution");
};

using Model = std::unique_ptr<Cbc_Model, decltype(&Cbc_deleteModel)>;

void add(const Cbc& cbc, Cbc_Model* model, const IntegerProgram& program) {
  for (const IntegerProgram::Variable& v : program.variables) {
    cbc.add_variable(model, "", v.least, v.most, v.cost, v.integer, 0, nullptr, nullptr);
  }
  std::vector<int> variables;
  std::vector<double> factors;
  for (const IntegerProgram::Constraint& constraint : program.constraints) {
    variables.clear();
    factors.clear();
    for (const auto& [variable, factor] : constraint.sum) {
      variables.push_back(variable);
      factors.push_back(factor);
    }
    cbc.add_constraint(model, "", static_cast<int>(variables.size()), variables.data(),
                       factors.data(), 'L', constraint.most);
  }
}

}  // namespace

Result<std::optional<std::vector<double>>> solve(const IntegerProgram& program,
                                                 const SolverLimits& limits) {
  static const Cbc cbc;
  if (!cbc.library.error().empty()) {
    return failed("the exact planner computes with Cbc 2.10, which is not usable here (" +
                  cbc.library.error() + "); on Debian, install coinor-libcbc-dev and build again");
  }
  const Model model(cbc.create(), cbc.destroy);
  cbc.set_log_level(model.get(), 0);
  add(cbc, model.get(), program);
  cbc.set_parameter(model.get(), "logLevel", "0");
  // Neither pays here: solutions are known from a search, and cuts are few.
  cbc.set_parameter(model.get(), "heuristicsOnOff", "off");
  cbc.set_parameter(model.get(), "cutsOnOff", "off");
  cbc.set_parameter(model.get(), "ratioGap", std::to_string(limits.gap).c_str());
  cbc.set_cutoff(model.get(), limits.cutoff);
  cbc.set_seconds(model.get(), limits.seconds);
  cbc.solve(model.get());
  if (cbc.is_proven_infeasible(model.get())) return std::optional<std::vector<double>>();
  if (!cbc.is_proven_optimal(model.get())) {
    if (cbc.is_out_of_time(model.get()) == 0) {
      return failed("the exact planner's solver, Cbc, gave up on numerical grounds");
    }
    return failed("the exact planner did not finish within " +
                  std::to_string(static_cast<int>(limits.seconds)) + " s");
  }
  const double* values = cbc.solution(model.get());
  return std::optional(std::vector<double>(values, values + program.variables.size()));
}

}  // namespace mantissa

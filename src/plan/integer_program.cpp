#include "plan/integer_program.h"

#include <coin/Cbc_C_Interface.h>
#include <dlfcn.h>

#include <memory>
#include <string>

namespace mantissa {
namespace {

constexpr const char* kLibrary = "libCbcSolver.so.3";

struct Cbc {
  decltype(&Cbc_newModel) create = nullptr;
  decltype(&Cbc_deleteModel) destroy = nullptr;
  decltype(&Cbc_addCol) add_variable = nullptr;
  decltype(&Cbc_addRow) add_constraint = nullptr;
  decltype(&Cbc_setParameter) set_parameter = nullptr;
  decltype(&Cbc_setCutoff) set_cutoff = nullptr;
  decltype(&Cbc_setMaximumSeconds) set_seconds = nullptr;
  decltype(&Cbc_setLogLevel) set_log_level = nullptr;
  decltype(&Cbc_solve) solve = nullptr;
  decltype(&Cbc_isProvenOptimal) is_proven_optimal = nullptr;
  decltype(&Cbc_isProvenInfeasible) is_proven_infeasible = nullptr;
  decltype(&Cbc_isSecondsLimitReached) is_out_of_time = nullptr;
  decltype(&Cbc_getColSolution) solution = nullptr;
  std::string error;
};

Cbc load() {
  Cbc cbc;
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    cbc.error = dlerror();
    return cbc;
  }
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) cbc.error = std::string(kLibrary) + " has no " + name;
  };
  find("Cbc_newModel", cbc.create);
  find("Cbc_deleteModel", cbc.destroy);
  find("Cbc_addCol", cbc.add_variable);
  find("Cbc_addRow", cbc.add_constraint);
  find("Cbc_setParameter", cbc.set_parameter);
  find("Cbc_setCutoff", cbc.set_cutoff);
  find("Cbc_setMaximumSeconds", cbc.set_seconds);
  find("Cbc_setLogLevel", cbc.set_log_level);
  find("Cbc_solve", cbc.solve);
  find("Cbc_isProvenOptimal", cbc.is_proven_optimal);
  find("Cbc_isProvenInfeasible", cbc.is_proven_infeasible);
  find("Cbc_isSecondsLimitReached", cbc.is_out_of_time);
  find("Cbc_getColSolution", cbc.solution);
  return cbc;
}

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
  static const Cbc cbc = load();
  if (!cbc.error.empty()) {
    return failed("the exact planner computes with Cbc 2.10, which is not usable here (" +
                  cbc.error + "); on Debian, install coinor-libcbc3");
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

// The solver finds the same as a search through all choices.
#include "plan/retention/integer_program.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mantissa {
namespace {

constexpr double kNone = std::numeric_limits<double>::max();

// Variables of 0 or 1.
IntegerProgram drawn_program() {
  const int variables = *rc::gen::inRange(1, 9);
  IntegerProgram program;
  for (int v = 0; v < variables; ++v) {
    program.variables.push_back({.cost = 1.0 * *rc::gen::inRange(-20, 21), .integer = true});
  }
  const int constraints = *rc::gen::inRange(0, 4);
  for (int c = 0; c < constraints; ++c) {
    IntegerProgram::Constraint constraint{.sum = {}, .most = 1.0 * *rc::gen::inRange(-20, 21)};
    for (int v = 0; v < variables; ++v) {
      constraint.sum.push_back({v, 1.0 * *rc::gen::inRange(-20, 21)});
    }
    program.constraints.push_back(std::move(constraint));
  }
  return program;
}

// kNone: the solution breaks a constraint.
double cost(const IntegerProgram& program, const std::vector<double>& solution) {
  for (const auto& constraint : program.constraints) {
    double sum = 0;
    for (const auto& term : constraint.sum) sum += term.factor * solution[term.variable];
    if (sum > constraint.most + 1e-6) return kNone;
  }
  double cost = 0;
  for (size_t v = 0; v < solution.size(); ++v) cost += program.variables[v].cost * solution[v];
  return cost;
}

double least_cost(const IntegerProgram& program) {
  double least = kNone;
  const size_t variables = program.variables.size();
  for (unsigned bits = 0; bits < 1U << variables; ++bits) {
    std::vector<double> solution;
    for (size_t v = 0; v < variables; ++v) solution.push_back(bits >> v & 1);
    least = std::min(least, cost(program, solution));
  }
  return least;
}

RC_GTEST_PROP(IntegerProgram, FindsTheLeastCost, ()) {
  const IntegerProgram program = drawn_program();
  const auto solution = solve(program, {.cutoff = 1e9});
  RC_ASSERT(solution.ok());
  const double least = least_cost(program);
  RC_ASSERT(solution->has_value() == (least != kNone));
  if (*solution) RC_ASSERT(std::abs(cost(program, **solution) - least) < 1e-6);
}

RC_GTEST_PROP(IntegerProgram, FindsWhatIsBelowTheCutoffAndNothingElse, ()) {
  const IntegerProgram program = drawn_program();
  const double least = least_cost(program);
  RC_PRE(least != kNone);
  const auto below = solve(program, {.cutoff = least - 0.5});
  RC_ASSERT(below.ok());
  RC_ASSERT(!below->has_value());
  const auto found = solve(program, {.cutoff = least + 0.5});
  RC_ASSERT(found.ok() && found->has_value());
  RC_ASSERT(std::abs(cost(program, **found) - least) < 1e-6);
}

RC_GTEST_PROP(IntegerProgram, FindsWhatIsWithinTheGap, ()) {
  const IntegerProgram program = drawn_program();
  const double least = least_cost(program);
  RC_PRE(least != kNone);
  const auto found = solve(program, {.cutoff = 1e9, .gap = 0.1});
  RC_ASSERT(found.ok() && found->has_value());
  RC_ASSERT(cost(program, **found) <= least + 0.1 * std::abs(least) + 1e-6);
}

// A variable that need not be an integer takes a fraction: x <= 1.5 y, y <= 1, at least 0.75 of x.
TEST(IntegerProgram, PartsOfVariables) {
  IntegerProgram program;
  program.variables = {{.most = 5, .cost = 1}, {.cost = 3}, {.cost = 2, .integer = true}};
  program.constraints = {{{{0, 1}, {1, -1.5}}, 0}, {{{0, -1}}, -0.75}, {{{1, 1}, {2, -1}}, 0}};
  const auto solution = solve(program, {.cutoff = 1e9});
  ASSERT_TRUE(solution.ok() && solution->has_value());
  EXPECT_NEAR((**solution)[0], 0.75, 1e-6);
  EXPECT_NEAR((**solution)[1], 0.5, 1e-6);
  EXPECT_NEAR((**solution)[2], 1, 1e-6);
}

// Market split: sums that must be met exactly. Hardly any choice meets them.
TEST(IntegerProgram, SaysThatTheTimeWasShort) {
  IntegerProgram program;
  program.variables.resize(40, {.cost = 1, .integer = true});
  uint64_t state = 1;
  for (int c = 0; c < 5; ++c) {
    IntegerProgram::Constraint above{.sum = {}, .most = 0}, below = above;
    double total = 0;
    for (int v = 0; v < 40; ++v) {
      state = state * 6364136223846793005 + 1442695040888963407;
      const auto factor = static_cast<double>(state >> 33 & 127);
      total += factor;
      above.sum.push_back({v, factor});
      below.sum.push_back({v, -factor});
    }
    above.most = std::floor(total / 2);
    below.most = -above.most;
    program.constraints.push_back(above);
    program.constraints.push_back(below);
  }
  const auto solution = solve(program, {.cutoff = 1e9, .seconds = 1});
  ASSERT_FALSE(solution.ok());
  EXPECT_NE(solution.error().message.find("did not finish within 1 s"), std::string::npos);
}

}  // namespace
}  // namespace mantissa

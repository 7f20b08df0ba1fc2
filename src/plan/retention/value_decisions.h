// The values that a program keeps for its backward pass, and the reasons, for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/programs/program.h"

namespace mantissa {

class RecomputeModel;

// The decision about a value of the forward pass, or about the gradient of a parameter, and the
// reasons.
struct ValueDecision {
  std::string name;
  bool is_gradient = false;  // of the parameter `name`
  int64_t bytes = 0;
  // Size of the cache that it lies in when the backward pass comes back to it; INT64_MAX: memory;
  // 0: the backward pass does not read it.
  int64_t tier_bytes = 0;
  double keep_us = 0;      // estimated: writing it there and loading it
  double compute_us = 0;   // estimated: computing it again
  int recomputations = 0;  // in the program
  bool is_kept = true;
  const char* decision = "";  // retention_name, "computed by rows", "-" if it is not needed
  const char* reason = "";
};

// The decisions about the values of a model, under a choice that the program was compiled with; by
// the literal rule (choose_literally) or by cost.
std::vector<ValueDecision> value_decisions(const RecomputeModel& model,
                                           const std::vector<Retention>& choice,
                                           const Program& program, bool is_literal);

// A table of the decisions.
std::string to_string(const std::vector<ValueDecision>& decisions);

}  // namespace mantissa

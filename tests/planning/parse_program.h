// Reads programs from their text (plan/programs/program_text.h).
#pragma once

#include <string>

#include "base/result.h"
#include "graph/graph.h"
#include "plan/programs/program.h"

namespace mantissa::testing {

// The program of a network whose text this is, character by character: to_string gives it again.
// An error begins with the number of the line, "line 12: ...". The program need not meet verify().
Result<Program> parse_program(const Graph& graph, const std::string& text);

// "line 12: 'this' in the place of 'that'"; empty if the texts are the same.
std::string first_difference(const std::string& text, const std::string& wanted);

}  // namespace mantissa::testing

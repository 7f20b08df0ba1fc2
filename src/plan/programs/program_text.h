// A program as text: a line for each thing that it has, so that a person can follow a step. The
// text leaves nothing out: tests/planning/parse_program.h makes the same program of it and of the
// network.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "graph/op.h"
#include "plan/programs/program.h"

namespace mantissa {

// The lines of the options; tables of the parameters' grids, buffers and exponents; instructions,
// each with a line per operand; results, segments and the schedule. Absent numbers are "-".
// Attributes that have their defaults are left out. Names behind the last column are for people:
// they follow from the numbers. The program meets verify().
std::string to_string(const Graph& graph, const Program& program);

// Words of the text, in the order of their enums. Blanks in names of other tables become "_".
namespace program_words {

inline constexpr std::array<std::string_view, 2> kKinds = {"training", "inference"};
inline constexpr std::array<std::string_view, 5> kExponentModes = {"exact", "predicted", "fixed",
                                                                   "calibrate", "decided"};
inline constexpr std::array<std::string_view, 8> kOwners = {
    "value",       "gradient",  "gradient_sum",       "rounded_gradient",
    "rounded_sum", "parameter", "parameter_gradient", "velocity"};
inline constexpr std::array<std::string_view, 2> kScalings = {"exponent", "real"};
inline constexpr std::array<std::string_view, 3> kBlocks = {"tensor", "channel", "row"};
inline constexpr std::array<std::string_view, 5> kSpaces = {"none", "arena", "input", "state",
                                                            "cache"};
// Kept, recomputed, recomputed each time: a letter per value.
inline constexpr std::string_view kRetention = "kre";

struct NamedRow {
  std::string_view name;
  OpRow OpRows::*row;
};
inline constexpr std::array<NamedRow, 4> kRows = {{{"forward", &OpRows::forward},
                                                   {"grad_input", &OpRows::grad_input},
                                                   {"grad_weights", &OpRows::grad_weights},
                                                   {"statistics", &OpRows::statistics}}};

}  // namespace program_words
}  // namespace mantissa

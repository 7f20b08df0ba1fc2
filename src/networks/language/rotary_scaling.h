// Scaled positions of language models: whole numbers by which a rotary's angles are divided
// (RotaryAttributes::factors), from what files say of them, and back.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "graph/attributes.h"

namespace mantissa {

// Llama 3's rule: a pair that turns fewer than `low` times in `positions` positions turns slower by
// `factor`, one that turns more than `high` times as before, and those between in between.
struct Llama3Scaling {
  double factor = 1, low = 1, high = 4;
  double positions = 8192;
};

// The whole number of a factor, which is rounded to float32 first, as GGUF files have them. An error
// that begins with `name`: it is not from 1 to 2^20.
Result<int64_t> rotary_factor(double factor, const std::string& name);
double real_factor(int64_t factor);

// One for each pair. The rule's numbers are finite, 1 <= factor, and 0 < low < high. By divisions
// and products of doubles, from the integers of the angles: the same on every machine.
Result<WholeList> llama3_factors(const Llama3Scaling& scaling, int64_t pairs, double base);

// Factors of all pairs; fewer if one says it all: none if all are 1, one if all are alike.
WholeList shortest_factors(WholeList factors);

// Numbers of the rule that give these factors, one for each pair, to 20 bits; none: there are no
// such numbers.
std::optional<Llama3Scaling> llama3_scaling(std::span<const int64_t> factors, double base);

}  // namespace mantissa

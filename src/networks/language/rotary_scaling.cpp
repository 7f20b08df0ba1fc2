#include "networks/language/rotary_scaling.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/real_text.h"
#include "ops/sequences/angles.h"

namespace mantissa {
namespace {

// How often a pair turns in one position.
std::vector<double> turns_of(int64_t pairs, double base) {
  std::vector<double> turns;
  for (const uint64_t angle : ops::angles_of_pairs(pairs, base)) {
    turns.push_back(std::ldexp(static_cast<double>(angle), -64));
  }
  return turns;
}

double factor_at(const Llama3Scaling& scaling, double turns) {
  const double all = scaling.positions * turns;
  if (all < scaling.low) return scaling.factor;
  if (all > scaling.high) return 1;
  const double part = (all - scaling.low) / (scaling.high - scaling.low);
  return 1 / ((1 - part) / scaling.factor + part);
}

// Whether the rule gives these factors, to 20 bits.
bool gives(const Llama3Scaling& scaling, std::span<const int64_t> factors,
           const std::vector<double>& turns) {
  constexpr double kNear = 0x1p-20;
  if (!(0 < scaling.low && scaling.low < scaling.high && scaling.positions >= 1)) return false;
  for (size_t i = 0; i < factors.size(); ++i) {
    const double wanted = real_factor(factors[i]);
    if (!(std::abs(factor_at(scaling, turns[i]) - wanted) <= kNear * wanted)) return false;
  }
  return true;
}

// A pair between the two limits: its turns, and the part of the way from the low limit to the high.
struct Between {
  double turns, part;
};

}  // namespace

double real_factor(int64_t factor) {
  return std::ldexp(static_cast<double>(factor), -ops::kFactorBits);
}

Result<int64_t> rotary_factor(double factor, const std::string& name) {
  const bool fits = factor >= 1 && factor <= real_factor(ops::kMostFactor);
  if (fits) return std::llrint(std::ldexp(static_cast<float>(factor), ops::kFactorBits));
  return invalid_input(name + " = " + real_text(factor) + ": factors are from 1 to 2^20");
}

Result<WholeList> llama3_factors(const Llama3Scaling& scaling, int64_t pairs, double base) {
  WholeList factors;
  for (const double turns : turns_of(pairs, base)) {
    MANTISSA_ASSIGN(const int64_t factor, rotary_factor(factor_at(scaling, turns), "factor"));
    factors.push_back(factor);
  }
  return shortest_factors(std::move(factors));
}

WholeList shortest_factors(WholeList factors) {
  const bool alike = std::ranges::all_of(factors, [&](int64_t f) { return f == factors[0]; });
  if (!alike || factors.empty()) return factors;
  if (factors[0] == ops::kFactorUnit) return {};
  return {factors[0]};
}

// Between the limits part = (positions * turns - low) / (high - low) is a line, by which two pairs
// give positions / (high - low) and low / (high - low). Doubling all three changes nothing.
std::optional<Llama3Scaling> llama3_scaling(std::span<const int64_t> factors, double base) {
  const std::vector<double> turns = turns_of(std::ssize(factors), base);
  Llama3Scaling found = {.factor = real_factor(*std::ranges::max_element(factors))};
  std::vector<Between> pairs;
  for (size_t i = 0; i < factors.size(); ++i) {
    const double factor = real_factor(factors[i]);
    if (factor <= 1 || factor >= found.factor) continue;
    pairs.push_back({turns[i], (1 / factor - 1 / found.factor) / (1 - 1 / found.factor)});
  }
  if (gives(found, factors, turns)) return found;  // Llama 3's own numbers
  if (pairs.empty()) return std::nullopt;
  const Between first = pairs.front(), last = pairs.back();
  if (pairs.size() == 1) {
    found.positions = std::nearbyint((3 * first.part + 1) / first.turns);
    found.high = 1 + (found.positions * first.turns - 1) / first.part;
  } else {
    const double slope = (first.part - last.part) / (first.turns - last.turns);
    const double start = slope * first.turns - first.part;
    constexpr double kParts = 16;
    found.positions = std::nearbyint(slope / start);
    found.high = std::nearbyint(kParts * (1 + 1 / start)) / kParts;
    if (gives(found, factors, turns)) return found;
    constexpr double kFine = 1024;
    found.positions = std::nearbyint(kFine * slope / start);
    found.low = found.positions * start / slope;
    found.high = found.low + found.positions / slope;
  }
  if (gives(found, factors, turns)) return found;
  return std::nullopt;
}

}  // namespace mantissa

// The functions of gates as tables.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/recurrent/recurrent.h"

namespace mantissa::kernels {

constexpr int kPreFraction = REF_PRE_FRACTION, kGateFraction = REF_GATE_FRACTION;
constexpr int kSumFraction = REF_SUM_FRACTION;
constexpr int64_t kGateOne = int64_t{1} << kGateFraction;

// A function of all pre-activations, in Q15.
class GateTable {
 public:
  explicit GateTable(const RefPointFunction& function) {
    ref_fill_gate_table(&function, values_.data());
  }
  const int16_t* at_zero() const { return values_.data() + REF_GATE_TABLE_SIZE / 2; }

 private:
  std::array<int16_t, REF_GATE_TABLE_SIZE> values_;
};

inline const GateTable& sigmoid_table() {
  static const GateTable table(ref_sigmoid_function);
  return table;
}

inline const GateTable& tanh_table() {
  static const GateTable table(ref_tanh_function);
  return table;
}

}  // namespace mantissa::kernels

// Operators of one's own, in integers: a shape rule, the results, and the gradients of the inputs.
//
//   mantissa::OwnOperator square;
//   square.name = "square";
//   square.forward = [](const mantissa::OperatorCall& call) {
//     const auto x = call.inputs[0];
//     return mantissa::Wide{2 * x.exponent, [x](int64_t i) { return x[i] * x[i]; }};
//   };
//   square.gradient = [](const mantissa::OperatorCall& call, int) {
//     const auto x = call.inputs[0], g = call.gradient;
//     return mantissa::Wide{x.exponent + g.exponent + 1, [x, g](int64_t i) { return x[i] * g[i];
//     }};
//   };
//   mantissa::register_operator(square);
//   net.add("square", {x});
//
// Networks that use it are saved with its name, and load if it is registered. Its steps allocate a
// little.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mantissa/export.h"
#include "mantissa/network.h"
#include "mantissa/outcome.h"

namespace mantissa {

// Mantissas that the engine hands over: number i is (*this)[i] * 2^exponent.
struct MantissaView {
  const void* data = nullptr;
  int bytes = 1;  // of a mantissa: 1, 2 or 4
  int exponent = 0;
  Dims dims;  // the examples first

  int64_t operator[](int64_t i) const {
    if (bytes == 1) return static_cast<const int8_t*>(data)[i];
    if (bytes == 2) return static_cast<const int16_t*>(data)[i];
    return static_cast<const int32_t*>(data)[i];
  }
  int64_t count() const {
    int64_t product = 1;
    for (const int64_t dim : dims) product *= dim;
    return product;
  }
};

// Exact results, number(i) * 2^exponent, below 2^62: the engine rounds them to the bits of the
// format. `number` is called from several threads, and more than once for an element. It must give
// the same each time.
struct Wide {
  int exponent = 0;
  std::function<int64_t(int64_t i)> number;
};

struct OperatorCall {
  const OperatorSettings& settings;
  std::vector<MantissaView> inputs;
  Dims output;            // of the result, the examples first
  MantissaView gradient;  // backward: of the result
};

// A setting of the operator: its type is the default's. Numbers have a range.
struct OwnSetting {
  std::string name;
  OperatorSetting otherwise;
  double least = -1e9, most = 1e9;
};

struct OwnOperator {
  std::string name;  // letters, digits and _
  int inputs = 1;
  std::vector<OwnSetting> settings = {};
  // The result's shape for one example; left out: the first input's.
  std::function<Outcome<Dims>(const OperatorSettings&, const std::vector<Dims>& inputs)> shape =
      nullptr;
  std::function<Wide(const OperatorCall&)> forward = nullptr;
  // The gradient of an input. Left out: nothing flows back.
  std::function<Wide(const OperatorCall&, int input)> gradient = nullptr;
};

// Registers an operator for networks that are built or read from now on. An error for a name that
// exists, or one that files cannot hold. It computes in integers: fp32 refuses networks that use
// it.
MANTISSA_EXPORT Outcome<Done> register_operator(OwnOperator op);

}  // namespace mantissa

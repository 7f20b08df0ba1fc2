#include "start/float_state.h"

#include <utility>

#include "networks/imported_network.h"
#include "plan/programs/state_layout.h"
#include "runtime/named_parameters.h"

namespace mantissa {

Result<State> float_state(const onnx::ImportedNetwork& imported, uint64_t seed) {
  MANTISSA_ASSIGN(
      State state,
      State::create(training_layout(imported.graph, kFloatFormat, OptimizerKind::kSgd)));
  initialise(imported.graph, kFloatFormat, seed, state);
  MANTISSA_ASSIGN(
      const TakenParameters taken,
      take_named_parameters(imported.graph, kFloatFormat, named_parameters(imported), state));
  static_cast<void>(taken);  // layers that get other channels begin anew
  return state;
}

}  // namespace mantissa

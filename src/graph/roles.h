// The operands of instructions: their places in a computation, and the use of their data.
#pragma once

#include <cstdint>
#include <string_view>

namespace mantissa {

// An operand's place in the computation. An instruction lists its operands in this order.
enum class Role : uint8_t {
  kInput,       // a value that the node reads, or a gradient that is summed or rounded
  kOutput,      // a value that the node writes; its backward pass may read it
  kGradOutput,  // the gradient of an output
  kGradInput,   // the gradient of an input
  kParameter,   // the tensors of a parameter, in the state
  kSum,         // of a parameter's gradient over the batch
  kVelocity,    // of a parameter, in the state
  kSaved,       // from the forward pass to the backward pass
  kStatistics,  // one record per micro-batch, to the end of the step
  kWorkspace,
  kScratch,  // of the kernel
  kCache,    // of a sequence's earlier positions
};
constexpr int kRoles = 12;
std::string_view role_name(Role role);

// The use of an operand's data.
enum class Access : uint8_t {
  kNone,  // only the shape is used; or there is no operand, as for a gradient that is not wanted
  kReads,
  kWrites,
  kUpdates,      // reads and writes
  kAdds,         // to sums that are there
  kAccumulates,  // sums: begins with the first micro-batch of a step, then adds
};
std::string_view access_name(Access access);
constexpr bool writes(Access access) { return access >= Access::kWrites; }
// Whether the data was written before.
constexpr bool needs_data(Access access) {
  return access == Access::kReads || access == Access::kUpdates || access == Access::kAdds;
}

}  // namespace mantissa

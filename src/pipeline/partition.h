// The division of a network's layers among the stages of a pipeline. Source: AsyncPipeline [0022],
// [0047], [0053]; METHODS section 5.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mantissa::pipeline {

// A layer in the order of the network; times in any one unit, bytes and times of one micro-batch.
struct Layer {
  std::string name;
  double time = 0;            // forward and backward
  int64_t multiply_adds = 0;  // forward
  int64_t parameters = 0;
  int64_t weight_bytes = 0;  // of each version
  int64_t state_bytes = 0;   // that updates keep besides
  int64_t kept_bytes = 0;    // from forward to backward, for each micro-batch in flight
  int64_t work_bytes = 0;    // while it works
  // Bytes of values that later layers read, whichever layer made them; and of their gradients.
  int64_t passed_bytes = 0, returned_bytes = 0;
};

// The quantity that is divided equally among stages.
enum class Balance : uint8_t { kTime, kOperations, kParameters, kLayers };
std::string_view balance_name(Balance balance);
Result<Balance> parse_balance(std::string_view text);

struct Limits {
  int64_t stage_bytes = INT64_MAX;  // of each stage
  double time_per_byte = 0;         // of a link; transfers overlap with the work of a stage
};

struct Division {
  std::vector<int> first;      // layer of each stage; none is empty
  std::vector<double> load;    // of each stage: time, operations, parameters or layers
  std::vector<int64_t> bytes;  // of each stage
  double largest = 0;          // the largest load, or transfer
};

// The division with the smallest largest load, among those that fit the limits. Stage s has
// windows[s] micro-batches in flight and versions[s] versions of its weights. Time: stages ·
// layers². Errors say how many stages there can be, or how much memory a stage needs.
Result<Division> divide(std::span<const Layer> layers, Balance balance,
                        std::span<const int> windows, std::span<const int> versions,
                        const Limits& limits = {});

// The load and the memory of a given division: `first` is the first layer of each stage.
Result<Division> divided(std::span<const Layer> layers, Balance balance, std::span<const int> first,
                         std::span<const int> windows, std::span<const int> versions,
                         const Limits& limits = {});

}  // namespace mantissa::pipeline

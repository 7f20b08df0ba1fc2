// Limits on the contents of an ONNX file. A file that would take all memory or time of its reader
// is refused before it does.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace mantissa::onnx {

constexpr int64_t kMostFileBytes = int64_t{2} << 30;
constexpr int64_t kMostNodeValues = 4096;  // inputs and outputs of a node
constexpr int kMostNesting = 16;           // of graphs
constexpr size_t kMostRank = 8;

// The part of the budget that is left, over the whole file.
class ReadBudget {
 public:
  Status take_fields(int64_t count) { return take(fields_, count, "fields"); }
  Status take_nodes(int64_t count) { return take(nodes_, count, "nodes"); }
  Status take_attributes(int64_t count) { return take(attributes_, count, "attributes"); }
  Status take_tensors(int64_t count) { return take(tensors_, count, "tensors"); }
  Status take_values(int64_t count) { return take(values_, count, "descriptions of values"); }
  // Inputs and outputs of nodes, and strings in lists.
  Status take_strings(int64_t count) { return take(strings_, count, "strings"); }
  // Memory for all but numbers that stay in the file.
  Status take_bytes(int64_t count) { return take(bytes_, count, "bytes of description"); }

 private:
  struct Left {
    int64_t most;
    int64_t left = most;
  };

  static Status take(Left& of, int64_t count, const char* what) {
    if (count > of.left) {
      return invalid_input("more than " + std::to_string(of.most) + " " + what +
                           ", which no network has");
    }
    of.left -= count;
    return {};
  }

  Left fields_{16'000'000};
  Left nodes_{200'000};
  Left attributes_{2'000'000};
  Left tensors_{200'000};
  Left values_{1'000'000};
  Left strings_{1'000'000};
  Left bytes_{128'000'000};
};

}  // namespace mantissa::onnx

// The nodes of a network with a reason against them, as a text.
#pragma once

#include <algorithm>
#include <string>

#include "onnx/names_by_text.h"

namespace mantissa::onnx {

constexpr size_t kMostRefusedNames = 3;  // after the first

// "node 'a' (linear) REASON (and 2 nodes more: 'b', 'c')": a sentence for each operator and reason.
inline std::string refusal_text(const NamesByText& refused) {
  std::string all;
  for (const auto& [text, names] : refused) {
    all += (all.empty() ? "node '" : "; node '") + names[0] + "' " + text;
    const size_t more = names.size() - 1;
    if (more == 0) continue;
    all += " (and " + std::to_string(more) + (more == 1 ? " node more:" : " nodes more:");
    for (size_t i = 1; i <= std::min(more, kMostRefusedNames); ++i) {
      all += (i > 1 ? ", '" : " '") + names[i] + "'";
    }
    all += more > kMostRefusedNames ? ", ...)" : ")";
  }
  return all;
}

}  // namespace mantissa::onnx

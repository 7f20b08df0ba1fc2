// Connectionist temporal classification (Graves et al. 2006): the labels of a sequence, in their
// order, without their places. A path gives each position a class. It spells the labels that are
// left when classes that repeat become one and blanks are taken out.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "graph/attributes.h"
#include "graph/graph.h"
#include "graph/op.h"

namespace mantissa::ops {

struct CtcAttributes {
  int32_t blank = 0;
};

inline constexpr int64_t kMostCtcPositions = int64_t{1} << 15;

// The labels of an example with a blank before, between and behind them: the states that a path
// goes through, one by one. It may leave out a blank between two different labels.
struct CtcStates {
  std::span<const int32_t> labels;  // without padding
  int32_t blank;

  int64_t count() const { return 2 * std::ssize(labels) + 1; }
  bool is_blank(int64_t state) const { return state % 2 == 0; }
  int32_t class_of(int64_t state) const {
    return is_blank(state) ? blank : labels[static_cast<size_t>(state / 2)];
  }
  // Whether a path may come from two states before.
  bool may_skip_to(int64_t state) const {
    return state >= 3 && !is_blank(state) && class_of(state) != class_of(state - 2);
  }
  // The positions that the shortest path takes.
  int64_t least_positions() const;
};

// An example of a batch: its states, and the positions of its sequence.
struct CtcExample {
  CtcStates states;
  int64_t positions;

  bool has_path() const { return states.least_positions() <= positions; }
  // Whether the class of each position, read as a path, spells the labels.
  template <typename ClassAt>
  bool is_spelled(ClassAt&& class_at) const {
    int64_t next = 0, last = -1;
    for (int64_t t = 0; t < positions; ++t) {
      const int64_t found = class_at(t);
      if (found != states.blank && found != last) {
        const bool fits = next < std::ssize(states.labels) &&
                          states.labels[static_cast<size_t>(next)] == found;
        if (!fits) return false;
        ++next;
      }
      last = found;
    }
    return next == std::ssize(states.labels);
  }
};

// Example n of a batch. inputs: logits [N, positions, classes], labels int32 [N, most], perhaps
// lengths int32 [N].
CtcExample ctc_example(const OpContext& c, int64_t n);

// An example of the loss: labels are classes but the blank, and -1 behind them; the sequence is long
// enough for its labels. The error says what the example has.
Status check_ctc_example(const Graph& graph, const Node& loss, const int32_t* labels,
                         int64_t positions);

// The labels and lengths of a batch (null: whole sequences), example by example.
Status check_ctc_labels(const Graph& graph, const Node& loss, const int32_t* labels,
                        const int32_t* lengths, int64_t examples);

}  // namespace mantissa::ops

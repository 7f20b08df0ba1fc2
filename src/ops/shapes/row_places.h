// Rows of sequences that gather_rows takes and scatter_rows fills: the same in all arithmetics.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "graph/op.h"
#include "kernels/common/parallel_ranges.h"
#include "ops/attributes.h"

namespace mantissa::ops {

// The places of an instruction's rows: constants for all sequences, or indices for each.
class RowPlaces {
 public:
  // `indices`: [sequences, rows], or null if the attribute has them. `positions` of a sequence.
  RowPlaces(const RowsAttributes& attributes, const int32_t* indices, int64_t rows,
            int64_t positions)
      : constants_(attributes.rows.data()),
        indices_(indices),
        rows_(rows),
        positions_(positions) {}

  int64_t rows() const { return rows_; }
  int64_t positions() const { return positions_; }
  // The place of a row in its sequence; -1: it has none there.
  int64_t of(int64_t sequence, int64_t row) const {
    const int64_t place =
        indices_ != nullptr ? indices_[sequence * rows_ + row] : constants_[row];
    return place < positions_ ? std::max<int64_t>(place, -1) : -1;
  }

 private:
  const int64_t* constants_;
  const int32_t* indices_;
  int64_t rows_, positions_;
};

inline int64_t positions_of(const Shape& sequences) { return sequences[sequences.rank - 2]; }
inline int64_t sequences_of(const Shape& sequences) {
  return sequences.count() / (positions_of(sequences) * sequences.last());
}

// The indices of the forward pass, and backward those that it saved.
inline const int32_t* indices_of(const OpContext& c) {
  return c.inputs.size() > 1 ? c.inputs[1].as<int32_t>() : nullptr;
}
inline const int32_t* saved_indices_of(const OpContext& c) {
  return reinterpret_cast<const int32_t*>(c.memory.saved);
}
inline void save_indices(const OpContext& c) {
  if (c.inputs.size() < 2 || c.memory.saved == nullptr) return;
  std::copy_n(c.inputs[1].as<int32_t>(), c.inputs[1].count(),
              reinterpret_cast<int32_t*>(c.memory.saved));
}
inline int64_t saved_index_bytes(const OpShapes& s) {
  return s.inputs.size() < 2 ? 0 : s.inputs[1].count() * int64_t{sizeof(int32_t)};
}

// The rows of each position, for sums over the rows that name it: the first one, and after each row
// the next one, -1 at the end.
struct RowsOfPlaces {
  int32_t *first, *next;
  RowsOfPlaces(std::byte* base, int64_t sequences, int64_t positions)
      : first(reinterpret_cast<int32_t*>(base)), next(first + sequences * positions) {}
  static int64_t bytes(int64_t sequences, int64_t positions, int64_t rows) {
    return sequences * (positions + rows) * int64_t{sizeof(int32_t)};
  }
  // Of one sequence, whose earlier rows come first.
  void fill(const RowPlaces& places, int64_t sequence) const {
    int32_t* const of_place = first + sequence * places.positions();
    int32_t* const after = next + sequence * places.rows();
    std::fill_n(of_place, places.positions(), -1);
    for (int64_t row = places.rows() - 1; row >= 0; --row) {
      const int64_t place = places.of(sequence, row);
      if (place < 0) continue;
      after[row] = of_place[place];
      of_place[place] = static_cast<int32_t>(row);
    }
  }
};

// to[row] = from[its place], zeros for a row without one; of one sequence, rows of so many bytes.
inline void take_rows(const RowPlaces& places, int64_t sequence, const std::byte* from,
                      int64_t bytes, std::byte* to) {
  for (int64_t row = 0; row < places.rows(); ++row, to += bytes) {
    const int64_t place = places.of(sequence, row);
    if (place < 0) {
      std::fill_n(to, bytes, std::byte{0});
    } else {
      std::copy_n(from + place * bytes, bytes, to);
    }
  }
}

// The same for the last row of each place; the others get zeros. `last` has room for a number of
// each position.
inline void take_last_rows(const RowPlaces& places, int64_t sequence, const std::byte* from,
                           int64_t bytes, int32_t* last, std::byte* to) {
  for (int64_t row = 0; row < places.rows(); ++row) {
    const int64_t place = places.of(sequence, row);
    if (place >= 0) last[place] = static_cast<int32_t>(row);
  }
  for (int64_t row = 0; row < places.rows(); ++row, to += bytes) {
    const int64_t place = places.of(sequence, row);
    if (place < 0 || last[place] != row) {
      std::fill_n(to, bytes, std::byte{0});
    } else {
      std::copy_n(from + place * bytes, bytes, to);
    }
  }
}

// to[the place of a row] = from[row], zeros elsewhere; of several rows of a place the last stays.
inline void put_rows(const RowPlaces& places, int64_t sequence, const std::byte* from,
                     int64_t bytes, std::byte* to) {
  std::fill_n(to, places.positions() * bytes, std::byte{0});
  for (int64_t row = 0; row < places.rows(); ++row, from += bytes) {
    const int64_t place = places.of(sequence, row);
    if (place >= 0) std::copy_n(from, bytes, to + place * bytes);
  }
}

// Calls function(sequence, from, to) for each sequence of two tensors, on all threads.
template <typename Function>
void for_row_sequences(const OpContext& c, const Tensor& from, const Tensor& to,
                   const Function& function) {
  const int64_t sequences = sequences_of(to.shape);
  const int64_t from_bytes = from.count() / sequences * element_bytes(from.type);
  const int64_t to_bytes = to.count() / sequences * element_bytes(to.type);
  kernels::parallel_ranges(*c.kernel.pool, sequences,
                           std::max<int64_t>(1, kernels::kBytesPerThread / to_bytes),
                           [&](int64_t begin, int64_t end, int64_t) {
                             for (int64_t i = begin; i < end; ++i) {
                               function(i, from.as<std::byte>() + i * from_bytes,
                                        to.as<std::byte>() + i * to_bytes);
                             }
                           });
}

inline int64_t row_bytes_of(const Tensor& rows) {
  return rows.shape.last() * element_bytes(rows.type);
}

// The forward passes, and the gradient that passes on, but for exponents.
inline void gather_all(const OpContext& c) {
  save_indices(c);
  const RowPlaces places(c.attributes<RowsAttributes>(), indices_of(c),
                         positions_of(c.output().shape), positions_of(c.inputs[0].shape));
  for_row_sequences(c, c.inputs[0], c.output(),
                [&](int64_t sequence, const std::byte* from, std::byte* to) {
                  take_rows(places, sequence, from, row_bytes_of(c.output()), to);
                });
}

inline void scatter_all(const OpContext& c) {
  save_indices(c);
  const RowPlaces places(c.attributes<RowsAttributes>(), indices_of(c),
                         positions_of(c.inputs[0].shape), positions_of(c.output().shape));
  for_row_sequences(c, c.inputs[0], c.output(),
                [&](int64_t sequence, const std::byte* from, std::byte* to) {
                  put_rows(places, sequence, from, row_bytes_of(c.output()), to);
                });
}

inline void scatter_all_backward(const OpContext& c) {
  const Tensor &from = c.grad_output(), &to = c.grad_inputs[0];
  const RowPlaces places(c.attributes<RowsAttributes>(), saved_indices_of(c),
                         positions_of(to.shape), positions_of(from.shape));
  auto* const last = reinterpret_cast<int32_t*>(c.memory.workspace);
  for_row_sequences(c, from, to, [&](int64_t sequence, const std::byte* grads, std::byte* rows) {
    take_last_rows(places, sequence, grads, row_bytes_of(to),
                   last + sequence * places.positions(), rows);
  });
}

// The rows that name each place of the input, for the sums of gather_rows' gradient.
inline RowsOfPlaces rows_of_places(const OpContext& c) {
  const Shape &rows = c.grad_output().shape, &all = c.grad_inputs[0].shape;
  const RowPlaces places(c.attributes<RowsAttributes>(), saved_indices_of(c), positions_of(rows),
                         positions_of(all));
  const RowsOfPlaces by_place(c.memory.workspace, sequences_of(all), positions_of(all));
  kernels::parallel_ranges(*c.kernel.pool, sequences_of(all), 1,
                           [&](int64_t begin, int64_t end, int64_t) {
                             for (int64_t i = begin; i < end; ++i) by_place.fill(places, i);
                           });
  return by_place;
}

inline OpMemory gather_memory(const OpShapes& s, const PlanningContext&) {
  const Shape& all = s.inputs[0];
  return {.saved_bytes = saved_index_bytes(s),
          .grad_input = {.workspace_bytes = RowsOfPlaces::bytes(
                             sequences_of(all), positions_of(all), positions_of(s.output))}};
}

inline OpMemory scatter_memory(const OpShapes& s, const PlanningContext&) {
  return {.saved_bytes = saved_index_bytes(s),
          .grad_input = {.workspace_bytes = sequences_of(s.output) * positions_of(s.output) *
                                            int64_t{sizeof(int32_t)}}};
}

}  // namespace mantissa::ops

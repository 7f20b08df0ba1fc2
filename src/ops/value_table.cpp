#include "ops/value_table.h"

#include <algorithm>
#include <optional>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "ops/narrowing.h"

namespace mantissa::ops {
namespace {

// How often each value occurs; counts is [parts][256], the first part becomes the sum.
void count_values(const OpContext& c, const int8_t* in, int64_t* counts) {
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, c.output().count(), kernels::kElementsPerThread,
      [&](int64_t begin, int64_t end, int64_t part) {
        std::fill_n(counts + part * 256, 256, 0);
        c.kernel.table->elementwise->count_values(in, begin, end, counts + part * 256);
      });
  for (int64_t part = 1; part < parts; ++part) {
    for (int value = 0; value < 256; ++value) counts[value] += counts[part * 256 + value];
  }
}

// The least and the greatest mantissa.
std::array<int8_t, 2> extremes(const OpContext& c, const int8_t* in) {
  std::array<std::array<int8_t, 2>, kernels::kMaximumParts> partial;
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, c.output().count(), kernels::kElementsPerThread,
      [&](int64_t begin, int64_t end, int64_t part) {
        partial[part] = {INT8_MAX, INT8_MIN};
        c.kernel.table->elementwise->extremes(in, begin, end, &partial[part][0], &partial[part][1]);
      });
  std::array<int8_t, 2> all = {INT8_MAX, INT8_MIN};
  for (int64_t part = 0; part < parts; ++part) {
    all = {std::min(all[0], partial[part][0]), std::max(all[1], partial[part][1])};
  }
  return all;
}

// By signed mantissas.
template <typename T>
const T& at(const std::array<T, 256>& table, int q) {
  return table[static_cast<uint8_t>(q)];
}

bool never_falls(const ValueTable& table) {
  for (int q = -128; q < 127; ++q) {
    if (at(table, q) > at(table, q + 1)) return false;
  }
  return true;
}

bool is_clamp(const std::array<int8_t, 256>& table) {
  const int low = at(table, -128), high = at(table, 127);
  if (low > high) return false;
  for (int q = -128; q < 128; ++q) {
    if (at(table, q) != std::clamp(q, low, high)) return false;
  }
  return true;
}

// out = table[in].
void look_up(const OpContext& c, const int8_t* in, const std::array<int8_t, 256>& table,
             const kernels::PassCounts& counts) {
  const auto& kernels = *c.kernel.table->elementwise;
  auto* out = c.output().as<int8_t>();
  const bool clamps = is_clamp(table);
  write_pieces(
      c, c.output(), c.output().count(), kernels::kElementsPerThread, counts,
      [&](int64_t begin, int64_t end) {
        if (clamps) {
          kernels.clamp(in, at(table, -128), at(table, 127), out, begin, end);
        } else {
          kernels.look_up(in, table.data(), out, begin, end);
        }
        return kernels::WideStatistics{};  // the table's
      },
      [](int64_t) { return int64_t{0}; });  // counted by value
}

// Which values occur, and how often, as far as that decides anything.
class Occurrences {
 public:
  Occurrences(const OpContext& c, const int8_t* in, const ValueTable& table)
      : context_(c), in_(in), counts_(reinterpret_cast<int64_t*>(c.memory.workspace)) {
    if (counts_values(c) || !never_falls(table)) {
      count();
    } else {
      extremes_ = extremes(c, in);
    }
  }

  // Calls visit(q, times) for the values that occur, or for the least and the greatest, as if
  // each occurred once.
  template <typename Visit>
  void for_each_that_decides(const Visit& visit) const {
    if (!counted_) {
      for (const int8_t q : extremes_) visit(q, int64_t{1});
      return;
    }
    for (int q = -128; q < 128; ++q) {
      if (const int64_t times = counts_[static_cast<uint8_t>(q)]; times > 0) visit(q, times);
    }
  }

  // Calls visit(q, times) for all values that occur.
  template <typename Visit>
  void for_each(const Visit& visit) {
    if (!counted_) count();
    for_each_that_decides(visit);
  }

  // For how many elements `holds` is true. If the table never falls and it is true for any element,
  // it is true for an extreme.
  template <typename Holds>
  int64_t count_if(const Holds& holds) {
    bool any = false;
    for_each_that_decides([&](int q, int64_t) { any |= holds(q); });
    if (!any) return 0;
    if (!counted_) count();
    int64_t total = 0;
    for_each_that_decides([&](int q, int64_t times) { total += holds(q) ? times : 0; });
    return total;
  }

 private:
  void count() {
    count_values(context_, in_, counts_);
    counted_ = true;
  }

  const OpContext& context_;
  const int8_t* in_;
  int64_t* counts_;
  bool counted_ = false;
  std::array<int8_t, 2> extremes_ = {};
};

}  // namespace

int64_t value_table_workspace_bytes(int threads) {
  return std::min<int64_t>(threads, kernels::kMaximumParts) * 256 * int64_t{sizeof(int64_t)};
}

void write_by_table(const OpContext& c, const int8_t* in, const ValueTable& table,
                    int wide_exponent) {
  const int64_t limit = mantissa_limit(c.output().bits);
  // Maximum and clipping are known if the output is computed again.
  std::optional<Occurrences> found;
  uint64_t maximum = 0;
  if (!c.mode.recomputes) {
    found.emplace(c, in, table);
    found->for_each_that_decides([&](int q, int64_t times) {
      maximum = std::max(maximum, magnitude(at(table, q)));
      if (counts_values(c)) {
        count_wide(c.output().histogram, at(table, q), wide_exponent, c.output(), times);
      }
    });
  }
  const auto clipped_at = [&](int shift) -> int64_t {
    if (!found) return 0;
    return found->count_if([&](int q) {
      const int64_t rounded = rescale_rne(at(table, q), shift);
      return saturate(rounded, limit) != rounded;
    });
  };
  const auto write = [&](int shift, const kernels::PassCounts& counts) {
    std::array<int8_t, 256> narrow;
    for (int q = -128; q < 128; ++q) {
      const int64_t rounded = rescale_rne(at(table, q), shift);
      narrow[static_cast<uint8_t>(q)] = static_cast<int8_t>(saturate(rounded, limit));
    }
    const int64_t saturated = clipped_at(shift);
    look_up(c, in, narrow, counts);  // which may be in place
    return saturated;
  };
  const auto count = [&](kernels::WideCounts* counts) {
    found->for_each([&](int q, int64_t times) { counts->add(magnitude(at(table, q)), times); });
  };
  narrow_by_maximum(c, maximum, wide_exponent, write, count);
}

}  // namespace mantissa::ops

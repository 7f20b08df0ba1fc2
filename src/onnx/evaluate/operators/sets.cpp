// Operators that count or reorder: different numbers, n-grams, reversed sequences.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "onnx/evaluate/copy.h"
#include "onnx/evaluate/op_table.h"

namespace mantissa::onnx {
namespace {

// Slices along an axis, or single numbers, in groups of equal ones.
struct Groups {
  std::vector<int64_t> first;    // of each group, the place where it occurs first
  std::vector<int64_t> inverse;  // of each slice, its group
  std::vector<int64_t> counts;
};

// before(a, b): whether slice a comes before slice b. Groups come in that order, or in the order in
// which they first occur.
template <typename Before>
Groups groups_of(int64_t slices, bool sorted, Before before) {
  std::vector<int64_t> order(slices);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), before);
  std::vector<std::vector<int64_t>> members;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || before(order[i - 1], order[i])) members.emplace_back();
    members.back().push_back(order[i]);
  }
  if (!sorted) std::sort(members.begin(), members.end());
  Groups groups;
  groups.inverse.resize(slices);
  for (const std::vector<int64_t>& group : members) {
    for (const int64_t slice : group) {
      groups.inverse[slice] = static_cast<int64_t>(groups.first.size());
    }
    groups.first.push_back(group.front());
    groups.counts.push_back(static_cast<int64_t>(group.size()));
  }
  return groups;
}

// Numbers from the least to the greatest; NaN comes last.
constexpr auto comes_before = [](auto a, auto b) { return a < b || (a == a && b != b); };

Status write_list(OpCall& call, size_t i, const std::vector<int64_t>& list) {
  MANTISSA_RETURN_IF_ERROR(
      call.make_known(i, ElementType::kInt64, {static_cast<int64_t>(list.size())}));
  std::copy(list.begin(), list.end(), call.out<int64_t>(i));
  return {};
}

Status unique(OpCall& call) {
  const bool sorted = call.integer("sorted", 1) != 0;
  Dims from = call.dims(0);
  if (!call.has_attribute("axis")) from = {count_of(from)};
  MANTISSA_ASSIGN(const int64_t axis,
                  call.axis(call.integer("axis", 0), static_cast<int64_t>(from.size())));
  if (!call.known(0)) return call.not_determined();
  return with_type(AllTypes(), call.type(0), [&]<typename T>() -> Status {
    const int64_t size = from[axis];
    const int64_t outer = count_of({from.begin(), from.begin() + axis});
    const int64_t inner = count_of({from.begin() + axis + 1, from.end()});
    const T* in = call.data<T>(0);
    const Groups groups = groups_of(size, sorted, [&](int64_t a, int64_t b) {
      for (int64_t o = 0; o < outer; ++o) {
        const T* x = in + (o * size + a) * inner;
        const T* y = in + (o * size + b) * inner;
        for (int64_t i = 0; i < inner; ++i) {
          if (comes_before(x[i], y[i])) return true;
          if (comes_before(y[i], x[i])) return false;
        }
      }
      return false;
    });
    Dims dims = from;
    dims[axis] = static_cast<int64_t>(groups.first.size());
    MANTISSA_RETURN_IF_ERROR(call.make_known(0, call.type(0), dims));
    T* out = call.out<T>(0);
    for (int64_t o = 0; o < outer; ++o) {
      for (const int64_t slice : groups.first) {
        out = std::copy_n(in + (o * size + slice) * inner, inner, out);
      }
    }
    MANTISSA_RETURN_IF_ERROR(write_list(call, 1, groups.first));
    MANTISSA_RETURN_IF_ERROR(write_list(call, 2, groups.inverse));
    return write_list(call, 3, groups.counts);
  });
}

Status reverse_sequence(OpCall& call) {
  MANTISSA_ASSIGN(const int64_t time, call.axis(call.integer("time_axis", 0), call.rank(0)));
  MANTISSA_ASSIGN(const int64_t batch, call.axis(call.integer("batch_axis", 1), call.rank(0)));
  const Dims& dims = call.dims(0);
  if (time + batch != 1 || call.dims(1) != Dims{dims[batch]}) {
    return invalid_input("lengths of dims " + to_text(call.dims(1)) + " for a value of dims " +
                         to_text(dims) + ", time axis " + std::to_string(time));
  }
  return with_size(call.type(0), [&]<typename U>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
    if (call.shapes_only()) return {};
    MANTISSA_ASSIGN(const std::vector<int64_t> lengths, whole_numbers(call.input(1)));
    const int64_t inner = count_of({dims.begin() + 2, dims.end()});
    for (int64_t row = 0; row < dims[0] * dims[1]; ++row) {
      int64_t at[2] = {row / dims[1], row % dims[1]};
      const int64_t length = lengths[at[batch]];
      if (length < 0 || length > dims[time]) {
        return invalid_input("a length of " + std::to_string(length));
      }
      if (at[time] < length) at[time] = length - 1 - at[time];
      std::copy_n(call.data<U>(0) + (at[0] * dims[1] + at[1]) * inner, inner,
                  call.out<U>(0) + row * inner);
    }
    return {};
  });
}

// Which output an n-gram counts for, and with which weight.
struct Pool {
  struct Place {
    int64_t index;
    float weight;
  };
  std::map<std::vector<int64_t>, Place> grams;
  int64_t outputs = 0;
};

Result<Pool> pool_of(OpCall& call) {
  const std::vector<int64_t> starts = call.integers("ngram_counts");
  const std::vector<int64_t> indexes = call.integers("ngram_indexes");
  const std::vector<int64_t> numbers = call.integers("pool_int64s");
  const std::vector<float> weights = call.reals("weights");
  if (call.has_attribute("pool_strings")) return invalid_input("n-grams of strings");
  Pool pool;
  size_t gram = 0;
  for (size_t n = 0; n < starts.size(); ++n) {
    const auto end = n + 1 < starts.size() ? starts[n + 1] : static_cast<int64_t>(numbers.size());
    const auto length = static_cast<int64_t>(n) + 1;
    if (starts[n] < 0 || end < starts[n] || end > static_cast<int64_t>(numbers.size())) {
      return invalid_input("ngram_counts " + to_text(starts));
    }
    for (int64_t at = starts[n]; at + length <= end; at += length, ++gram) {
      if (gram >= indexes.size() || indexes[gram] < 0 || indexes[gram] > INT32_MAX) {
        return invalid_input("ngram_indexes " + to_text(indexes));
      }
      const float weight = gram < weights.size() ? weights[gram] : 1.0f;
      pool.grams[{numbers.begin() + at, numbers.begin() + at + length}] = {indexes[gram], weight};
      pool.outputs = std::max(pool.outputs, indexes[gram] + 1);
    }
  }
  return pool;
}

struct GramSizes {
  int64_t least, most, most_skip;
};

// Adds the n-grams of a row, each with steps of 1 to 1 + most_skip; single numbers count once.
void count_grams(const Pool& pool, const GramSizes& sizes, const std::vector<int64_t>& row,
                 std::vector<int64_t>& counts) {
  const auto size = static_cast<int64_t>(row.size());
  for (int64_t length = sizes.least; length <= sizes.most; ++length) {
    for (int64_t step = 1; step <= sizes.most_skip + 1; ++step) {
      if (length == 1 && step > 1) break;
      for (int64_t first = 0; first + (length - 1) * step < size; ++first) {
        std::vector<int64_t> gram;
        for (int64_t k = 0; k < length; ++k) gram.push_back(row[first + k * step]);
        const auto found = pool.grams.find(gram);
        if (found != pool.grams.end()) ++counts[found->second.index];
      }
    }
  }
}

Status tf_idf(OpCall& call) {
  const std::string mode = call.text("mode", "");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") return invalid_input("mode '" + mode + "'");
  MANTISSA_ASSIGN(const Pool pool, pool_of(call));
  const GramSizes sizes{call.integer("min_gram_length", 1), call.integer("max_gram_length", 1),
                        call.integer("max_skip_count", 0)};
  const Dims& from = call.dims(0);
  if (from.empty() || from.size() > 2 || sizes.least < 1 || sizes.most < sizes.least ||
      sizes.most > 64 || sizes.most_skip < 0 || sizes.most_skip > 1 << 16) {
    return invalid_input("n-grams of these lengths of a value of dims " + to_text(from));
  }
  Dims dims = from;
  dims.back() = pool.outputs;
  MANTISSA_RETURN_IF_ERROR(call.make(0, ElementType::kFloat, dims));
  if (call.shapes_only()) return {};
  MANTISSA_ASSIGN(const std::vector<int64_t> numbers, whole_numbers(call.input(0)));
  const int64_t size = from.back();
  const int64_t rows = from.size() == 1 ? 1 : from[0];
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<int64_t> counts(pool.outputs, 0);
    count_grams(pool, sizes, {numbers.begin() + row * size, numbers.begin() + (row + 1) * size},
                counts);
    float* out = call.out<float>(0) + row * pool.outputs;
    for (const auto& [gram, place] : pool.grams) {
      const auto count = static_cast<float>(counts[place.index]);
      if (mode == "TF") out[place.index] = count;
      if (mode == "IDF") out[place.index] = count > 0 ? place.weight : 0.0f;
      if (mode == "TFIDF") out[place.index] = count * place.weight;
    }
  }
  return {};
}

constexpr OpRow kSetRows[] = {
    {"Unique", 11, unique, 1, "axis sorted", kNewestOpset, 4},
    {"ReverseSequence", 10, reverse_sequence, 2, "batch_axis time_axis"},
    {"TfIdfVectorizer", 9, tf_idf, 1,
     "max_gram_length max_skip_count min_gram_length mode ngram_counts ngram_indexes pool_int64s "
     "pool_strings weights"},
};

}  // namespace

std::span<const OpRow> set_operators() { return kSetRows; }

}  // namespace mantissa::onnx

#include "onnx/evaluate/loops.h"

#include <algorithm>

namespace mantissa::onnx {

Loops merged(Loops loops) {
  Loops result;
  result.strides.resize(loops.strides.size());
  for (size_t d = 0; d < loops.dims.size(); ++d) {
    const int64_t size = loops.dims[d];
    if (size == 1) continue;
    bool joins = !result.dims.empty();
    for (size_t i = 0; i < loops.strides.size(); ++i) {
      joins = joins && result.strides[i].back() == loops.strides[i][d] * size;
    }
    for (size_t i = 0; i < loops.strides.size(); ++i) {
      if (!joins) result.strides[i].push_back(0);
      result.strides[i].back() = loops.strides[i][d];
    }
    if (joins) {
      result.dims.back() *= size;
    } else {
      result.dims.push_back(size);
    }
  }
  if (result.dims.empty()) {
    result.dims = {1};
    for (Dims& strides : result.strides) strides = {0};
  }
  return result;
}

Dims strides_of(const Dims& dims) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= dims[d];
  }
  return strides;
}

Result<Dims> broadcast(const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims result = longer;
  const size_t before = longer.size() - shorter.size();
  for (size_t d = 0; d < shorter.size(); ++d) {
    int64_t& size = result[before + d];
    if (size == 1) size = shorter[d];
    if (shorter[d] != 1 && shorter[d] != size) {
      return invalid_input("dims " + to_text(a) + " and " + to_text(b) + " do not go together");
    }
  }
  return result;
}

Dims broadcast_strides(const Dims& from, const Dims& to) {
  Dims strides(to.size(), 0);
  const size_t before = to.size() - from.size();
  const Dims own = strides_of(from);
  for (size_t d = 0; d < from.size(); ++d) {
    if (from[d] != 1) strides[before + d] = own[d];
  }
  return strides;
}

void walk(const Loops& loops, const RowFunction& function) {
  const size_t operands = loops.strides.size();
  const size_t rank = loops.dims.size();
  if (count_of(loops.dims) == 0) return;
  std::vector<int64_t> steps(operands);
  for (size_t i = 0; i < operands; ++i) steps[i] = loops.strides[i][rank - 1];
  std::vector<int64_t> offsets(operands);
  std::vector<int64_t> place(rank);
  while (true) {
    function(offsets.data(), steps.data(), loops.dims[rank - 1]);
    size_t d = rank - 1;
    while (d > 0) {
      --d;
      ++place[d];
      for (size_t i = 0; i < operands; ++i) offsets[i] += loops.strides[i][d];
      if (place[d] < loops.dims[d]) break;
      for (size_t i = 0; i < operands; ++i) offsets[i] -= loops.strides[i][d] * place[d];
      place[d] = 0;
      if (d == 0) return;
    }
    if (rank == 1) return;
  }
}

}  // namespace mantissa::onnx

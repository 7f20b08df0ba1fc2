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

}  // namespace mantissa::onnx

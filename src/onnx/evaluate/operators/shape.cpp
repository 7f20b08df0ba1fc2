// Operators that change the layout of a value but none of its numbers.
#include <algorithm>
#include <cstring>

#include "onnx/evaluate/copy.h"
#include "onnx/evaluate/loops.h"
#include "onnx/evaluate/op_table.h"

namespace mantissa::onnx {
namespace {

Status identity(OpCall& call) { return call.forward(0, 0, call.dims(0)); }

Status shape(OpCall& call) {
  const int64_t rank = call.rank(0);
  const auto place = [rank](int64_t axis) {
    return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  const int64_t start = place(call.integer("start", 0));
  const int64_t end = std::max(start, place(call.integer("end", rank)));
  MANTISSA_RETURN_IF_ERROR(call.make_known(0, ElementType::kInt64, {end - start}));
  std::copy(call.dims(0).begin() + start, call.dims(0).begin() + end, call.out<int64_t>(0));
  return {};
}

Status size(OpCall& call) {
  MANTISSA_RETURN_IF_ERROR(call.make_known(0, ElementType::kInt64, {}));
  *call.out<int64_t>(0) = count_of(call.dims(0));
  return {};
}

Status reshape(OpCall& call) {
  MANTISSA_ASSIGN(Dims dims, call.whole(1, "shape"));
  const bool keeps_zero = call.integer("allowzero", 0) != 0;
  int64_t known = 1;
  int64_t open = -1;
  if (dims.size() > 16) return invalid_input("a shape of " + std::to_string(dims.size()) + " dims");
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == -1) {
      if (open >= 0) return invalid_input("shape " + to_text(dims) + " has two open dimensions");
      open = static_cast<int64_t>(d);
      continue;
    }
    if (dims[d] == 0 && !keeps_zero) {
      if (d >= call.dims(0).size()) return invalid_input("shape " + to_text(dims));
      dims[d] = call.dims(0)[d];
    }
    if (dims[d] < 0 || __builtin_mul_overflow(known, dims[d], &known)) {
      return invalid_input("shape " + to_text(dims));
    }
  }
  const int64_t count = count_of(call.dims(0));
  if (open >= 0) dims[open] = known == 0 ? 0 : count / known;
  if (count_of(dims) != count) {
    return invalid_input("a value of dims " + to_text(call.dims(0)) + " has no shape " +
                         to_text(dims));
  }
  return call.forward(0, 0, dims);
}

Status flatten(OpCall& call) {
  const int64_t axis = call.integer("axis", 1);
  const int64_t rank = call.rank(0);
  if (axis < -rank || axis > rank) return invalid_input("axis " + std::to_string(axis));
  const auto middle = call.dims(0).begin() + (axis < 0 ? axis + rank : axis);
  return call.forward(
      0, 0, {count_of({call.dims(0).begin(), middle}), count_of({middle, call.dims(0).end()})});
}

Status squeeze(OpCall& call) {
  MANTISSA_ASSIGN(const std::vector<int64_t> axes, call.whole(1, "axes"));
  std::vector<bool> goes(call.dims(0).size(), axes.empty() && !call.has(1));
  for (const int64_t axis : axes) {
    MANTISSA_ASSIGN(const int64_t place, call.axis(axis, call.rank(0)));
    if (call.dims(0)[place] != 1) {
      return invalid_input("axis " + std::to_string(axis) + " of dims " + to_text(call.dims(0)) +
                           " is not 1");
    }
    goes[place] = true;
  }
  Dims dims;
  for (size_t d = 0; d < goes.size(); ++d) {
    if (!goes[d] || call.dims(0)[d] != 1) dims.push_back(call.dims(0)[d]);
  }
  return call.forward(0, 0, dims);
}

Status unsqueeze(OpCall& call) {
  MANTISSA_ASSIGN(const std::vector<int64_t> axes, call.whole(1, "axes"));
  const int64_t rank = call.rank(0) + static_cast<int64_t>(axes.size());
  if (rank > 16) return invalid_input("a value of rank " + std::to_string(rank));
  Dims dims(rank, 0);
  for (const int64_t axis : axes) {
    MANTISSA_ASSIGN(const int64_t place, call.axis(axis, rank));
    if (dims[place] == 1) return invalid_input("axis " + std::to_string(axis) + " twice");
    dims[place] = 1;
  }
  auto next = call.dims(0).begin();
  for (int64_t& dim : dims) {
    if (dim == 0) dim = *next++;
  }
  return call.forward(0, 0, dims);
}

Status transpose(OpCall& call) {
  std::vector<int64_t> order = call.integers("perm");
  const Dims& from = call.dims(0);
  if (!call.has_attribute("perm")) {
    for (size_t d = from.size(); d-- > 0;) order.push_back(static_cast<int64_t>(d));
  }
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t d = 0; d < sorted.size(); ++d) {
    if (sorted[d] != static_cast<int64_t>(d)) return invalid_input("perm " + to_text(order));
  }
  if (order.size() != from.size()) {
    return invalid_input("perm " + to_text(order) + " for dims " + to_text(from));
  }
  Dims dims;
  Dims strides;
  const Dims own = strides_of(from);
  for (const int64_t d : order) {
    dims.push_back(from[d]);
    strides.push_back(own[d]);
  }
  return copy_strided(call, dims, strides, 0);
}

Status expand(OpCall& call) {
  MANTISSA_ASSIGN(const Dims wanted, call.whole(1));
  MANTISSA_ASSIGN(const Dims dims, broadcast(call.dims(0), wanted));
  return copy_strided(call, dims, broadcast_strides(call.dims(0), dims), 0);
}

Status tile(OpCall& call) {
  MANTISSA_ASSIGN(const std::vector<int64_t> repeats, call.whole(1));
  const Dims& from = call.dims(0);
  if (repeats.size() != from.size()) return invalid_input("repeats for another rank");
  // Each dimension becomes two: the repeats, with stride 0, and the old one.
  Dims dims;
  Dims split;
  Dims strides;
  const Dims own = strides_of(from);
  for (size_t d = 0; d < from.size(); ++d) {
    int64_t size = 0;
    if (repeats[d] < 0 || __builtin_mul_overflow(from[d], repeats[d], &size)) {
      return invalid_input("repeats " + to_text(repeats));
    }
    dims.push_back(size);
    split.insert(split.end(), {repeats[d], from[d]});
    strides.insert(strides.end(), {0, own[d]});
  }
  MANTISSA_RETURN_IF_ERROR(copy_strided(call, split, strides, 0));
  call.output(0).dims = dims;
  return {};
}

// Blocks of channels become places, or the other way round: six dimensions, reordered.
Status rearrange_blocks(OpCall& call, const Dims& split, const std::vector<int64_t>& order,
                        const Dims& dims) {
  const Dims own = strides_of(split);
  Dims reordered;
  Dims strides;
  for (const int64_t d : order) {
    reordered.push_back(split[d]);
    strides.push_back(own[d]);
  }
  MANTISSA_RETURN_IF_ERROR(copy_strided(call, reordered, strides, 0));
  call.output(0).dims = dims;
  return {};
}

Status depth_to_space(OpCall& call) {
  const int64_t block = call.integer("blocksize", 0);
  const std::string mode = call.text("mode", "DCR");
  if (call.rank(0) != 4 || block < 1 || block > 1024 || call.dims(0)[1] % (block * block) != 0 ||
      (mode != "DCR" && mode != "CRD")) {
    return invalid_input("dims " + to_text(call.dims(0)) + " in blocks of " +
                         std::to_string(block) + ", mode '" + mode + "'");
  }
  const Dims& from = call.dims(0);
  const int64_t channels = from[1] / block / block;
  const Dims dims = {from[0], channels, from[2] * block, from[3] * block};
  if (mode == "DCR") {
    return rearrange_blocks(call, {from[0], block, block, channels, from[2], from[3]},
                            {0, 3, 4, 1, 5, 2}, dims);
  }
  return rearrange_blocks(call, {from[0], channels, block, block, from[2], from[3]},
                          {0, 1, 4, 2, 5, 3}, dims);
}

Status space_to_depth(OpCall& call) {
  const int64_t block = call.integer("blocksize", 0);
  const Dims& from = call.dims(0);
  const std::string mode = call.text("mode", "DCR");
  if (from.size() != 4 || block < 1 || block > 1024 || from[2] % block != 0 ||
      from[3] % block != 0 || (mode != "DCR" && mode != "CRD")) {
    return invalid_input("dims " + to_text(from) + " in blocks of " + std::to_string(block) +
                         ", mode '" + mode + "'");
  }
  const std::vector<int64_t> depth_first = {0, 3, 5, 1, 2, 4}, columns_first = {0, 1, 3, 5, 2, 4};
  return rearrange_blocks(call, {from[0], from[1], from[2] / block, block, from[3] / block, block},
                          mode == "DCR" ? depth_first : columns_first,
                          {from[0], from[1] * block * block, from[2] / block, from[3] / block});
}

constexpr OpRow kShapeRows[] = {
    {"Identity", 1, identity, 1, "", kNewestOpset, 1, true},
    {"Shape", 1, shape, 1, "start end"},
    {"Size", 1, size},
    {"Reshape", 1, reshape, 1, "shape consumed_inputs", 4},
    {"Reshape", 5, reshape, 2, "allowzero"},
    {"Flatten", 1, flatten, 1, "axis"},
    {"Squeeze", 1, squeeze, 1, "axes", 12},
    {"Squeeze", 13, squeeze, {1, 2}},
    {"Unsqueeze", 1, unsqueeze, 1, "axes", 12},
    {"Unsqueeze", 13, unsqueeze, 2},
    {"Transpose", 1, transpose, 1, "perm"},
    {"Expand", 8, expand, 2},
    {"Tile", 6, tile, 2},
    {"DepthToSpace", 1, depth_to_space, 1, "blocksize", 10},
    {"DepthToSpace", 11, depth_to_space, 1, "blocksize mode"},
    {"SpaceToDepth", 1, space_to_depth, 1, "blocksize", 27},
    {"SpaceToDepth", 28, space_to_depth, 1, "blocksize mode"},
};

}  // namespace

std::span<const OpRow> shape_operators() { return kShapeRows; }

}  // namespace mantissa::onnx

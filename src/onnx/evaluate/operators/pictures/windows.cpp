#include "onnx/evaluate/operators/pictures/windows.h"

#include <algorithm>

#include "base/checked.h"

namespace mantissa::onnx {
namespace {

constexpr int64_t kMostExtent = int64_t{1} << 31;
constexpr int64_t kMostKernel = int64_t{1} << 16;

// A list of one number for each dimension, or those numbers if it is not there.
Result<Three> three_of(OpCall& call, const char* name, int64_t rank, int64_t least) {
  Three result = {1, 1, 1};
  const std::vector<int64_t> given = call.integers(name);
  if (given.empty()) return result;
  if (static_cast<int64_t>(given.size()) != rank) {
    return invalid_input(std::string(name) + " for another rank");
  }
  for (int64_t d = 0; d < rank; ++d) {
    if (given[d] < least || given[d] >= kMostExtent) {
      return invalid_input(std::string(name) + " " + to_text(given));
    }
    result[3 - rank + d] = given[d];
  }
  return result;
}

Status read_pads(OpCall& call, Windows& windows) {
  windows.before = windows.after = {0, 0, 0};
  const std::vector<int64_t> pads = call.integers("pads");
  if (pads.empty()) return {};
  if (static_cast<int64_t>(pads.size()) != 2 * windows.rank) {
    return invalid_input("pads for another rank");
  }
  for (int64_t d = 0; d < windows.rank; ++d) {
    for (const int64_t pad : {pads[d], pads[d + windows.rank]}) {
      if (pad < 0 || pad >= kMostExtent) return invalid_input("pads " + to_text(pads));
    }
    windows.before[3 - windows.rank + d] = pads[d];
    windows.after[3 - windows.rank + d] = pads[d + windows.rank];
  }
  return {};
}

}  // namespace

Dims Windows::dims(int64_t batch, int64_t channels, const Three& sizes) const {
  Dims result = {batch, channels};
  result.insert(result.end(), sizes.end() - rank, sizes.end());
  return result;
}

Result<Windows> read_windows(OpCall& call, const Dims& kernel) {
  Windows windows;
  windows.rank = call.rank(0) - 2;
  if (windows.rank < 1 || windows.rank > 3) {
    return invalid_input("a value of rank " + std::to_string(call.rank(0)) +
                         ", where 3 to 5 are supported");
  }
  if (static_cast<int64_t>(kernel.size()) != windows.rank) {
    return invalid_input("a kernel of another rank");
  }
  windows.in = windows.kernel = {1, 1, 1};
  std::copy(call.dims(0).begin() + 2, call.dims(0).end(), windows.in.end() - windows.rank);
  std::copy(kernel.begin(), kernel.end(), windows.kernel.end() - windows.rank);
  for (int d = 0; d < 3; ++d) {
    if (windows.kernel[d] < 1 || windows.kernel[d] > kMostKernel || windows.in[d] >= kMostExtent) {
      return invalid_input("a kernel of dims " + to_text(kernel));
    }
  }
  MANTISSA_ASSIGN(windows.stride, three_of(call, "strides", windows.rank, 1));
  MANTISSA_ASSIGN(windows.dilation, three_of(call, "dilations", windows.rank, 1));
  MANTISSA_RETURN_IF_ERROR(read_pads(call, windows));
  return windows;
}

Result<Windows> windows_of(OpCall& call, const Dims& kernel, bool ceil) {
  MANTISSA_ASSIGN(Windows windows, read_windows(call, kernel));
  const std::string mode = call.text("auto_pad", "NOTSET");
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  if (!same && mode != "NOTSET" && mode != "VALID" && !mode.empty()) {
    return invalid_input("auto_pad '" + mode + "'");
  }
  if (mode == "VALID") windows.before = windows.after = {0, 0, 0};
  for (int d = 0; d < 3; ++d) {
    const int64_t reach = (windows.kernel[d] - 1) * windows.dilation[d] + 1;
    const int64_t stride = windows.stride[d];
    if (same) {
      windows.out[d] = divide_up(windows.in[d], stride);
      const int64_t total =
          std::max<int64_t>((windows.out[d] - 1) * stride + reach - windows.in[d], 0);
      windows.before[d] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      windows.after[d] = total - windows.before[d];
      continue;
    }
    const int64_t span = windows.in[d] + windows.before[d] + windows.after[d] - reach;
    if (span < 0) return invalid_input("a window larger than dims " + to_text(call.dims(0)));
    windows.out[d] = (ceil ? divide_up(span, stride) : span / stride) + 1;
    if (ceil && (windows.out[d] - 1) * stride >= windows.in[d] + windows.before[d]) {
      --windows.out[d];
    }
  }
  return windows;
}

Range inside(const Windows& windows, int d, int64_t k) {
  const int64_t shift = k * windows.dilation[d] - windows.before[d];
  const int64_t stride = windows.stride[d];
  const int64_t first = shift >= 0 ? 0 : divide_up(-shift, stride);
  const int64_t room = windows.in[d] - 1 - shift;
  const int64_t last = room < 0 ? 0 : std::min(windows.out[d], room / stride + 1);
  return {std::min(first, last), last};
}

}  // namespace mantissa::onnx

#include "kernels/rescale/rescale_element.h"

namespace mantissa::kernels {
namespace {

int64_t rescale(const Rescale& args, int64_t begin_row, int64_t end_row) noexcept {
  int64_t clipped = 0;
  for (int64_t row = begin_row; row < end_row; ++row) {
    for (int64_t c = 0; c < args.channels; ++c) {
      clipped += rescale_element(args, row * args.channels + c, c);
    }
  }
  return clipped;
}

}  // namespace

const RescaleKernels kRescaleReference = {"rescale_reference", kNeedsNothing, rescale};

}  // namespace mantissa::kernels

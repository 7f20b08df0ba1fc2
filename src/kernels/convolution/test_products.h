// Convolutions by their definition, and every way to run a kernel for tests of wide operands.
#pragma once

#include "base/system/thread_pool.h"
#include "kernels/convolution/test_subject.h"
#include "kernels/kernel_table.h"

namespace mantissa::kernels::test {

// Calls visit(output, input, weight) for each product, with the indices of its elements.
template <typename Visit>
void for_each_product(const ConvolutionShape& s, const Visit& visit) {
  for (int64_t at = 0; at < s.output_count(); ++at) {
    const int64_t o = at % s.out_channels, x = at / s.out_channels % s.out_width;
    const int64_t y = at / s.out_channels / s.out_width % s.out_height;
    const int64_t n = at / s.out_channels / s.out_width / s.out_height;
    for (int64_t w = 0; w < s.kernel_height * s.kernel_width * s.group_in_channels(); ++w) {
      const int64_t c = w % s.group_in_channels(), tap = w / s.group_in_channels();
      const int64_t in_y =
          y * s.stride_height + tap / s.kernel_width * s.dilation - s.padding_height;
      const int64_t in_x = x * s.stride_width + tap % s.kernel_width * s.dilation - s.padding_width;
      if (in_y < 0 || in_y >= s.in_height || in_x < 0 || in_x >= s.in_width) continue;
      const int64_t channel = o / s.group_out_channels() * s.group_in_channels() + c;
      visit(at, ((n * s.in_height + in_y) * s.in_width + in_x) * s.in_channels + channel,
            o * s.kernel_height * s.kernel_width * s.group_in_channels() + w);
    }
  }
}

// Runs function(table, context) with every instruction set that this CPU has and one and three
// threads, in scratch_bytes(table, threads) of scratch.
template <typename ScratchBytes, typename Function>
void with_every_kernel(const ScratchBytes& scratch_bytes, const Function& function) {
  for (const Isa isa : kAllIsas) {
    if (!is_supported(isa)) continue;
    SCOPED_TRACE(isa_name(isa));
    const KernelTable table = select_kernels(isa);
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads);
      Scratch scratch(scratch_bytes(table, threads));
      function(table, KernelContext{&pool, scratch.span()});
    }
  }
}

}  // namespace mantissa::kernels::test

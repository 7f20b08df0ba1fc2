// A layer's shape as members of a DevConvolution (device/runtime/convolution.h).
#pragma once

#include "device/text/c_text.h"
#include "kernels/convolution/convolution.h"

namespace mantissa::device {

inline CMembers convolution_members(const kernels::ConvolutionShape& s) {
  return {{"batch", c_number(s.batch)},
          {"in_height", c_number(s.in_height)},
          {"in_width", c_number(s.in_width)},
          {"in_channels", c_number(s.in_channels)},
          {"out_height", c_number(s.out_height)},
          {"out_width", c_number(s.out_width)},
          {"out_channels", c_number(s.out_channels)},
          {"kernel_height", c_number(s.kernel_height)},
          {"kernel_width", c_number(s.kernel_width)},
          {"stride_height", c_number(s.stride_height)},
          {"stride_width", c_number(s.stride_width)},
          {"padding_height", c_number(s.padding_height)},
          {"padding_width", c_number(s.padding_width)},
          {"groups", c_number(s.groups)},
          {"dilation", c_number(s.dilation)}};
}

}  // namespace mantissa::device

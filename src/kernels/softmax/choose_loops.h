// The functions of SoftmaxKernels: which loops compute which rows.
//
// Include inside an anonymous namespace of mantissa::kernels, after lane_loops.h and row_loops.h.

inline LossSums loss(const SoftmaxCrossEntropy& args, int64_t begin_row, int64_t end_row) noexcept {
  if (is_for_reference(args)) return kSoftmaxReference.loss(args, begin_row, end_row);
  return is_for_rows(args) ? loss_of_rows(args, begin_row, end_row)
                           : loss_of_columns(args, begin_row, end_row);
}

inline WideStatistics gradient(const SoftmaxCrossEntropy& args, int shift, MantissaSpan grad,
                               int64_t begin_row, int64_t end_row) noexcept {
  if (is_for_reference(args)) {
    return kSoftmaxReference.gradient(args, shift, grad, begin_row, end_row);
  }
  return with_wide_gradient_type(grad.bits, [&](auto type) {
    using T = decltype(type);
    return is_for_rows(args) ? gradient_of_rows<T>(args, shift, grad, begin_row, end_row)
                             : gradient_of_columns<T>(args, shift, grad, begin_row, end_row);
  });
}

inline void probabilities(const SoftmaxCrossEntropy& args, int32_t* out, int64_t begin_row,
                          int64_t end_row) noexcept {
  if (is_for_reference(args)) return kSoftmaxReference.probabilities(args, out, begin_row, end_row);
  if (is_for_rows(args)) return probabilities_of_rows(args, out, begin_row, end_row);
  probabilities_of_columns(args, out, begin_row, end_row);
}

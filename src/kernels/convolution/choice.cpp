#include "kernels/convolution/choice.h"

#include <algorithm>

namespace mantissa::kernels {
namespace {

// Whether the row would hand parts to a reference that takes the whole as well.
bool cuts_in_vain(ConvolutionRows rows, size_t index, const ConvolutionWork& work) noexcept {
  const ConvolutionKernels& row = *rows[index];
  return row.part != nullptr && is_left_to_reference(rows.first(index), row.part(work));
}

// The most scratch that the work needs, which `bytes` says for a choice. Narrower gradients than
// planned may be for another row; a row's scratch is enough for narrower ones.
template <typename Bytes>
size_t most_scratch_bytes(ConvolutionRows rows, ConvolutionWork work, const Bytes& bytes) {
  const int planned = work.bits;
  const ConvolutionKernels* asked = nullptr;
  size_t most = 0;
  for (const int bits : {planned, 16, 8}) {
    if (bits > planned) continue;
    work.bits = bits;
    const ConvolutionChoice choice = choose_convolution(rows, work);
    if (&choice.row == asked) continue;
    asked = &choice.row;
    most = std::max(most, bytes(choice, bits));
  }
  return most;
}

}  // namespace

ConvolutionChoice choose_convolution(ConvolutionRows rows, const ConvolutionWork& work) noexcept {
  size_t index = rows.size() - 1;
  while (index > 0 && (rows[index]->declines(work) != nullptr || cuts_in_vain(rows, index, work))) {
    --index;
  }
  return {*rows[index], rows.first(index)};
}

bool is_left_to_reference(ConvolutionRows rows, const ConvolutionWork& work) noexcept {
  return choose_convolution(rows, work).below.empty();
}

const char* convolution_kernel_name(ConvolutionRows rows, const ConvolutionShape& shape) noexcept {
  ConvolutionWork work{.shape = shape};
  while (true) {
    const ConvolutionChoice choice = choose_convolution(rows, work);
    if (choice.row.part == nullptr) return choice.row.name;
    work = choice.row.part(work);
    rows = choice.below;
  }
}

ExplainedChoice explain_choice(ConvolutionRows rows, const ConvolutionWork& work) {
  ExplainedChoice explained;
  const ConvolutionChoice choice = choose_convolution(rows, work);
  for (size_t index = rows.size() - 1; index > choice.below.size(); --index) {
    const char* reason = rows[index]->declines(work);
    explained.declined.emplace_back(
        rows[index]->name,
        reason != nullptr ? reason : "its parts would be the reference's, which takes the whole");
  }
  explained.chosen = choice.row.name;
  if (choice.row.part != nullptr) {
    explained.chosen += ", " + explain_choice(choice.below, choice.row.part(work)).chosen;
  }
  return explained;
}

WideStatistics convolution_forward(ConvolutionRows rows, const ConvolutionForward& args,
                                   const KernelContext& context) noexcept {
  const auto [row, below] =
      choose_convolution(rows, {.pass = ConvolutionPass::kForward, .shape = args.shape});
  return row.forward(args, below, context);
}

size_t convolution_forward_scratch_bytes(ConvolutionRows rows, const ConvolutionShape& shape,
                                         int threads) noexcept {
  const auto [row, below] =
      choose_convolution(rows, {.pass = ConvolutionPass::kForward, .shape = shape});
  return row.forward_scratch_bytes(shape, threads, below);
}

WideStatistics convolution_grad_input(ConvolutionRows rows, const ConvolutionGradInput& args,
                                      const KernelContext& context) noexcept {
  const auto [row, below] =
      choose_convolution(rows, {ConvolutionPass::kGradInput, args.shape, args.grad_output.bits});
  return row.grad_input(args, below, context);
}

size_t convolution_grad_input_scratch_bytes(ConvolutionRows rows, const ConvolutionShape& shape,
                                            int bits, int threads) noexcept {
  return most_scratch_bytes(rows, {ConvolutionPass::kGradInput, shape, bits},
                            [&](const ConvolutionChoice& choice, int of_bits) {
                              return choice.row.grad_input_scratch_bytes(shape, of_bits, threads,
                                                                         choice.below);
                            });
}

void convolution_grad_weights(ConvolutionRows rows, const ConvolutionGradWeights& args,
                              const KernelContext& context) noexcept {
  const auto [row, below] =
      choose_convolution(rows, {ConvolutionPass::kGradWeights, args.shape, args.grad_output.bits});
  row.grad_weights(args, below, context);
}

size_t convolution_grad_weights_scratch_bytes(ConvolutionRows rows, const ConvolutionShape& shape,
                                              int bits, int threads) noexcept {
  return most_scratch_bytes(rows, {ConvolutionPass::kGradWeights, shape, bits},
                            [&](const ConvolutionChoice& choice, int of_bits) {
                              return choice.row.grad_weights_scratch_bytes(shape, of_bits, threads,
                                                                           choice.below);
                            });
}

}  // namespace mantissa::kernels

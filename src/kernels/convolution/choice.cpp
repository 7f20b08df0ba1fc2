#include "kernels/convolution/choice.h"

#include <algorithm>

namespace mantissa::kernels {
namespace {

bool is_reference(ConvolutionRows rows, const ConvolutionChoice& choice) {
  return choice.row == rows.front();
}

// Choices among `below` for the parts of a row's work; none if the reference would get them.
std::vector<ConvolutionChoice> choose_parts(const ConvolutionKernels& row, ConvolutionRows below,
                                            const ConvolutionWork& work) {
  std::vector<ConvolutionChoice> parts;
  for (const ConvolutionWork& part : row.parts(work)) {
    parts.push_back(choose_convolution(below, part));
    if (is_reference(below, parts.front())) return {};
  }
  return parts;
}

}  // namespace

size_t ConvolutionChoice::scratch_bytes(int threads) const noexcept {
  switch (work.pass) {
    case ConvolutionPass::kForward:
      return row->forward_scratch_bytes(work.shape, threads, parts);
    case ConvolutionPass::kGradInput:
      return row->grad_input_scratch_bytes(work.shape, work.bits, threads, parts);
    case ConvolutionPass::kGradWeights:
      return row->grad_weights_scratch_bytes(work.shape, work.bits, threads, parts);
  }
  return 0;
}

ConvolutionChoice choose_convolution(ConvolutionRows rows, const ConvolutionWork& work) {
  for (size_t index = rows.size() - 1; index > 0; --index) {
    const ConvolutionKernels& row = *rows[index];
    if (row.declines(work) != nullptr) continue;
    if (row.parts == nullptr) return {&row, work, {}};
    std::vector<ConvolutionChoice> parts = choose_parts(row, rows.first(index), work);
    if (!parts.empty()) return {&row, work, std::move(parts)};
  }
  return {rows.front(), work, {}};
}

size_t convolution_scratch_bytes(ConvolutionRows rows, const ConvolutionWork& work, int threads) {
  ConvolutionChoice asked = choose_convolution(rows, work);
  size_t most = asked.scratch_bytes(threads);
  for (const int bits : {16, 8}) {
    if (bits >= work.bits) continue;
    ConvolutionWork narrower = work;
    narrower.bits = bits;
    ConvolutionChoice choice = choose_convolution(rows, narrower);
    // A row's scratch is enough for narrower gradients, too.
    if (choice.row == asked.row && choice.parts.empty()) continue;
    asked = std::move(choice);
    most = std::max(most, asked.scratch_bytes(threads));
  }
  return most;
}

bool is_left_to_reference(ConvolutionRows rows, const ConvolutionWork& work) {
  return is_reference(rows, choose_convolution(rows, work));
}

const char* convolution_kernel_name(ConvolutionRows rows, const ConvolutionShape& shape) {
  const ConvolutionChoice whole = choose_convolution(rows, {.shape = shape});
  const ConvolutionChoice* choice = &whole;
  while (!choice->parts.empty()) choice = &choice->parts.front();
  return choice->row->name;
}

ExplainedChoice explain_choice(ConvolutionRows rows, const ConvolutionWork& work) {
  ExplainedChoice explained;
  const ConvolutionChoice whole = choose_convolution(rows, work);
  for (size_t index = rows.size() - 1; rows[index] != whole.row; --index) {
    const char* reason = rows[index]->declines(work);
    explained.declined.emplace_back(
        rows[index]->name,
        reason != nullptr ? reason : "its parts would be the reference's, which takes the whole");
  }
  explained.chosen = whole.row->name;
  for (const ConvolutionChoice* choice = &whole; !choice->parts.empty();) {
    choice = &choice->parts.front();
    explained.chosen += std::string(", ") + choice->row->name;
  }
  return explained;
}

}  // namespace mantissa::kernels

// The instructions that a compiler gets are those that an operator emits.
#include "graph/gradient.h"

#include <gtest/gtest.h>

#include "graph/op.h"

namespace mantissa {
namespace {

void nothing(const OpContext&) {}

const Op kWeighted = {
    .name = "weighted",
    .integer = {.forward = {nothing}, .grad_input = {nothing}, .grad_weights = {nothing}},
    .emit_gradient = emit_weighted_gradient};

TEST(GradientEmitter, KeepsTheOrderAndTheOperandsThatAnOpNames) {
  const GradientEmitter emitted = gradient_of(kWeighted, kWeighted.integer, false);
  ASSERT_EQ(emitted.instructions().size(), 2u);
  const EmittedInstruction &weights = emitted.instructions()[0], &input = emitted.instructions()[1];
  EXPECT_EQ(weights.row, &kWeighted.integer.grad_weights);
  EXPECT_TRUE(weights.names(Role::kInput) && weights.names(Role::kSum));
  EXPECT_FALSE(weights.names(Role::kGradInput));
  EXPECT_EQ(input.row, &kWeighted.integer.grad_input);
  ASSERT_TRUE(input.names(Role::kGradInput));
  EXPECT_EQ(input.find(Role::kGradInput)->width, GradientWidth::kRounded);
  EXPECT_FALSE(emitted.leaves_mask());
}

TEST(GradientEmitter, NamesOutputsForTheMaskOfAReluOnly) {
  const auto names_outputs = [](bool relu) {
    const GradientEmitter emitted = gradient_of(kWeighted, kWeighted.integer, relu);
    return emitted.instructions()[0].names(Role::kOutput);
  };
  EXPECT_TRUE(names_outputs(true));
  EXPECT_FALSE(names_outputs(false));
}

TEST(GradientEmitter, LeavesOutRowsThatTheArithmeticLacks) {
  const OpRows only_input = {.forward = {nothing}, .grad_input = {nothing}};
  const GradientEmitter emitted = gradient_of(kWeighted, only_input, false);
  ASSERT_EQ(emitted.instructions().size(), 1u);
  EXPECT_EQ(emitted.instructions()[0].row, &only_input.grad_input);
}

TEST(GradientEmitter, TellsWhatTheBackwardPassReads) {
  const Op of_gradient = {.name = "of_gradient",
                          .integer = {.forward = {nothing}, .grad_input = {nothing}},
                          .emit_gradient = emit_rounded_gradient};
  EXPECT_TRUE(reads_backward(kWeighted, Role::kInput));
  EXPECT_FALSE(reads_backward(kWeighted, Role::kOutput));
  EXPECT_FALSE(reads_backward(of_gradient, Role::kInput));
  const Op no_gradient = {.name = "no_gradient", .integer = {.forward = {nothing}}};
  EXPECT_TRUE(gradient_of(no_gradient, no_gradient.integer, false).instructions().empty());
}

}  // namespace
}  // namespace mantissa

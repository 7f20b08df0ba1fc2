// The gradient check (gradient_check.h) of sequences.
#include <gtest/gtest.h>

#include "tests/operators/gradient_networks.h"

namespace mantissa::testing::gradients {
namespace {

// Rows that are taken twice, and rows that nobody takes.
TEST(GradientCheck, RowsTakenAndPut) {
  Network net(Shape{3, 5, 1});
  net.add(ops::kLinear, {{"channels", 4}});
  net.add(ops::kGatherRows, {{"rows", WholeList{4, 0, 2, 0, 0, 3}}});
  net.add(ops::kTanh);
  net.add(ops::kScatterRows, {{"rows", WholeList{7, 1, 0, 5, 8, 3}}, {"positions", 9}});
  net.add(ops::kGatherRows, {{"rows", WholeList{8, 6, 5, 1}}});
  net.add(ops::kTanh);
  net.add(ops::kFlatten);
  check_all(net.finish(4), 5, {"backward_input gather_rows", "backward_input scatter_rows"});
}

TEST(GradientCheck, LinearOfSequencesAndImages) {
  Network net(Shape{5, 3, 1});
  net.add(ops::kLinear, {{"channels", 6}});  // of each pixel
  net.add(ops::kTanh);
  net.add(ops::kLinear, {{"channels", 4}, {"bias", 0}});
  net.add(ops::kRelu);
  net.add(ops::kFlatten);
  check_all(net.finish(5), 6, {"backward_input linear", "backward_weights linear"});
}

// Norms of rows, positions, and the functions of 16-bit values.
TEST(GradientCheck, NormsOfRowsPositionsAndSmoothFunctions) {
  Network net(Shape{4, 3, 1});
  net.add(ops::kLinear, {{"channels", 6}});
  net.add(ops::kPositionEmbedding, {{"positions", 3}, {"least_bits", 16}});
  net.add(ops::kLayerNorm);
  net.add(ops::kLinear, {{"channels", 5}, {"least_bits", 16}});
  net.add(ops::kGelu);
  net.add(ops::kLinear, {{"channels", 7}, {"least_bits", 16}});
  net.add(ops::kRmsNorm);
  net.add(ops::kSilu);
  net.add(ops::kFlatten);
  check_all(net.finish(4), 5,
            {"backward_input layer_norm", "backward_weights layer_norm", "backward_input rms_norm",
             "backward_weights rms_norm", "backward_input gelu", "backward_input silu",
             "backward_input position_embedding", "backward_weights position_embedding"});
}

// Heads with norms of their own and a scale that they share; rows of several widths.
TEST(GradientCheck, NormsOfHeads) {
  Network net(Shape{4, 3, 1});
  net.add(ops::kLinear, {{"channels", 12}, {"least_bits", 16}});
  net.add(ops::kRmsNorm, {{"heads", 3}, {"least_bits", 16}});
  net.add(ops::kGeluTanh, {{"least_bits", 16}});
  net.add(ops::kLayerNorm, {{"heads", 2}, {"epsilon", 0.01}});
  net.add(ops::kRmsNorm, {{"heads", 12}, {"epsilon", 0.5}});  // a number each
  net.add(ops::kTanh);
  net.add(ops::kFlatten);
  check_all(net.finish(4), 5,
            {"backward_input rms_norm", "backward_weights rms_norm", "backward_input layer_norm",
             "backward_weights layer_norm", "backward_input gelu_tanh"});
}

TEST(GradientCheck, RowsInFrontAndJoinedSequences) {
  Network net(Shape{2, 5, 1});
  const int left = net.add(ops::kLinear, {{"channels", 6}});
  net.add(ops::kPrependRows, {{"rows", 2}, {"least_bits", 16}});
  net.add(ops::kLinear, {{"channels", 6}});
  const int right = net.add(ops::kTanh);
  net.add(ops::kConcatPositions, {left, right, left});
  net.add(ops::kPrependRows);
  net.add(ops::kTanh);
  net.add(ops::kFlatten);
  check_all(net.finish(4), 5,
            {"backward_input prepend_rows", "backward_weights prepend_rows",
             "backward_input concat_positions"});
}

TEST(GradientCheck, SinusoidalAndRotaryPositions) {
  Network net(Shape{2, 5, 1});
  net.add(ops::kLinear, {{"channels", 12}});
  net.add(ops::kSinusoidalPositions, {{"least_bits", 16}});
  net.add(ops::kLinear, {{"channels", 12}, {"least_bits", 16}});
  net.add(ops::kRotary, {{"heads", 2}});
  net.add(ops::kTanh);
  net.add(ops::kRotary, {{"heads", 3}, {"channels", 2}, {"base", 50}, {"interleaved", 1}});
  net.add(ops::kRotary, {{"heads", 2}, {"factors", WholeList{1 << 23, 11 << 22, 9 << 23}}});
  net.add(ops::kRotary, {{"factors", WholeList{5 << 21}}});
  net.add(ops::kSinusoidalPositions, {{"interleaved", 0}, {"base", 20}});
  net.add(ops::kTanh);
  net.add(ops::kFlatten);
  check_all(net.finish(4), 5, {"backward_input rotary", "backward_input sinusoidal_positions"});
}

// A table of positions makes positions different.
TEST(GradientCheck, ReversedSequences) {
  Network net(Shape{4, 3, 1});
  net.add(ops::kPositionEmbedding, {{"positions", 3}});
  net.add(ops::kReverse);
  net.add(ops::kPositionEmbedding, {{"positions", 3}});
  net.add(ops::kLinear, {{"channels", 5}});
  net.add(ops::kTanh);
  net.add(ops::kFlatten);
  check_all(net.finish(4), 5, {"backward_input reverse"});
}

// Layers over sequences of five steps, with all options.
TEST(GradientCheck, RecurrentLayers) {
  Network net(Shape{2, 5, 1});
  net.add(ops::kLinear, {{"channels", 16}, {"least_bits", 16}});
  net.add(ops::kLstm, {{"peepholes", 1}});
  net.add(ops::kLinear, {{"channels", 12}, {"least_bits", 16}});
  net.add(ops::kLstm);
  net.add(ops::kLinear, {{"channels", 12}, {"least_bits", 16}});
  net.add(ops::kGru);
  net.add(ops::kLinear, {{"channels", 3}, {"least_bits", 16}});
  net.add(ops::kRnn);
  net.add(ops::kFlatten);
  check_all(net.finish(4), 5,
            {"backward_input lstm", "backward_weights lstm", "backward_input gru",
             "backward_weights gru", "backward_input rnn", "backward_weights rnn"});
}

}  // namespace
}  // namespace mantissa::testing::gradients

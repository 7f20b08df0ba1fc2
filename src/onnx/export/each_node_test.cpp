#include "onnx/export/each_node.h"

#include <gtest/gtest.h>

#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

Node named(const char* name, const Op& op) {
  Node node;
  node.name = name;
  node.op = &op;
  return node;
}

TEST(Refusals, NodesOfOneReasonMakeOneSentence) {
  Refusals refusals;
  EXPECT_EQ(refusals.text(), "");
  refusals.add(named("a", ops::kLinear), "has no numbers");
  EXPECT_EQ(refusals.text(), "node 'a' (linear) has no numbers");
  refusals.add(named("b", ops::kConvolution), "has no numbers");
  refusals.add(named("c", ops::kLinear), "has no numbers");
  refusals.add(named("d", ops::kLinear), "is too large");
  EXPECT_EQ(
      refusals.text(),
      "node 'a' (linear) has no numbers (and 1 node more: 'c'); node 'b' (convolution) has no "
      "numbers; node 'd' (linear) is too large");
}

TEST(Refusals, NamesOfManyAreCut) {
  Refusals refusals;
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    refusals.add(named(name, ops::kLinear), "has no numbers");
  }
  EXPECT_EQ(refusals.text(),
            "node 'a' (linear) has no numbers (and 4 nodes more: 'b', 'c', 'd', ...)");
}

}  // namespace
}  // namespace mantissa::onnx

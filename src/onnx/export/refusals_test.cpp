#include "onnx/export/refusals.h"

#include <gtest/gtest.h>

namespace mantissa::onnx {
namespace {

TEST(RefusalText, NodesOfOneReasonMakeOneSentence) {
  NamesByText refused;
  EXPECT_EQ(refusal_text(refused), "");
  add_name(refused, "(linear) has no numbers", "a");
  EXPECT_EQ(refusal_text(refused), "node 'a' (linear) has no numbers");
  add_name(refused, "(convolution) has no numbers", "b");
  add_name(refused, "(linear) has no numbers", "c");
  add_name(refused, "(linear) is too large", "d");
  EXPECT_EQ(
      refusal_text(refused),
      "node 'a' (linear) has no numbers (and 1 node more: 'c'); node 'b' (convolution) has no "
      "numbers; node 'd' (linear) is too large");
}

TEST(RefusalText, NamesOfManyAreCut) {
  NamesByText refused;
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    add_name(refused, "(linear) has no numbers", name);
  }
  EXPECT_EQ(refusal_text(refused),
            "node 'a' (linear) has no numbers (and 4 nodes more: 'b', 'c', 'd', ...)");
}

}  // namespace
}  // namespace mantissa::onnx

#include "ops/attributes.h"

#include <gtest/gtest.h>

#include <set>

#include "ops/ops.h"

namespace mantissa::ops {
namespace {

constexpr const Op* kOps[] = {
#define MANTISSA_OP(symbol) &symbol,
#include "ops/ops.inc"
#undef MANTISSA_OP
};

// A value that the spec allows, and that is not the default of an attribute that may be left out.
AttributeValue other_value(const AttributeSpec& spec) {
  switch (spec.type) {
    case AttributeType::kWhole: {
      const auto least = static_cast<int64_t>(spec.least);
      return spec.whole == least && !spec.is_required ? least + 1 : least;
    }
    case AttributeType::kReal:
      return spec.real == spec.least ? (spec.least + spec.most) / 2 : spec.least;
    case AttributeType::kText:
      return std::string(spec.words).substr(std::string(spec.words).rfind(' ') + 1);
    case AttributeType::kList:
      return WholeList{static_cast<int64_t>(spec.least)};
  }
  return int64_t{0};
}

TEST(OpAttributes, EachNameHasAMemberOfItsOwn) {
  int ops = 0;
  for (const Op* op : kOps) {
    const AttributeSchema& schema = op->attributes;
    EXPECT_EQ(schema.make == nullptr, schema.specs.empty()) << op->name;
    std::set<void (*)(void*, const AttributeSpec&, const AttributeValue&)> setters;
    for (const AttributeSpec& spec : schema.specs) {
      EXPECT_TRUE(spec.set != nullptr && setters.insert(spec.set).second)
          << op->name << " " << spec.name;
    }
    ops += schema.specs.empty() ? 0 : 1;
  }
  EXPECT_GT(ops, 20);
}

TEST(OpAttributes, DefaultsAndOtherValuesMakeTheStruct) {
  for (const Op* op : kOps) {
    std::vector<AttributeItem> required, others;
    for (const AttributeSpec& spec : op->attributes.specs) {
      if (spec.is_required) required.emplace_back(spec.name, other_value(spec));
      others.emplace_back(spec.name, other_value(spec));
    }
    for (const auto& given : {required, others}) {
      const auto completed = complete(Attributes(given), op->attributes);
      ASSERT_TRUE(completed.ok()) << op->name << ": " << completed.error().message;
      EXPECT_TRUE(completed->has_struct_of(op->attributes)) << op->name;
      for (const AttributeItem& item : given) {
        EXPECT_NE(std::ranges::find(completed->items(), item), completed->items().end());
      }
    }
  }
}

}  // namespace
}  // namespace mantissa::ops

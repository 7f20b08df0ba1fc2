// Attributes of a node: named and typed settings, and the schema that an operator has for them. The
// schema is the only place for names, types, ranges and defaults.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace mantissa {

enum class AttributeType : uint8_t { kWhole, kReal, kText, kList };

using WholeList = std::vector<int64_t>;

// A whole number (also a flag, 0 or 1), a real number, a text, or a list of whole numbers. In the
// order of AttributeType.
using AttributeValue = std::variant<int64_t, double, std::string, WholeList>;

// One attribute of a schema.
struct AttributeSpec {
  const char* name = "";
  AttributeType type = AttributeType::kWhole;
  bool is_required = false;
  int64_t whole = 0;       // default
  double real = 0;         // default
  const char* text = "";   // default; the default of a list is the empty one
  const char* words = "";  // the texts that exist, separated by spaces
  // The range of a number, or of each number in a list.
  double least = -0x1p63;
  double most = 0x1p63;
};

constexpr AttributeSpec required_whole(const char* name, int64_t least, int64_t most) {
  return {.name = name,
          .is_required = true,
          .least = static_cast<double>(least),
          .most = static_cast<double>(most)};
}
constexpr AttributeSpec whole(const char* name, int64_t otherwise, int64_t least, int64_t most) {
  return {.name = name,
          .whole = otherwise,
          .least = static_cast<double>(least),
          .most = static_cast<double>(most)};
}
constexpr AttributeSpec flag(const char* name, bool otherwise) {
  return whole(name, otherwise ? 1 : 0, 0, 1);
}
constexpr AttributeSpec real(const char* name, double otherwise, double least, double most) {
  return {
      .name = name, .type = AttributeType::kReal, .real = otherwise, .least = least, .most = most};
}
constexpr AttributeSpec text(const char* name, const char* otherwise, const char* words) {
  return {.name = name, .type = AttributeType::kText, .text = otherwise, .words = words};
}
constexpr AttributeSpec whole_list(const char* name, int64_t least, int64_t most) {
  return {.name = name,
          .type = AttributeType::kList,
          .least = static_cast<double>(least),
          .most = static_cast<double>(most)};
}

using AttributeSchema = std::span<const AttributeSpec>;

// Sorted by name.
class Attributes {
 public:
  using Item = std::pair<std::string, AttributeValue>;

  Attributes() = default;
  Attributes(std::initializer_list<Item> items) : Attributes(std::vector<Item>(items)) {}
  explicit Attributes(std::vector<Item> items);

  // The attribute's value, if the node's schema has it under this type; else zero, or empty.
  int64_t whole(std::string_view name) const;
  bool is_set(std::string_view name) const { return whole(name) != 0; }
  double real(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const WholeList& list(std::string_view name) const;

  const std::vector<Item>& items() const { return items_; }
  bool operator==(const Attributes&) const = default;

 private:
  const AttributeValue* find(std::string_view name) const;

  std::vector<Item> items_;
};

// Completes attributes with the defaults of the missing ones. Errors: a name that the schema lacks,
// another type (a whole number is a real one, too), a number outside its range, a required one that
// is missing.
Result<Attributes> complete(const Attributes& given, AttributeSchema schema);

// The value of an attribute that is left out.
AttributeValue default_of(const AttributeSpec& spec);

// "3", "0.01", "same", "[1, 2]": a real number in the fewest digits that read back as the same
// number.
std::string to_string(const AttributeValue& value);

}  // namespace mantissa

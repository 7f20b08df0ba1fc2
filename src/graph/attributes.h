// Attributes of a node: named and typed settings, the schema that an operator has for them, and the
// struct that its functions read. The schema is the only place for names, types, ranges and
// defaults; it binds each name to a member of the struct.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
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

// The address stands for the type.
template <typename T>
inline constexpr char kTypeTag = 0;

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
  // Writes a value into the op's struct; null: the op makes its struct otherwise.
  void (*set)(void* attributes, const AttributeSpec&, const AttributeValue&) = nullptr;
  const void* type_tag = nullptr;  // of the struct
};

// The place of a word among the spec's words.
int word_index(const AttributeSpec& spec, const std::string& word);

namespace members {

template <typename>
struct Of;
template <typename S, typename V>
struct Of<V S::*> {
  using Struct = S;
  using Value = V;
};
template <auto member>
using Value = typename Of<decltype(member)>::Value;
template <auto member>
using Struct = typename Of<decltype(member)>::Struct;

template <auto member>
void set(void* attributes, const AttributeSpec& spec, const AttributeValue& value) {
  auto& to = static_cast<Struct<member>*>(attributes)->*member;
  using V = Value<member>;
  if constexpr (std::is_enum_v<V>) {
    to = static_cast<V>(word_index(spec, std::get<std::string>(value)));
  } else if constexpr (std::is_same_v<V, bool>) {
    to = std::get<int64_t>(value) != 0;
  } else if constexpr (std::is_integral_v<V>) {
    to = static_cast<V>(std::get<int64_t>(value));
  } else {
    to = std::get<V>(value);
  }
}

template <auto member>
consteval AttributeSpec bound(AttributeSpec spec) {
  spec.set = set<member>;
  spec.type_tag = &kTypeTag<Struct<member>>;
  return spec;
}

consteval AttributeSpec required(AttributeSpec spec) {
  spec.is_required = true;
  return spec;
}

}  // namespace members

// Attributes of a struct's members: whole<&Window::stride>("stride", 1, 1, 7). Whole numbers are
// integers that hold the range, flags bool, real numbers double, texts an enum of the words in
// their order, lists WholeList; others do not compile.
template <auto member>
consteval AttributeSpec whole(const char* name, int64_t otherwise, int64_t least, int64_t most) {
  using V = members::Value<member>;
  static_assert(std::is_integral_v<V> && !std::is_same_v<V, bool>);
  if (least < std::numeric_limits<V>::min() || most > std::numeric_limits<V>::max()) {
    throw "the member does not hold the range";
  }
  return members::bound<member>({.name = name,
                                 .whole = otherwise,
                                 .least = static_cast<double>(least),
                                 .most = static_cast<double>(most)});
}
template <auto member>
consteval AttributeSpec required_whole(const char* name, int64_t least, int64_t most) {
  return members::required(whole<member>(name, 0, least, most));
}
template <auto member>
consteval AttributeSpec flag(const char* name, bool otherwise) {
  static_assert(std::is_same_v<members::Value<member>, bool>);
  return members::bound<member>(
      {.name = name, .whole = otherwise ? 1 : 0, .least = 0.0, .most = 1.0});
}
template <auto member>
consteval AttributeSpec real(const char* name, double otherwise, double least, double most) {
  static_assert(std::is_same_v<members::Value<member>, double>);
  return members::bound<member>({.name = name,
                                 .type = AttributeType::kReal,
                                 .real = otherwise,
                                 .least = least,
                                 .most = most});
}
template <auto member>
consteval AttributeSpec text(const char* name, const char* otherwise, const char* words) {
  static_assert(std::is_enum_v<members::Value<member>>);
  return members::bound<member>(
      {.name = name, .type = AttributeType::kText, .text = otherwise, .words = words});
}
template <auto member>
consteval AttributeSpec whole_list(const char* name, int64_t least, int64_t most) {
  static_assert(std::is_same_v<members::Value<member>, WholeList>);
  return members::bound<member>({.name = name,
                                 .type = AttributeType::kList,
                                 .least = static_cast<double>(least),
                                 .most = static_cast<double>(most)});
}

using AttributeItem = std::pair<std::string, AttributeValue>;

// The attributes of an op, and the struct of them.
struct AttributeSchema {
  std::span<const AttributeSpec> specs = {};
  // Makes the struct from a value for each attribute, sorted by name. Null: there is none.
  std::shared_ptr<const void> (*make)(std::span<const AttributeSpec> specs,
                                      std::span<const AttributeItem> items) = nullptr;
  const void* type_tag = nullptr;  // of the struct
};

// Writes the items into the struct.
void set_members(void* attributes, std::span<const AttributeSpec> specs,
                 std::span<const AttributeItem> items);

// The schema of an op whose functions read the struct T. `derive`, if given, computes members that
// are no attributes, such as the whole numbers of real ones. Members of other structs do not
// compile.
template <typename T, void (*derive)(T&) = nullptr>
consteval AttributeSchema schema(std::span<const AttributeSpec> specs) {
  for (const AttributeSpec& spec : specs) {
    if (spec.type_tag != &kTypeTag<T>) throw "a member of another struct";
  }
  constexpr auto make = [](std::span<const AttributeSpec> of,
                           std::span<const AttributeItem> items) -> std::shared_ptr<const void> {
    auto made = std::make_shared<T>();
    set_members(made.get(), of, items);
    if constexpr (derive != nullptr) derive(*made);
    return made;
  };
  return {.specs = specs, .make = make, .type_tag = &kTypeTag<T>};
}

// Values by name, sorted. Those that a schema completed have the struct of its op, too.
class Attributes {
 public:
  using Item = AttributeItem;

  Attributes() = default;
  Attributes(std::initializer_list<Item> items) : Attributes(std::vector<Item>(items)) {}
  explicit Attributes(std::vector<Item> items);

  // The struct. T is the type that the op's schema names: another one ends the program.
  template <typename T>
  const T& as() const {
    return *static_cast<const T*>(values_of(&kTypeTag<T>));
  }
  // Whether this schema completed them.
  bool has_struct_of(const AttributeSchema& schema) const { return type_tag_ == schema.type_tag; }

  const std::vector<Item>& items() const { return items_; }
  bool operator==(const Attributes& other) const { return items_ == other.items_; }

 private:
  friend Result<Attributes> complete(const Attributes& given, const AttributeSchema& schema);
  const void* values_of(const void* type_tag) const;

  std::vector<Item> items_;
  std::shared_ptr<const void> values_;
  const void* type_tag_ = nullptr;
};

// Completes attributes with the defaults of the missing ones, and makes their struct. Errors: a
// name that the schema lacks, another type (a whole number is a real one, too), a number outside
// its range, a required one that is missing.
Result<Attributes> complete(const Attributes& given, const AttributeSchema& schema);

// The value of an attribute that is left out.
AttributeValue default_of(const AttributeSpec& spec);

// "3", "0.01", "same", "[1, 2]": a real number in the fewest digits that read back as the same
// number.
std::string to_string(const AttributeValue& value);

}  // namespace mantissa

#include "graph/attributes.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cmath>

namespace mantissa {
namespace {

constexpr std::array<const char*, 4> kTypeNames = {"a whole number", "a real number", "a text",
                                                   "a list of whole numbers"};

AttributeType type_of(const AttributeValue& value) {
  return static_cast<AttributeType>(value.index());
}

std::string names_of(AttributeSchema schema) {
  std::string names;
  for (const AttributeSpec& spec : schema) {
    names += (names.empty() ? "" : ", ") + std::string(spec.name);
  }
  return names.empty() ? "it has none" : "it has " + names;
}

bool is_word_of(const AttributeSpec& spec, std::string_view word) {
  const std::string words = " " + std::string(spec.words) + " ";
  return !word.empty() && word.find(' ') == std::string_view::npos &&
         words.find(" " + std::string(word) + " ") != std::string::npos;
}

std::string range_of(const AttributeSpec& spec) {
  constexpr double kNoLimit = 0x1p63;
  const auto number = [&](double limit) {
    return spec.type == AttributeType::kReal ? to_string(AttributeValue(limit))
                                             : std::to_string(static_cast<int64_t>(limit));
  };
  if (spec.most >= kNoLimit) return number(spec.least) + " or more";
  return number(spec.least) + " to " + number(spec.most);
}

Error refusal(const AttributeSpec& spec, const AttributeValue& value, const std::string& wanted) {
  return invalid_input(std::string("attribute '") + spec.name + "' is " + to_string(value) +
                       "; wants " + wanted);
}

Status check_number(const AttributeSpec& spec, double number, const AttributeValue& value) {
  // Written so that NaN is refused.
  if (number >= spec.least && number <= spec.most) return {};
  return refusal(spec, value, range_of(spec));
}

Status check(const AttributeSpec& spec, const AttributeValue& value) {
  if (type_of(value) != spec.type) {
    return refusal(spec, value, kTypeNames[static_cast<size_t>(spec.type)]);
  }
  if (const auto* word = std::get_if<std::string>(&value); word && !is_word_of(spec, *word)) {
    return refusal(spec, value, std::string("one of: ") + spec.words);
  }
  if (const auto* number = std::get_if<int64_t>(&value)) {
    return check_number(spec, static_cast<double>(*number), value);
  }
  if (const auto* number = std::get_if<double>(&value)) return check_number(spec, *number, value);
  if (const auto* list = std::get_if<WholeList>(&value)) {
    for (const int64_t number : *list) {
      MANTISSA_RETURN_IF_ERROR(check_number(spec, static_cast<double>(number), value));
    }
  }
  return {};
}

template <typename T>
const T& of_type(const AttributeValue* value) {
  static const T kNone{};
  assert(value != nullptr && std::holds_alternative<T>(*value) && "not in the schema");
  const T* found = value == nullptr ? nullptr : std::get_if<T>(value);
  return found == nullptr ? kNone : *found;
}

}  // namespace

Attributes::Attributes(std::vector<Item> items) : items_(std::move(items)) {
  std::sort(items_.begin(), items_.end(),
            [](const Item& a, const Item& b) { return a.first < b.first; });
}

const AttributeValue* Attributes::find(std::string_view name) const {
  const auto found = std::find_if(items_.begin(), items_.end(),
                                  [&](const Item& item) { return item.first == name; });
  return found == items_.end() ? nullptr : &found->second;
}

int64_t Attributes::whole(std::string_view name) const { return of_type<int64_t>(find(name)); }
double Attributes::real(std::string_view name) const { return of_type<double>(find(name)); }
const std::string& Attributes::text(std::string_view name) const {
  return of_type<std::string>(find(name));
}
const WholeList& Attributes::list(std::string_view name) const {
  return of_type<WholeList>(find(name));
}

AttributeValue default_of(const AttributeSpec& spec) {
  switch (spec.type) {
    case AttributeType::kWhole:
      return spec.whole;
    case AttributeType::kReal:
      return spec.real;
    case AttributeType::kText:
      return std::string(spec.text);
    case AttributeType::kList:
      return WholeList();
  }
  return int64_t{0};
}

Result<Attributes> complete(const Attributes& given, AttributeSchema schema) {
  std::vector<Attributes::Item> items;
  for (const Attributes::Item& item : given.items()) {
    const std::string& name = item.first;
    AttributeValue value = item.second;
    const auto spec = std::find_if(schema.begin(), schema.end(),
                                   [&](const AttributeSpec& known) { return name == known.name; });
    if (spec == schema.end()) {
      return invalid_input("has no attribute '" + name + "'; " + names_of(schema));
    }
    if (!items.empty() && items.back().first == name) {
      return invalid_input("attribute '" + name + "' is given twice");
    }
    if (spec->type == AttributeType::kReal && std::holds_alternative<int64_t>(value)) {
      value = static_cast<double>(std::get<int64_t>(value));
    }
    MANTISSA_RETURN_IF_ERROR(check(*spec, value));
    items.emplace_back(name, std::move(value));
  }
  for (const AttributeSpec& spec : schema) {
    const bool is_given = std::any_of(given.items().begin(), given.items().end(),
                                      [&](const auto& item) { return item.first == spec.name; });
    if (is_given) continue;
    if (spec.is_required) return invalid_input(std::string("wants ") + spec.name);
    items.emplace_back(spec.name, default_of(spec));
  }
  return Attributes(std::move(items));
}

std::string to_string(const AttributeValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  if (const auto* word = std::get_if<std::string>(&value)) return *word;
  if (const auto* number = std::get_if<double>(&value)) {
    std::array<char, 40> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), *number);
    return {digits.data(), end.ptr};
  }
  std::string list;
  for (const int64_t number : std::get<WholeList>(value)) {
    list += (list.empty() ? "" : ", ") + std::to_string(number);
  }
  return "[" + list + "]";
}

}  // namespace mantissa

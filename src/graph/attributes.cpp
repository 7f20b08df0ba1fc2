#include "graph/attributes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace mantissa {
namespace {

constexpr std::array<const char*, 4> kTypeNames = {"a whole number", "a real number", "a text",
                                                   "a list of whole numbers"};

AttributeType type_of(const AttributeValue& value) {
  return static_cast<AttributeType>(value.index());
}

std::string names_of(std::span<const AttributeSpec> specs) {
  std::string names;
  for (const AttributeSpec& spec : specs) {
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

}  // namespace

Attributes::Attributes(std::vector<Item> items) : items_(std::move(items)) {
  std::sort(items_.begin(), items_.end(),
            [](const Item& a, const Item& b) { return a.first < b.first; });
}

const void* Attributes::values_of(const void* type_tag) const {
  if (values_ == nullptr || type_tag_ != type_tag) std::abort();
  return values_.get();
}

int word_index(const AttributeSpec& spec, const std::string& word) {
  const std::string before = " " + std::string(spec.words) + " ";
  const auto end = before.begin() + static_cast<ptrdiff_t>(before.find(" " + word + " "));
  return static_cast<int>(std::count(before.begin(), end, ' '));
}

void set_members(void* attributes, std::span<const AttributeSpec> specs,
                 std::span<const AttributeItem> items) {
  for (const AttributeSpec& spec : specs) {
    const auto item =
        std::ranges::lower_bound(items, std::string_view(spec.name), {}, &AttributeItem::first);
    spec.set(attributes, spec, item->second);
  }
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

Result<Attributes> complete(const Attributes& given, const AttributeSchema& schema) {
  const std::span<const AttributeSpec> specs = schema.specs;
  std::vector<Attributes::Item> items;
  for (const Attributes::Item& item : given.items()) {
    const std::string& name = item.first;
    AttributeValue value = item.second;
    const auto spec = std::find_if(specs.begin(), specs.end(),
                                   [&](const AttributeSpec& known) { return name == known.name; });
    if (spec == specs.end()) {
      return invalid_input("has no attribute '" + name + "'; " + names_of(specs));
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
  for (const AttributeSpec& spec : specs) {
    const bool is_given = std::any_of(given.items().begin(), given.items().end(),
                                      [&](const auto& item) { return item.first == spec.name; });
    if (is_given) continue;
    if (spec.is_required) return invalid_input(std::string("wants ") + spec.name);
    items.emplace_back(spec.name, default_of(spec));
  }
  Attributes completed(std::move(items));
  if (schema.make != nullptr) completed.values_ = schema.make(specs, completed.items());
  completed.type_tag_ = schema.type_tag;
  return completed;
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

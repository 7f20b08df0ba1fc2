#include "models/json/network_entries.h"

#include <algorithm>

#include "models/json/network_json.h"

namespace mantissa {
namespace {

using Kind = JsonTree::Kind;

constexpr double kMostRateFactor = 1000;

Result<Names> texts_of(const JsonTree& list, const std::string& what) {
  Names names;
  for (const JsonTree& item : list.items) {
    if (item.kind != Kind::kText) return at(item, what + " wants names only");
    names.push_back(std::get<std::string>(item.scalar));
  }
  return names;
}

bool is_name(const std::string& text) {
  constexpr std::string_view kOthers = "_-./";
  return !text.empty() && text.size() <= kLongestNetworkName &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
           return is_letter || (c >= '0' && c <= '9') || kOthers.find(c) != std::string_view::npos;
         });
}

Result<AttributeValue> attribute_of(const JsonTree& value, const std::string& what, bool flag) {
  switch (value.kind) {
    case Kind::kWhole:
      return AttributeValue(std::get<int64_t>(value.scalar));
    case Kind::kReal:
      return AttributeValue(std::get<double>(value.scalar));
    case Kind::kText:
      return AttributeValue(std::get<std::string>(value.scalar));
    case Kind::kTruth:
      if (flag) return AttributeValue(std::get<bool>(value.scalar) ? int64_t{1} : int64_t{0});
      return at(value, what + " is neither true nor false");
    case Kind::kList: {
      MANTISSA_ASSIGN(WholeList numbers, wholes_of(value, what));
      return AttributeValue(std::move(numbers));
    }
    default:
      return at(value, what + " wants a number, a text, true or false, or a list");
  }
}

}  // namespace

std::string joined(const Names& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

Error at(const JsonTree& place, const std::string& what) {
  return invalid_input("line " + std::to_string(place.line) + ": " + what);
}

std::string shown(const std::string& text) {
  return json_quoted(text.substr(0, kLongestNetworkName));
}

Status check_keys(const JsonTree& object, const std::string& what, const Names& known) {
  if (object.kind != Kind::kObject) return at(object, what + " wants an object, {...}");
  for (size_t i = 0; i < object.keys.size(); ++i) {
    if (std::find(known.begin(), known.end(), object.keys[i]) != known.end()) continue;
    return at(object.items[i],
              what + " has no " + shown(object.keys[i]) + "; it may have " + joined(known));
  }
  return {};
}

Result<const JsonTree*> entry(const JsonTree& object, const std::string& what,
                              const std::string& key, Kind kind) {
  const JsonTree* found = object.find(key);
  if (found == nullptr) return at(object, what + " wants \"" + key + "\"");
  if (found->kind == kind) return found;
  return at(*found, "\"" + key + "\" of " + what + " wants a " +
                        (kind == Kind::kText ? "text" : "list, [...]"));
}

Result<std::string> text_entry(const JsonTree& object, const std::string& what,
                               const std::string& key) {
  MANTISSA_ASSIGN(const JsonTree* found, entry(object, what, key, Kind::kText));
  return std::get<std::string>(found->scalar);
}

Result<std::string> name_entry(const JsonTree& object, const std::string& what) {
  MANTISSA_ASSIGN(std::string name, text_entry(object, what, "name"));
  if (is_name(name)) return name;
  return at(*object.find("name"), shown(name) + " is no name: 1 to " +
                                      std::to_string(kLongestNetworkName) +
                                      " letters, digits and _ - . / are");
}

Result<Names> names_entry(const JsonTree& object, const std::string& what, const std::string& key) {
  MANTISSA_ASSIGN(const JsonTree* list, entry(object, what, key, Kind::kList));
  return texts_of(*list, "\"" + key + "\" of " + what);
}

Result<WholeList> wholes_of(const JsonTree& list, const std::string& what) {
  WholeList numbers;
  for (const JsonTree& item : list.items) {
    if (item.kind != Kind::kWhole) return at(item, what + " wants whole numbers only");
    numbers.push_back(std::get<int64_t>(item.scalar));
  }
  return numbers;
}

Result<Shape> shape_of(const JsonTree& list, const std::string& what, size_t most_dims) {
  if (list.kind != Kind::kList) return at(list, what + " wants a list, [...]");
  MANTISSA_ASSIGN(const WholeList numbers, wholes_of(list, what));
  if (numbers.size() > most_dims) {
    return at(list, what + " has " + std::to_string(numbers.size()) + " dimensions; at most " +
                        std::to_string(most_dims) + " are possible");
  }
  Shape shape;
  for (const int64_t number : numbers) shape.dims[static_cast<size_t>(shape.rank++)] = number;
  if (element_count(shape)) return shape;
  return at(list, what + " is " + to_string(shape) +
                      "; dimensions are 1 or more, and elements at most 2^36");
}

Result<Attributes> attributes_of(const JsonTree& entry, const Op& op, const std::string& what) {
  const JsonTree* object = entry.find("attributes");
  if (object == nullptr) return Attributes();
  if (object->kind != Kind::kObject) return at(*object, "\"attributes\" wants an object, {...}");
  std::vector<Attributes::Item> items;
  for (size_t i = 0; i < object->keys.size(); ++i) {
    const std::string& name = object->keys[i];
    const auto spec = std::ranges::find(op.attributes.specs, std::string_view(name),
                                        [](const AttributeSpec& known) { return known.name; });
    const bool flag = spec == op.attributes.specs.end() || is_flag(*spec);
    MANTISSA_ASSIGN(AttributeValue value,
                    attribute_of(object->items[i], what + ": attribute " + shown(name), flag));
    items.emplace_back(name, std::move(value));
  }
  return Attributes(std::move(items));
}

Result<Parameter> with_properties(Parameter parameter, const JsonTree& properties,
                                  const std::string& node) {
  const std::string what = "parameter '" + parameter.name + "' of " + node;
  MANTISSA_RETURN_IF_ERROR(check_keys(properties, what, {"trained", "decays", "rate_factor"}));
  if (!parameter.trained) return at(properties, what + " is never trained");
  for (const auto& [key, field] :
       {std::pair{"trained", &Parameter::trained}, {"decays", &Parameter::decays}}) {
    const JsonTree* truth = properties.find(key);
    if (truth == nullptr) continue;
    if (truth->kind != Kind::kTruth) {
      return at(*truth, what + ": \"" + key + "\" wants true or false");
    }
    parameter.*field = std::get<bool>(truth->scalar);
  }
  const JsonTree* factor = properties.find("rate_factor");
  if (factor == nullptr) return parameter;
  const double number = factor->kind == Kind::kReal ? std::get<double>(factor->scalar)
                        : factor->kind == Kind::kWhole
                            ? static_cast<double>(std::get<int64_t>(factor->scalar))
                            : -1;
  if (!(number > 0 && number <= kMostRateFactor)) {
    return at(*factor, what + ": \"rate_factor\" wants a number above 0, at most 1000");
  }
  parameter.rate_factor = number;
  return parameter;
}

}  // namespace mantissa

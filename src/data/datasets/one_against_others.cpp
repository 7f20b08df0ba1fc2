#include "data/datasets/one_against_others.h"

#include <algorithm>
#include <charconv>

#include "data/batches/no_label.h"

namespace mantissa {
namespace {

constexpr size_t kMostClassesNamed = 20;

std::string list_of(const std::vector<std::string>& names) {
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kMostClassesNamed); ++i) {
    list += (i == 0 ? "" : ", ") + names[i];
  }
  return list + (names.size() > kMostClassesNamed ? ", ..." : "");
}

}  // namespace

std::optional<Label> positive_class(const std::vector<std::string>& names,
                                    const std::string& positive) {
  const auto found = std::find(names.begin(), names.end(), positive);
  if (found != names.end()) return static_cast<Label>(found - names.begin());
  size_t number = 0;
  const char* const end = positive.data() + positive.size();
  const auto parsed = std::from_chars(positive.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || number >= names.size()) return std::nullopt;
  return static_cast<Label>(number);
}

std::vector<std::string> two_classes(const std::string& positive) {
  return {"not " + positive, positive};
}

Status take_positive(const DataOptions& options, DatasetInfo& info) {
  if (options.positive.empty()) return {};
  if (info.target.is_sequence()) {
    return invalid_input("positive: is for one class of an example, and " + info.name +
                         " has labels in an order; leave it out");
  }
  if (Status no_table = check_no_table(info, "positive: is for"); !no_table.ok()) {
    no_table.error().message += ": let its target have two values";
    return no_table;
  }
  if (options.classes != 0) {
    return invalid_input("positive: makes two classes; leave out classes");
  }
  Target& target = info.target;
  const auto found = positive_class(target.names, options.positive);
  if (!found) {
    return invalid_input("positive: '" + options.positive + "' is no class of " + info.name +
                         "; it has " + list_of(target.names));
  }
  const std::string name = target.names[*found];
  info.notes.push_back("the class " + name + " is taken against the other " +
                       std::to_string(target.classes - 1));
  target.names = two_classes(name);
  target.classes = 2;
  target.named = true;
  return {};
}

void renumber(const std::vector<Label>& numbers, ExampleSet& set) {
  StoredTensor& labels = *set.find(kLabelTensor);
  for (Label& label : labels.as<Label>()) {
    if (is_known(labels, label)) label = numbers[label];
  }
}

void relabel(Label positive, ExampleSet& set) {
  StoredTensor& labels = *set.find(kLabelTensor);
  for (Label& label : labels.as<Label>()) {
    if (is_known(labels, label)) label = label == positive ? 1 : 0;
  }
}

}  // namespace mantissa

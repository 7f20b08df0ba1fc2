#include "data/tables/output_columns.h"

#include <algorithm>
#include <cstdint>

namespace mantissa {
namespace {

std::string names_of(const std::vector<WantedTarget>& outputs) {
  std::string names;
  for (const WantedTarget& output : outputs) names += (names.empty() ? "" : ",") + output.name;
  return names;
}

Status check_width(const WantedTarget& output, int64_t columns) {
  const bool fits = columns == output.width || (!output.is_number && columns == 1);
  if (fits) return {};
  const std::string several = std::to_string(output.width);
  return invalid_input("target: the output '" + output.name + "' has " +
                       (output.width == 1  ? "one column"
                        : output.is_number ? several + " numbers"
                                           : several + " labels, or a column of classes") +
                       ", and " + std::to_string(columns) +
                       (columns == 1 ? " column is" : " columns are") + " named for it: --target " +
                       output.name + "=A,B names these");
}

// The columns of each output that "pos=x,y,kind=tree" names. Nothing: no output is named.
Result<std::vector<std::vector<std::string>>> columns_by_output(const TableChoices& choices) {
  std::vector<std::vector<std::string>> columns;
  size_t at = choices.outputs.size();
  for (const std::string& each : parse_missing(choices.target)) {
    const std::string name = each.substr(0, each.find('='));
    const auto output = std::ranges::find(choices.outputs, name, &WantedTarget::name);
    const bool begins = name.size() < each.size() && output != choices.outputs.end();
    if (!begins && columns.empty()) return columns;
    columns.resize(choices.outputs.size());
    if (begins) at = static_cast<size_t>(output - choices.outputs.begin());
    if (begins && !columns[at].empty()) {
      return invalid_input("target: the output '" + name + "' is named twice");
    }
    columns[at].push_back(begins ? each.substr(name.size() + 1) : each);
  }
  return columns;
}

// The columns in the outputs' order, as many as each has numbers.
Result<std::vector<std::vector<std::string>>> columns_in_order(const TableChoices& choices) {
  const std::vector<std::string> chosen = parse_missing(choices.target);
  std::vector<std::vector<std::string>> columns;
  size_t next = 0;
  for (const WantedTarget& output : choices.outputs) {
    std::vector<std::string>& own = columns.emplace_back();
    const int64_t width = output.is_number ? output.width : 1;
    for (int64_t i = 0; i < width && next < chosen.size(); ++i) own.push_back(chosen[next++]);
  }
  const bool has_all = std::ranges::none_of(columns, &std::vector<std::string>::empty);
  if (next == chosen.size() && has_all) return columns;
  return invalid_input("target: names " + std::to_string(chosen.size()) +
                       " columns, and the network has the outputs " + names_of(choices.outputs) +
                       "; name a column for each, in this order, or as many as it has numbers");
}

}  // namespace

Result<std::vector<std::vector<std::string>>> columns_of_outputs(const TableChoices& choices) {
  MANTISSA_ASSIGN(std::vector<std::vector<std::string>> columns, columns_by_output(choices));
  if (columns.empty() && !choices.target.empty()) {
    MANTISSA_ASSIGN(columns, columns_in_order(choices));
  }
  columns.resize(choices.outputs.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    const WantedTarget& output = choices.outputs[i];
    if (columns[i].empty()) columns[i].push_back(output.name);
    MANTISSA_RETURN_IF_ERROR(check_width(output, std::ssize(columns[i])));
  }
  return columns;
}

}  // namespace mantissa

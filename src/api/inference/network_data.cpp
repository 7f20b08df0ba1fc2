#include "api/inference/network_data.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

#include "data/arrays/array_files.h"
#include "data/datasets/one_against_others.h"
#include "networks/label_sequences.h"

namespace mantissa {
namespace {

// For each class of the data, the network's class with the same name; nothing if one has none.
std::optional<std::vector<Label>> classes_by_name(const std::vector<std::string>& data,
                                                  const std::vector<std::string>& network) {
  std::map<std::string_view, Label> known;
  for (size_t i = 0; i < network.size(); ++i) known.emplace(network[i], static_cast<Label>(i));
  std::vector<Label> numbers;
  for (const std::string& name : data) {
    const auto found = known.find(name);
    if (found == known.end()) return std::nullopt;
    numbers.push_back(found->second);
  }
  return numbers;
}

// A network that tells one class from all others is measured on data that have them all.
void take_one_class(const std::vector<std::string>& names, Dataset& data) {
  if (names.size() != 2 || names != two_classes(names[1])) return;
  const std::vector<std::string>& classes = data.info.target.names;
  const auto found = std::find(classes.begin(), classes.end(), names[1]);
  const bool has_both = std::find(classes.begin(), classes.end(), names[0]) != classes.end();
  if (found == classes.end() || has_both) return;
  relabel(static_cast<Label>(found - classes.begin()), data.test);
  data.info.notes.push_back("the class " + names[1] + " is taken against the other " +
                            std::to_string(data.info.target.classes - 1));
  data.info.target.names = names;
  data.info.target.classes = 2;
}

Status match_classes(const FrozenNetwork& network, const std::string& source, Dataset& data) {
  const std::vector<std::string>& names = network.description.class_names;
  take_one_class(names, data);
  const auto classes = static_cast<int>(names.size());
  std::vector<std::string>& notes = data.info.notes;
  const auto by_name = classes_by_name(data.info.target.names, names);
  if (by_name) {
    renumber(*by_name, data.test);
    std::vector<Label> same(by_name->size());
    std::iota(same.begin(), same.end(), Label{0});
    if (*by_name != same) notes.push_back("classes are matched by name with the network's");
  } else if (data.info.target.classes > classes) {
    return invalid_input(source + ": has " + std::to_string(data.info.target.classes) +
                         " classes, the network " + std::to_string(classes) +
                         ignore_remedy(data.info));
  } else if (data.info.target.named) {
    notes.push_back("class names are not those of the network: classes are matched by number");
  }
  if (data.info.target.classes < classes) {
    notes.push_back("has " + std::to_string(data.info.target.classes) + " of the network's " +
                    std::to_string(classes) + " classes");
  }
  return {};
}

// The label of the settings; else the one that the training ignored, if the data are arrays, too.
std::optional<int64_t> ignored_label_of(const FrozenDescription& description,
                                        const InferenceConfig& config) {
  const std::string& source = config.data.empty() ? description.data : config.data;
  const bool are_arrays = is_array_file(source) || is_array_folder(source);
  return config.ignored_label || !are_arrays ? config.ignored_label : description.ignored_label;
}

}  // namespace

Result<DataOptions> network_options(const FrozenNetwork& network, const InferenceConfig& config) {
  const FrozenDescription& description = network.description;
  const ModelOptions& options = description.options;
  DataOptions wanted{.threads = config.threads, .schema = description.table};
  wanted.table.ignored_label = ignored_label_of(description, config);
  if (description.table) return wanted;
  if (options.channels != 1 && options.channels != 3) {
    return invalid_input("the network takes pictures of " + std::to_string(options.channels) +
                         " channels; pictures have 1 or 3");
  }
  wanted.size = {options.height, options.width};
  wanted.channels = options.channels;
  return wanted;
}

Result<Dataset> load_test_data(const InferenceConfig& config, const FrozenNetwork& network) {
  const std::string source = config.data.empty() ? network.description.data : config.data;
  MANTISSA_ASSIGN(const DataOptions options, network_options(network, config));
  MANTISSA_ASSIGN(Dataset data, load_dataset(source, false, true, options));
  if (config.ignored_label && data.info.target.has_labels()) {
    return invalid_input("ignore-label: is for one class of an example or a place, and " + source +
                         " has labels that do not exclude one another");
  }
  const bool are_rows = data.info.table.has_value();
  if (are_rows != options.schema.has_value()) {
    return invalid_input(source + (are_rows ? ": is a table, and the network takes pictures"
                                            : ": has pictures, and the network takes tables"));
  }
  MANTISSA_RETURN_IF_ERROR(
      check_label_sequences(network.description.network, data.test, source + ": test"));
  if (!are_rows) MANTISSA_RETURN_IF_ERROR(match_classes(network, source, data));
  return data;
}

}  // namespace mantissa

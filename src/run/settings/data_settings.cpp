// Settings that are for other data than those that are there.
#include <string>

#include "run/settings/run_network.h"

namespace mantissa {

namespace {

// Settings that go with one target for each example alone, and those that move pictures whose
// labels would stay.
Status check_settings_of_places(const RunConfig& config, const DatasetInfo& data) {
  const TensorSpec* const labels = data.find(kLabelTensor);
  if (labels == nullptr || labels->shape.rank == 0 || data.target.has_labels() ||
      data.target.kind != TargetKind::kClasses) {
    return {};
  }
  const Shape& places = labels->shape;
  const std::string has =
      data.name + " has a class for each of the places " + to_string(places) + " of an example";
  if (config.table.task == TableTask::kRegression) {
    return invalid_input("task: regression is for numbers of examples, and " + has);
  }
  if (config.class_weights.any()) {
    return invalid_input("class-weights: is for one class of each example, and " + has +
                         "; the loss dice evens out classes (docs/losses.md)");
  }
  if (!config.augmentation.moves()) return {};
  for (const TensorSpec& spec : data.specs) {
    if (spec.type != DataType::kUint8) continue;
    const Shape& pixels = spec.shape;
    if (places.rank == 2 && places[0] == pixels[0] && places[1] == pixels[1]) continue;
    return invalid_input("augment: flip, shift and crop move the pixels " + to_string(pixels) +
                         " of '" + spec.name + "', and " + has +
                         ", which would not move with them; jitter and cutout are possible");
  }
  return {};
}

}  // namespace

namespace {

// Settings that belong to the one output of a network.
Status check_settings_of_outputs(const RunConfig& config, const DatasetInfo& data) {
  if (data.target.kind != TargetKind::kSeveral) return {};
  struct Choice {
    const char* name;
    bool is_set;
  };
  const Choice choices[] = {
      {"class-weights", config.class_weights.any()},
      {"classes", config.classes != 0},
      {"classifier", !config.classifier.empty()},
      {"positive", !config.positive.empty()},
      {"row-weights", !config.table.weights.empty()},
      {"task", config.table.task != TableTask::kByTarget},
      {"teacher", !config.teacher.empty()},
      {"text-column", config.table.text.tokenizer != nullptr},
  };
  for (const Choice& choice : choices) {
    if (!choice.is_set) continue;
    return invalid_input(std::string(choice.name) + ": is for networks with one output, and '" +
                         config.model + "' has several; leave it out");
  }
  return {};
}

}  // namespace

Status check_settings_of_data(const RunConfig& config, const DatasetInfo& data) {
  MANTISSA_RETURN_IF_ERROR(check_settings_of_outputs(config, data));
  if (config.table.ignored_label && data.target.is_number()) {
    return invalid_input("ignore-label: is for classes, and " + data.name + " has numbers; see " +
                         "--task");
  }
  if (config.table.ignored_label && data.target.has_labels()) {
    return invalid_input("ignore-label: is for one class of an example or a place, and " +
                         data.name + " has labels that do not exclude one another");
  }
  const bool has_task = config.table.task != TableTask::kByTarget;
  if (data.target.is_sequence() && (has_task || config.classes != 0)) {
    return invalid_input((has_task ? "task" : "classes") +
                         std::string(": the network says it, and ") + data.name +
                         " has labels in an order; leave it out");
  }
  const bool are_arrays =
      data.table && (data.table->is_shaped() || data.table->has_named_inputs());
  const bool has_pictures = data.has_pictures(), is_table = data.table && !are_arrays;
  const std::string are = is_table       ? " is a table"
                          : are_arrays   ? " has arrays, which are no rows of columns"
                          : has_pictures ? " has pictures"
                                         : " is a text";
  struct Kind {
    uint32_t trait;
    bool is_there;
    const char* name;
  };
  const Kind kinds[] = {
      {traits::kForPictures, has_pictures, "pictures"},
      {traits::kForTables, is_table, "tables"},
      {traits::kForArrays, are_arrays, "arrays of positions or pictures of numbers"},
      {traits::kForClasses, is_table || are_arrays || has_pictures, "data with classes"}};
  const RunConfig usual = default_run_config();
  for (const Setting& row : training_settings()) {
    const char* wanted = nullptr;
    for (const Kind& kind : kinds) {
      if (!row.has(kind.trait)) continue;
      if (kind.is_there) {
        wanted = nullptr;
        break;
      }
      if (wanted == nullptr) wanted = kind.name;
    }
    if (wanted == nullptr || row.text(config) == row.text(usual)) continue;
    const bool is_missing = are_arrays && row.name == std::string_view("missing");
    return invalid_input(std::string(row.name) + ": is for " + wanted + ", and " + data.name + are +
                         (is_missing ? "; there NaN stands for a missing number" : ""));
  }
  return check_settings_of_places(config, data);
}

}  // namespace mantissa

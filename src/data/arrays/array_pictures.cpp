#include "data/arrays/array_pictures.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/sizes.h"
#include "data/arrays/array_files.h"
#include "data/arrays/array_targets.h"
#include "data/tables/table_rows.h"

namespace mantissa {

bool are_pictures(const NpyArray& x) {
  return x.type == NpyType::kUint8 && (x.shape.size() == 3 || x.shape.size() == 4);
}

namespace {

// How many labels pictures have each, [N, labels]; 0: they have a class, [N].
int64_t labels_each(const NpyArray& y) {
  return y.shape.size() == 2 && y.shape[1] > 1 ? y.shape[1] : 0;
}

// The labels of a split, 0 or 1: [pictures][labels].
Result<std::vector<Label>> several_labels(const FoundSplit& split, ArrayPair& pair) {
  const std::string name = quoted(split.file(0)) + ": '" + pair.y.name + "' ";
  const int64_t pictures = pair.y.shape[0];
  if (pictures != pair.x.shape[0]) {
    return invalid_input(quoted(split.file(0)) + ": '" + pair.x.name + "' has " +
                         std::to_string(pair.x.shape[0]) + " pictures, and there are labels for " +
                         std::to_string(pictures));
  }
  MANTISSA_ASSIGN(const auto rows, array_rows(quoted(split.file(0)), pair.y, {}, {}));
  std::vector<Label> labels;
  while (true) {
    MANTISSA_ASSIGN(const auto row, rows->next());
    if (row.empty()) break;
    for (const TableField& field : row) {
      if (field.is_number() && (field.number == 0 || field.number == 1)) {
        labels.push_back(static_cast<Label>(field.number));
        continue;
      }
      return invalid_input(name + shape_text(pair.y) +
                           " of pictures has a label that is neither 0 nor 1");
    }
  }
  return labels;
}

// The labels of a split, whole numbers below kMaxClasses.
Result<std::vector<Label>> labels_of(const FoundSplit& split, ArrayPair& pair) {
  const std::string name = quoted(split.file(0)) + ": '" + pair.y.name + "'";
  MANTISSA_ASSIGN(const auto rows, array_rows(quoted(split.file(0)), std::move(pair.y), {}));
  std::vector<Label> labels;
  while (true) {
    MANTISSA_ASSIGN(const auto row, rows->next());
    if (row.empty()) break;
    const double label = row[0].number;
    if (row.size() != 1 || row[0].kind != FieldKind::kWhole || label < 0 || label >= kMaxClasses) {
      return invalid_input(name + " of pictures must be a whole number from 0 to " +
                           std::to_string(kMaxClasses - 1) + " for each");
    }
    labels.push_back(static_cast<Label>(label));
  }
  return labels;
}

Result<PictureForm> form_of(const FoundSplit& split, const NpyArray& x) {
  const bool has_channels = x.shape.size() == 4;
  const PictureForm form = {x.shape[1], x.shape[2], has_channels ? x.shape[3] : 1};
  const bool fits =
      form.height >= 1 && form.width >= 1 && (form.channels == 1 || form.channels == 3);
  if (fits && form.height <= 16384 && form.width <= 16384) return form;
  return invalid_input(quoted(split.file(0)) + ": '" + x.name + "' " + shape_text(x) +
                       " is not [pictures, height, width] or [pictures, height, width, channels] "
                       "with 1 or 3 channels, up to 16384 a side; a network whose input 'numbers' "
                       "is [height, width, channels] takes others");
}

// Labels of pixels, [pictures, height, width].
Status inspect_labels_of_pixels(const FoundSplit& split, const ArrayPair& pair,
                                const PictureForm& form, FoundData& found) {
  const NpyArray& y = pair.y;
  const std::string name = quoted(split.file(0)) + ": '" + y.name + "' " + shape_text(y);
  if (y.shape != std::vector<int64_t>{pair.x.shape[0], form.height, form.width}) {
    return invalid_input(name + " has not one label for each pixel of '" + pair.x.name + "' " +
                         shape_text(pair.x));
  }
  const Shape shape{form.height, form.width};
  if (&split != &found.train && found.label_shape != shape) {
    return invalid_input(name + " has labels of pixels, and the training pictures have one each");
  }
  found.label_shape = shape;
  MANTISSA_ASSIGN(const Label largest, largest_place_label(split, y, found));
  found.largest_label = std::max(found.largest_label, largest);
  return {};
}

// Takes the facts about pictures from a split's arrays.
Status inspect_pictures(FoundSplit& split, FoundData& found) {
  MANTISSA_ASSIGN(ArrayPair pair, read_pair(split));
  if (!are_pictures(pair.x)) {
    return invalid_input(quoted(split.file(0)) + ": '" + pair.x.name + "' " + shape_text(pair.x) +
                         " is not of pictures as the training array is");
  }
  MANTISSA_ASSIGN(const PictureForm form, form_of(split, pair.x));
  const PictureSize size = {form.height, form.width};
  if (found.channels == 0) found.smallest = found.largest = size, found.channels = form.channels;
  if (found.largest != size || found.channels != form.channels) {
    return invalid_input(quoted(split.file(0)) + ": '" + pair.x.name + "' " + shape_text(pair.x) +
                         " differs in size from the training pictures");
  }
  split.count = pair.x.shape[0];
  if (pair.y.shape.size() == 3) return inspect_labels_of_pixels(split, pair, form, found);
  if (found.label_shape.rank > 0) {
    return invalid_input(quoted(split.file(0)) + ": '" + pair.y.name + "' " + shape_text(pair.y) +
                         " has no label for each pixel, as the training array has");
  }
  if (const int64_t labels = labels_each(pair.y); labels > 0) {
    const auto known = std::ssize(found.target.names);
    if (known > 0 && (known != labels || !found.target.has_labels())) {
      return invalid_input(quoted(split.file(0)) + ": '" + pair.y.name + "' " +
                           shape_text(pair.y) + " has other labels than the training pictures");
    }
    found.target = {.kind = TargetKind::kLabels,
                    .names = numbered_classes(static_cast<int>(labels))};
    const auto read = several_labels(split, pair);
    return read.ok() ? Status() : read.error();
  }
  MANTISSA_ASSIGN(split.labels, labels_of(split, pair));
  if (std::ssize(split.labels) == split.count) return {};
  return invalid_input(quoted(split.file(0)) + ": '" + pair.x.name + "' has " +
                       std::to_string(split.count) + " pictures, and there are " +
                       std::to_string(split.labels.size()) + " labels");
}

// Without test arrays: one picture of five is for testing. The reader finds them by their part.
void keep_test_pictures(FoundData& found) {
  FoundSplit& train = found.train;
  const std::vector<Label> all = std::exchange(train.labels, {});
  const int64_t pictures = std::exchange(train.count, 0);
  found.test = train;
  found.test.part = RowPart::kTest;
  train.part = RowPart::kTrain;
  for (int64_t i = 0; i < pictures; ++i) {
    FoundSplit& split = is_of_part(i, RowPart::kTest) ? found.test : train;
    ++split.count;
    if (!all.empty()) split.labels.push_back(all[static_cast<size_t>(i)]);
  }
  found.notes.push_back("there are no test pictures: one in five is kept for testing");
}
}  // namespace

Status inspect_array_pictures(FoundData& found) {
  for (const SplitRow& row : kSplitRows) {
    if (!(found.*row.found).files.empty()) {
      MANTISSA_RETURN_IF_ERROR(inspect_pictures(found.*row.found, found));
    }
  }
  if (found.test.files.empty() && !found.validation.files.empty()) {
    found.test = std::exchange(found.validation, {});
    found.notes.push_back("there are no test pictures: those for validation are taken for them");
  }
  if (found.test.files.empty()) keep_test_pictures(found);
  if (found.target.has_labels()) return {};
  Label largest = found.largest_label;
  for (const SplitRow& row : kSplitRows) {
    for (const Label label : (found.*row.found).labels) largest = std::max(largest, label);
  }
  found.target.names = numbered_classes(int{largest} + 1);
  return {};
}

namespace {

// In place of the picture's one label.
Status append_labels_of_pixels(const FoundData& found, const FoundSplit& split, const NpyArray& y,
                               int64_t picture, ExampleSet& set) {
  auto& labels = set.find(kLabelTensor)->as<Label>();
  const NumberAt number = number_reader(y.type);
  const int64_t count = found.label_shape.count();
  labels.pop_back();
  for (int64_t i = picture * count; i < (picture + 1) * count; ++i) {
    MANTISSA_ASSIGN(const Label label, place_label(split, y, number(y, i)));
    labels.push_back(label);
  }
  return {};
}
}  // namespace

Result<ExampleSet> read_array_pictures(const FoundData& found, const FoundSplit& split,
                                       const ReadOptions& options) {
  MANTISSA_ASSIGN(ArrayPair pair, read_pair(split));
  MANTISSA_ASSIGN(const PictureForm stored, form_of(split, pair.x));
  MANTISSA_ASSIGN(ExampleSet set, empty_set(split.count, options.form));
  std::vector<Label> several;
  const int64_t each = labels_each(pair.y);
  set.find(kLabelTensor)->shape = each > 0 ? Shape{each} : found.label_shape;
  if (each > 0) {
    MANTISSA_ASSIGN(several, several_labels(split, pair));
  }
  if (found.label_shape.rank > 0 && options.form != stored) {
    return invalid_input(quoted(split.file(0)) + ": pictures with labels of pixels stay as they "
                         "are: neither --input-size nor other channels are possible");
  }
  const auto* pixels = reinterpret_cast<const uint8_t*>(pair.x.data.data());
  const int64_t all = pair.x.shape[0];
  for (int64_t i = 0; i < all && set.count < split.count; ++i) {
    if (!is_of_part(i, split.part)) continue;
    if (found.label_shape.rank > 0) {
      append_picture(pixels + i * stored.bytes(), stored, 0, set);
      MANTISSA_RETURN_IF_ERROR(append_labels_of_pixels(found, split, pair.y, i, set));
      continue;
    }
    const auto first = several.begin() + i * each;
    append_picture(pixels + i * stored.bytes(), stored,
                   each > 0 ? *first : split.labels[set.count], set);
    if (each == 0) continue;
    auto& labels = set.find(kLabelTensor)->as<Label>();
    labels.insert(labels.end(), first + 1, first + each);
  }
  if (set.count == split.count) return set;
  return invalid_input(quoted(split.file(0)) + ": changed while it was read");
}

Result<ExampleSet> read_new_pictures(const std::filesystem::path& path, const PictureForm& form) {
  MANTISSA_ASSIGN(const ArrayPair pair, read_inputs(path));
  FoundSplit split;
  split.folder = path.parent_path();
  split.files = {path.filename().string()};
  if (!are_pictures(pair.x)) {
    return invalid_input(place_of(split, pair.x) +
                         " is no array of pictures, uint8 [N, height, width] or with channels");
  }
  MANTISSA_ASSIGN(const PictureForm stored, form_of(split, pair.x));
  MANTISSA_ASSIGN(ExampleSet set, empty_set(pair.x.shape[0], form));
  const auto* const pixels = reinterpret_cast<const uint8_t*>(pair.x.data.data());
  try {
    for (int64_t i = 0; i < pair.x.shape[0]; ++i) {
      append_picture(pixels + i * stored.bytes(), stored, 0, set);
    }
  } catch (const std::bad_alloc&) {
    return out_of_memory("the pictures of " + quoted(path), pair.x.shape[0] * form.bytes());
  }
  return set;
}
}  // namespace mantissa

#include "data/datasets/survey.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <utility>

#include "base/hash.h"
#include "data/batches/no_label.h"
#include "data/datasets/find_dataset.h"

namespace mantissa {
namespace {

// From how many times as many examples one class is much larger than another.
constexpr int64_t kImbalance = 10;

std::vector<int64_t> count_classes(const ExampleSet& set, const Target& target) {
  std::vector<int64_t> counts(static_cast<size_t>(target.classes), 0);
  const StoredTensor* const labels = set.find(kLabelTensor);
  if (labels == nullptr) return counts;
  const bool by_label = target.has_labels();  // examples whose label is 1
  for (size_t i = 0; i < set.labels().size(); ++i) {
    const Label label = set.labels()[i];
    if (!is_known(*labels, label)) continue;
    counts[by_label ? i % counts.size() : label] += by_label ? label : 1;
  }
  return counts;
}

// Mean and standard deviation of each channel of pictures, from exact sums.
void describe_pixels(const ExampleSet& set, DataSurvey& survey) {
  const PictureForm form = set.picture_form();
  const auto channels = static_cast<size_t>(form.channels);
  const std::vector<uint8_t>& all = set.pixels();
  std::vector<int64_t> sums(channels, 0), squares(channels, 0);
  for (size_t i = 0; i < all.size(); ++i) {
    const int64_t value = all[i];
    sums[i % channels] += value;
    squares[i % channels] += value * value;
  }
  const auto pixels = static_cast<double>(set.count * form.height * form.width);
  for (size_t c = 0; c < channels; ++c) {
    const double mean = static_cast<double>(sums[c]) / std::max(1.0, pixels);
    const double square = static_cast<double>(squares[c]) / std::max(1.0, pixels);
    survey.mean.push_back(mean);
    survey.deviation.push_back(std::sqrt(std::max(0.0, square - mean * mean)));
  }
}

// A hash of the part of an example that networks read.
std::string input_hash(const ExampleSet& set, int64_t i) {
  Sha256 hash;
  for (const StoredTensor& tensor : set.tensors) {
    if (!tensor.is_input()) continue;
    const auto bytes = static_cast<size_t>(tensor.example_bytes());
    hash.update(tensor.bytes().subspan(static_cast<size_t>(i) * bytes, bytes));
  }
  return hash.hex_digest();
}

// How many of the examples also occur in the training split.
int64_t count_duplicates(const ExampleSet& train, const ExampleSet& examples) {
  std::set<std::string> known;
  std::vector<std::string> hashes;
  for (int64_t i = 0; i < examples.count; ++i) {
    hashes.push_back(input_hash(examples, i));
    known.insert(hashes.back());
  }
  std::set<std::string> both;
  for (int64_t i = 0; i < train.count && !known.empty(); ++i) {
    std::string hash = input_hash(train, i);
    if (known.count(hash) > 0) both.insert(std::move(hash));
  }
  return std::count_if(hashes.begin(), hashes.end(),
                       [&](const std::string& hash) { return both.count(hash) > 0; });
}

// Notes that only the pictures and labels themselves tell.
void add_notes(const Dataset& data, const LocatedData& located, DataSurvey& survey) {
  std::vector<std::string>& notes = survey.info.notes;
  const std::vector<std::string>& names = survey.info.target.names;
  const auto& counts = survey.train_counts;
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  if (!counts.empty() && *least > 0 && *most >= kImbalance * *least) {
    notes.push_back("the classes are unbalanced: " + std::to_string(*most) +
                    " training examples of " + names[static_cast<size_t>(most - counts.begin())] +
                    ", " + std::to_string(*least) + " of " +
                    names[static_cast<size_t>(least - counts.begin())]);
  }
  for (const SplitRow& row : kSplitRows) {
    const ExampleSet& set = data.*row.set;
    const bool has_classes = survey.info.target.kind == TargetKind::kClasses;
    if (has_classes && (located.found.*row.found).labels.empty()) {
      std::string note = missing_classes(row.name, set.labels(), located.found.target.names);
      if (!note.empty()) notes.push_back(std::move(note));
    }
    if (row.set == &Dataset::train) continue;
    const int64_t duplicates = count_duplicates(data.train, set);
    if (row.set == &Dataset::test) survey.duplicates = duplicates;
    if (duplicates == 0) continue;
    const std::string examples = survey.info.nouns.examples;
    notes.push_back(std::to_string(duplicates) + " " + row.name + " " + examples +
                    " are training " + examples + ", too");
  }
  if (!survey.unreadable.empty()) {
    notes.push_back(std::to_string(survey.unreadable.size()) +
                    " files are no readable pictures; training refuses them");
  }
}

}  // namespace

Result<DataSurvey> survey_dataset(const std::string& name_or_path, const DataOptions& options,
                                  Dataset& examples) {
  MANTISSA_ASSIGN(LocatedData data, find_dataset(name_or_path, options));
  DataSurvey survey;
  survey.smallest = data.found.smallest;
  survey.largest = data.found.largest;
  MANTISSA_ASSIGN(survey.info, describe_found(name_or_path, data, options));
  const ReadOptions read{.form = loaded_form(data.found, options),
                         .threads = options.threads,
                         .unreadable = &data.found.unreadable,
                         .notes = &survey.info.notes};
  for (const SplitRow& row : kSplitRows) {
    FoundSplit& split = data.found.*row.found;
    if (split.count == 0 && row.found == &FoundData::validation) continue;
    MANTISSA_ASSIGN(examples.*row.set, data.reader->read(data.found, split, read));
    split.count = (examples.*row.set).count;
  }
  survey.info.train_count = examples.train.count;
  survey.info.validation_count = examples.validation.count;
  survey.info.test_count = examples.test.count;
  survey.info.bytes = examples.train.bytes() + examples.validation.bytes() + examples.test.bytes();
  survey.train_counts = count_classes(examples.train, survey.info.target);
  survey.validation_counts = count_classes(examples.validation, survey.info.target);
  survey.test_counts = count_classes(examples.test, survey.info.target);
  const Status status = check_found(data);
  if (!status.ok()) survey.refusal = status.error().message;
  survey.unreadable = std::move(data.found.unreadable);
  describe_pixels(examples.train, survey);
  add_notes(examples, data, survey);
  examples.info = survey.info;
  return survey;
}

Image contact_sheet(const ExampleSet& images, int classes, int columns) {
  constexpr int64_t kLargest = 64, kLeast = 16, kGap = 2;
  constexpr uint8_t kGrey = 96;
  const PictureForm stored = images.picture_form();
  // A sheet has sides that PNG files may have.
  const auto rows = std::min<int64_t>(classes, (kMaxImageSide - kGap) / (kLeast + kGap));
  const int64_t most =
      std::min(kLargest, (kMaxImageSide - kGap) / std::max<int64_t>({1, rows, columns}) - kGap);
  const int64_t side = std::max({stored.height, stored.width, most});
  const PictureForm shown = {std::max<int64_t>(1, stored.height * most / side),
                             std::max<int64_t>(1, stored.width * most / side), stored.channels};
  Image sheet{rows * (shown.height + kGap) + kGap,
              columns * (shown.width + kGap) + kGap,
              shown.channels,
              {}};
  sheet.pixels.assign(static_cast<size_t>(sheet.height * sheet.width * sheet.channels), kGrey);
  std::vector<int> placed(static_cast<size_t>(rows), 0);
  std::vector<uint8_t> picture(static_cast<size_t>(shown.bytes()));
  for (int64_t i = 0; i < images.count; ++i) {
    const int64_t row = images.labels()[i];
    if (row >= rows) continue;
    const int64_t column = placed[static_cast<size_t>(row)]++;
    if (column >= columns) continue;
    fit_picture(images.pixels().data() + i * stored.bytes(), stored, shown, picture.data());
    const int64_t top = kGap + row * (shown.height + kGap),
                  left = kGap + column * (shown.width + kGap);
    for (int64_t y = 0; y < shown.height; ++y) {
      std::copy_n(picture.begin() + y * shown.width * shown.channels, shown.width * shown.channels,
                  sheet.pixels.begin() + ((top + y) * sheet.width + left) * shown.channels);
    }
  }
  return sheet;
}

}  // namespace mantissa

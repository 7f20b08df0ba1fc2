#include "data/datasets/dataset.h"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

#include "base/hash.h"
#include "data/batches/examples.h"
#include "data/datasets/find_dataset.h"
#include "data/datasets/one_against_others.h"
#include "data/datasets/readers.h"

namespace mantissa {
namespace {

constexpr PictureSize kSizeOfMixed = {64, 64};  // if pictures differ and none is asked for

// Pictures that are being decoded, the list of files, and the labels that were found with it.
int64_t loading_bytes(const FoundData& found, int threads) {
  constexpr int64_t kBytesPerFile = 256;
  int64_t files = 0, labels = 0;
  for (const SplitRow& row : kSplitRows) {
    files += std::ssize((found.*row.found).files);
    labels += std::ssize((found.*row.found).labels);
  }
  return found.decoding_bytes * reading_threads(found.decoding_bytes, threads) +
         2 * found.array_bytes +  // an array is parsed into another
         files * kBytesPerFile + labels * int64_t{sizeof(Label)};
}

// Hashes one byte of every label, `shift` bits up.
void hash_label_bytes(std::span<const Label> labels, int shift, Sha256& hash) {
  std::array<uint8_t, 4096> bytes{};
  for (size_t first = 0; first < labels.size(); first += bytes.size()) {
    const size_t count = std::min(bytes.size(), labels.size() - first);
    for (size_t i = 0; i < count; ++i) {
      bytes[i] = static_cast<uint8_t>(labels[first + i] >> shift);
    }
    hash.update(std::as_bytes(std::span(bytes).first(count)));
  }
}

// Up to 256 classes have the hash of labels stored as bytes, so that identities of runs stay as
// they were.
void hash_numbers(const std::vector<Label>& labels, Sha256& hash) {
  hash_label_bytes(labels, 0, hash);
  if (std::all_of(labels.begin(), labels.end(), [](Label label) { return label < 256; })) return;
  hash.update("upper bytes of labels\n");
  hash_label_bytes(labels, 8, hash);
}

template <typename T>
void hash_numbers(const std::vector<T>& numbers, Sha256& hash) {
  hash.update(std::as_bytes(std::span(numbers)));
}

// Labels come last, as they did before there were other tensors.
void hash_set(const ExampleSet& set, Sha256& hash) {
  const PictureForm form = set.picture_form();
  hash.update(std::to_string(set.count) + "x" + std::to_string(form.height) + "x" +
              std::to_string(form.width) + "x" + std::to_string(form.channels) + "\n");
  for (const bool are_labels : {false, true}) {
    for (const StoredTensor& tensor : set.tensors) {
      if ((tensor.name == kLabelTensor) != are_labels) continue;
      std::visit([&](const auto& numbers) { hash_numbers(numbers, hash); }, tensor.numbers);
    }
  }
}

}  // namespace

Target target_of(const TableSchema& schema) {
  if (!schema.outputs.empty()) {
    Target several{.kind = TargetKind::kSeveral};
    for (const TableSchema& output : schema.outputs) {
      several.parts.push_back(target_of(output));
      several.parts.back().output = output.output;
    }
    return several;
  }
  const TableColumn& column = schema.target;
  if (schema.has_labels()) {
    Target labels{.kind = TargetKind::kLabels, .named = true};
    for (const TableColumn& each : schema.targets()) labels.names.push_back(each.name);
    labels.classes = static_cast<int>(labels.names.size());
    return labels;
  }
  Target target{.classes = static_cast<int>(column.categories.size()),
                .names = column.categories,
                .named = true};
  if (schema.has_labels_in_order) target.kind = TargetKind::kSequence;
  if (!schema.is_regression()) return target;
  target.kind = TargetKind::kNumber;
  for (const TableColumn& each : schema.targets()) {
    target.numbers.push_back({each.name, each.mean, each.deviation});
  }
  return target;
}

bool DatasetInfo::has_pictures() const {
  return std::any_of(specs.begin(), specs.end(),
                     [](const TensorSpec& spec) { return spec.type == DataType::kUint8; });
}

std::string examples_text(std::span<const TensorSpec> specs) {
  struct Nouns {
    const char *tensor, *before, *behind;
  };
  constexpr Nouns kNouns[] = {{kPixelTensor, "pictures of ", ""},
                              {kTokenTensor, "texts of ", " tokens"},
                              {kNumberTensor, "tables of ", " numbers"}};
  for (const Nouns& nouns : kNouns) {
    const TensorSpec* const spec = find_spec(specs, nouns.tensor);
    if (spec == nullptr) continue;
    const Shape& shape = spec->shape;
    if (std::string_view(nouns.tensor) == kNumberTensor && shape.rank > 1) {
      return "numbers of " + to_string(shape);
    }
    const std::string size = shape.rank == 1 ? std::to_string(shape[0]) : to_string(shape);
    return nouns.before + size + nouns.behind;
  }
  return "other examples";
}

std::string inputs_text(std::span<const TensorSpec> specs) {
  std::vector<std::string> inputs;
  for (const TensorSpec& spec : specs) {
    if (is_input_name(spec.name)) inputs.push_back(to_string(spec));
  }
  std::sort(inputs.begin(), inputs.end());
  std::string text;
  for (size_t i = 0; i < inputs.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == inputs.size() ? " and " : ", ") + inputs[i];
  }
  return text;
}

Status check_no_table(const DatasetInfo& data, const std::string& subject) {
  if (!data.table) return {};
  return invalid_input(subject + " pictures, and " + data.name + " is a table");
}

Status check_found(const LocatedData& data) {
  if (!data.found.unreadable.empty()) {
    const size_t others = data.found.unreadable.size() - 1;
    return invalid_input(data.found.unreadable[0] +
                         (others == 0 ? "" : "; and " + std::to_string(others) + " more") +
                         " (mantissa data lists them)");
  }
  for (const SplitRow& row : kSplitRows) {
    if ((data.found.*row.found).count == 0 && row.found != &FoundData::validation) {
      return invalid_input(quoted(data.folder) + ": there are no " + row.name + " " +
                           data.found.nouns.examples);
    }
  }
  return {};
}

std::string missing_classes(const char* split, const std::vector<Label>& labels,
                            const std::vector<std::string>& names) {
  constexpr int kMostNamed = 5;
  std::vector<bool> seen(names.size(), false);
  for (const Label label : labels) {
    if (label < std::ssize(seen)) seen[label] = true;  // others are places without a label
  }
  const auto missing = std::count(seen.begin(), seen.end(), false);
  if (missing == 0 || labels.empty()) return "";
  std::string list;
  int named = 0;
  for (size_t i = 0; i < names.size() && named < kMostNamed; ++i) {
    if (!seen[i]) list += (named++ == 0 ? "" : ", ") + names[i];
  }
  return std::string("the ") + split + " examples lack " + std::to_string(missing) + " of " +
         std::to_string(names.size()) + " classes: " + list + (missing > named ? ", ..." : "");
}

PictureForm loaded_form(const FoundData& found, const DataOptions& options) {
  PictureSize size = options.size;
  if (size == PictureSize{}) {
    size = found.smallest == found.largest ? found.largest : kSizeOfMixed;
  }
  return {size.height, size.width, options.channels == 0 ? found.channels : options.channels};
}

std::string ignore_remedy(const DatasetInfo& data) {
  const Target& target = data.target;
  const bool are_labels = target.kind == TargetKind::kClasses && !target.names.empty();
  if (data.kind != kArrayReader.kind || !are_labels) return "";
  return "; --ignore-label " + target.names.back() +
         " leaves that label out, if it says that there is no class";
}

std::string size_text(const PictureSize& size) {
  return std::to_string(size.height) + "x" + std::to_string(size.width);
}

namespace {

// The tensors that a split will have, without examples.
ExampleSet empty_split(const FoundData& found, const FoundSplit& split,
                       const DataOptions& options) {
  if (found.table) return row_set(*found.table, &split == &found.train);
  ExampleSet set = picture_set(loaded_form(found, options), {}, {});
  set.find(kLabelTensor)->shape = found.target.has_labels()
                                      ? Shape{std::ssize(found.target.names)}
                                      : found.label_shape;
  return set;
}

// The numbers that the classes of pictures have in the network that training starts from, and its
// names for them (take_learned_classes).
Result<std::vector<Label>> learned_numbers(const std::string& name, const FoundData& found,
                                           const DataOptions& options,
                                           std::vector<std::string>& names) {
  const bool are_classes = found.target.kind == TargetKind::kClasses && !found.table;
  if (!options.learned || !are_classes || !options.positive.empty()) return std::vector<Label>();
  const std::vector<std::string>& known = options.learned->classes;
  const bool is_of_one = known.size() == 2 && known == two_classes(known[1]);
  const bool has_others = options.classes != 0 && options.classes != std::ssize(known);
  if (is_of_one || has_others) return std::vector<Label>();
  return take_learned_classes(*options.learned, found.target.named, name, names);
}

}  // namespace

Result<DatasetInfo> describe_found(const std::string& name, const LocatedData& data,
                                   const DataOptions& options) {
  const FoundData& found = data.found;
  std::vector<std::string> names = found.target.names;
  MANTISSA_ASSIGN(const std::vector<Label> numbers, learned_numbers(name, found, options, names));
  const auto classes = static_cast<int>(names.size());
  if (found.target.is_number() && options.classes != 0) {
    return invalid_input("classes: " + name + " has numbers to predict, and no classes; " +
                         "--task classification takes them for classes");
  }
  if (options.classes != 0 && options.classes < classes) {
    return invalid_input(name + ": has " + std::to_string(classes) + " classes, and only " +
                         std::to_string(options.classes) + " are allowed");
  }
  DatasetInfo info{.name = name,
                   .specs = examples_of(empty_split(found, found.train, options)).specs,
                   .target = found.target,
                   .train_count = found.train.count,
                   .validation_count = found.validation.count,
                   .test_count = found.test.count,
                   .loading_bytes = loading_bytes(found, options.threads),
                   .kind = data.reader->kind,
                   .notes = found.notes,
                   .nouns = found.nouns,
                   .table = found.table};
  info.target.classes = std::max(classes, options.classes);
  info.target.names = numbered_classes(info.target.classes);
  std::copy(names.begin(), names.end(), info.target.names.begin());
  if (!numbers.empty()) {
    info.notes.push_back("classes are matched by name with those of " + options.learned->source);
  }
  if (found.smallest != found.largest) {
    const PictureForm form = loaded_form(found, options);
    info.notes.push_back("pictures of " + size_text(found.smallest) + " to " +
                         size_text(found.largest) + " pixels are brought to " +
                         size_text({form.height, form.width}));
  }
  for (const SplitRow& row : kSplitRows) {
    const FoundSplit& split = found.*row.found;
    info.bytes += split.count * empty_split(found, split, options).example_bytes();
    std::string note = missing_classes(row.name, split.labels, found.target.names);
    if (!note.empty()) info.notes.push_back(std::move(note));
  }
  MANTISSA_RETURN_IF_ERROR(take_positive(options, info));
  return info;
}

Result<DatasetInfo> inspect_dataset(const std::string& name_or_path, const DataOptions& options) {
  MANTISSA_ASSIGN(const LocatedData data, find_dataset(name_or_path, options));
  MANTISSA_RETURN_IF_ERROR(check_found(data));
  return describe_found(name_or_path, data, options);
}

namespace {

Result<Dataset> load(const std::string& name_or_path, bool with_train, bool with_test,
                     const DataOptions& options) {
  MANTISSA_ASSIGN(const LocatedData data, find_dataset(name_or_path, options));
  MANTISSA_RETURN_IF_ERROR(check_found(data));
  Dataset dataset;
  MANTISSA_ASSIGN(dataset.info, describe_found(name_or_path, data, options));
  const ReadOptions read{.form = loaded_form(data.found, options),
                         .threads = options.threads,
                         .notes = &dataset.info.notes};
  std::vector<std::string> names = data.found.target.names;
  MANTISSA_ASSIGN(const std::vector<Label> numbers,
                  learned_numbers(name_or_path, data.found, options, names));
  for (const SplitRow& row : kSplitRows) {
    const FoundSplit& split = data.found.*row.found;
    const bool wanted = row.found == &FoundData::test ? with_test : with_train;
    if (!wanted || split.count == 0) continue;
    MANTISSA_ASSIGN(dataset.*row.set, data.reader->read(data.found, split, read));
    if (!numbers.empty()) renumber(numbers, dataset.*row.set);
    if (options.positive.empty()) continue;
    relabel(*positive_class(data.found.target.names, options.positive), dataset.*row.set);
  }
  return dataset;
}

}  // namespace

Result<Dataset> load_dataset(const std::string& name_or_path, bool with_train, bool with_test,
                             const DataOptions& options) {
  auto dataset = load(name_or_path, with_train, with_test, options);
  // Names of files are many small pieces, and memory for decoding is spread over threads. It is
  // free now, but otherwise the process would keep it for as long as it trains.
  malloc_trim(0);
  return dataset;
}

Status check_unchanged(const DatasetInfo& inspected, const DatasetInfo& loaded) {
  const auto counts = [](const DatasetInfo& i) {
    return std::array{int64_t{i.target.classes}, i.train_count, i.validation_count, i.test_count};
  };
  if (inspected.specs == loaded.specs && counts(inspected) == counts(loaded) &&
      table_json(inspected.table) == table_json(loaded.table)) {
    return {};
  }
  return invalid_input("'" + loaded.name + "': changed while it was read");
}

ChannelMeans channel_means(const ExampleSet& set) {
  ChannelMeans means;
  for (const StoredTensor& tensor : set.tensors) {
    const auto* const bytes = std::get_if<std::vector<uint8_t>>(&tensor.numbers);
    if (bytes == nullptr) continue;
    const int64_t channels = tensor.shape.last(), pixels = std::ssize(*bytes) / channels;
    std::vector<int64_t> sums(static_cast<size_t>(channels), 0);
    const uint8_t* sample = bytes->data();
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      for (int64_t& sum : sums) sum += *sample++;
    }
    std::vector<int>& of_channels = means[tensor.name];
    for (const int64_t sum : sums) {
      of_channels.push_back(pixels == 0 ? 0 : static_cast<int>((sum + pixels / 2) / pixels));
    }
  }
  return means;
}

std::string data_sha256(const Dataset& data) {
  Sha256 hash;
  const std::string table = table_json(data.info.table);
  if (!table.empty()) hash.update("table " + table + "\n");
  for (const ExampleSet* set : {&data.train, &data.test, &data.validation}) {
    if (set == &data.validation && set->count == 0) continue;
    hash_set(*set, hash);
  }
  return hash.hex_digest();
}

}  // namespace mantissa

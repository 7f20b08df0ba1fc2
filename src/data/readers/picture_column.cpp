#include "data/readers/picture_column.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/sizes.h"
#include "data/pictures/picture_files.h"
#include "data/tables/table_rows.h"
#include "formats/pictures/image.h"

namespace mantissa {
namespace {

PictureForm form_of_column(const PictureColumn& column) {
  return {column.shape[0], column.shape[1], column.shape[2]};
}

Result<PictureColumn> find_picture_column(OpenRows open, const FoundSplit& split,
                                          const TableChoices& choices) {
  if (choices.picture[2] != 1 && choices.picture[2] != 3) {
    return invalid_input("the network takes pictures of " + std::to_string(choices.picture[2]) +
                         " channels; files have 1 or 3");
  }
  MANTISSA_ASSIGN(const auto rows, open(split, choices.format));
  MANTISSA_ASSIGN(const auto row, rows->next());
  for (size_t i = 0; i < row.size(); ++i) {
    if (!has_image_name(std::string(row[i].text))) continue;
    return PictureColumn{rows->names()[i], choices.picture};
  }
  return invalid_input(quoted(split.file(0)) +
                       ": the network reads pictures, too, and no column has the path of a PNG or "
                       "JPEG file in the first row");
}

// The paths of the pictures of a split's part.
Result<std::vector<std::string>> picture_paths(OpenRows open, const FoundSplit& split,
                                               const TableSchema& schema) {
  MANTISSA_ASSIGN(const auto rows, open(split, schema.file_format()));
  MANTISSA_ASSIGN(const size_t column,
                  find_column(rows->names(), schema.picture->name, rows->place() + ": "));
  std::vector<std::string> paths;
  for (int64_t number = 0;; ++number) {
    MANTISSA_ASSIGN(const auto row, rows->next());
    if (row.empty()) return paths;
    if (!is_of_part(number, split.part)) continue;
    MANTISSA_ASSIGN(std::string path, picture_path(row[column], *schema.picture, *rows));
    paths.push_back(std::move(path));
  }
}

// Lists the pictures of a split that cannot be read, by their heads.
Status check_pictures(OpenRows open, const FoundSplit& split, int threads, FoundData& found) {
  MANTISSA_ASSIGN(const std::vector<std::string> paths, picture_paths(open, split, *found.table));
  std::vector<int64_t> bytes(paths.size(), 0);
  PictureResults results = for_each_picture(std::ssize(paths), threads, [&](int64_t i) -> Status {
    const auto at = static_cast<size_t>(i);
    MANTISSA_ASSIGN(const ImageHeader head, read_image_header(split.folder / paths[at]));
    bytes[at] = head.decoding_bytes;
    return {};
  });
  if (results.failure) return std::move(*results.failure);
  for (std::string& error : results.errors) {
    if (!error.empty()) found.unreadable.push_back(std::move(error));
  }
  for (const int64_t of_one : bytes) found.decoding_bytes = std::max(found.decoding_bytes, of_one);
  return {};
}

Status check_all_pictures(OpenRows open, int threads, FoundData& found) {
  for (const SplitRow& row : kSplitRows) {
    const FoundSplit& split = found.*row.found;
    if (split.count == 0) continue;
    MANTISSA_RETURN_IF_ERROR(check_pictures(open, split, threads, found));
  }
  return {};
}

}  // namespace

Status inspect_picture_table(OpenRows open, const DataOptions& options, FoundData& found) {
  if (options.schema) {
    MANTISSA_RETURN_IF_ERROR(inspect_table(open, options, found));
    return check_all_pictures(open, options.threads, found);
  }
  MANTISSA_ASSIGN(PictureColumn column, find_picture_column(open, found.train, options.table));
  DataOptions others = options;
  std::string& ignored = others.table.ignore;
  ignored += (ignored.empty() ? "" : ",") + column.name;
  MANTISSA_RETURN_IF_ERROR(inspect_table(open, others, found));
  found.notes.push_back("the column '" + column.name + "' has the paths of the pictures");
  found.table->picture = std::move(column);
  return check_all_pictures(open, options.threads, found);
}

Result<ExampleSet> read_picture_table(OpenRows open, const FoundData& found,
                                      const FoundSplit& split, const ReadOptions& options) {
  MANTISSA_ASSIGN(ExampleSet set, read_table(open, found, split, options));
  MANTISSA_ASSIGN(const std::vector<std::string> paths, picture_paths(open, split, *found.table));
  if (std::ssize(paths) != set.count) {
    return invalid_input(quoted(split.file(0)) + ": changed while it was read");
  }
  MANTISSA_RETURN_IF_ERROR(append_pictures(split.folder, paths, *found.table->picture,
                                           reading_threads(found.decoding_bytes, options.threads),
                                           set.find(kPixelTensor)->as<uint8_t>()));
  return set;
}

Status append_pictures(const std::filesystem::path& folder, std::span<const std::string> files,
                       const PictureColumn& column, int threads, std::vector<uint8_t>& pixels) {
  const PictureForm form = form_of_column(column);
  const size_t first = pixels.size();
  const auto count = std::ssize(files);
  try {
    pixels.resize(first + static_cast<size_t>(count * form.bytes()));
  } catch (const std::bad_alloc&) {
    return out_of_memory(std::to_string(count) + " pictures", count * form.bytes());
  }
  PictureResults results = for_each_picture(count, threads, [&](int64_t i) -> Status {
    MANTISSA_ASSIGN(const Image image, read_image(folder / files[static_cast<size_t>(i)],
                                                  static_cast<int>(form.channels)));
    fit_picture(image.pixels.data(), {image.height, image.width, image.channels}, form,
                pixels.data() + first + static_cast<size_t>(i * form.bytes()));
    return {};
  });
  if (results.failure) return std::move(*results.failure);
  for (std::string& error : results.errors) {
    if (!error.empty()) return invalid_input(std::move(error));
  }
  return {};
}

Result<std::string> picture_path(const TableField& field, const PictureColumn& column,
                                 const TableRows& rows) {
  if (!field.is_missing()) return std::string(field.text);
  return invalid_input(rows.place() + ": has no picture in the column '" + column.name + "'");
}

}  // namespace mantissa

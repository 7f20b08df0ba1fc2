// Rows of CSV files.
#include <algorithm>
#include <cerrno>
#include <fstream>
#include <set>
#include <utility>

#include "base/files/atomic_file.h"
#include "base/files/file_system.h"
#include "data/datasets/readers.h"
#include "data/readers/header_guess.h"
#include "data/tables/table_rows.h"
#include "formats/csv.h"

namespace mantissa {
namespace {

constexpr size_t kSampleRows = 1000;  // below the first, that say whether it has names

// A field's text in the form for comparisons.
std::string text_of(std::string_view field) { return utf8_text(read_field(field).text); }

RowTexts texts_of(std::span<const std::string_view> row) {
  RowTexts texts;
  for (const std::string_view field : row) texts.push_back(text_of(field));
  return texts;
}

// Some rows of a file, including the first. Faults of later rows are found when they are read.
std::vector<RowTexts> sample(const std::filesystem::path& path, const std::string& name) {
  std::vector<RowTexts> rows;
  std::ifstream file(path, std::ios::binary);
  CsvReader reader(file, name);
  while (rows.size() <= kSampleRows) {
    const auto row = reader.next();
    if (!row.ok() || row->empty()) break;
    rows.push_back(texts_of(*row));
  }
  return rows;
}

class CsvRows : public TableRows {
 public:
  CsvRows(const std::filesystem::path& path, const TableFormat& format)
      : name_(quoted(path)),
        format_(format),
        file_(path, std::ios::binary),
        reader_(file_, name_) {}

  bool is_open() const { return file_.is_open(); }

  Status begin(const std::filesystem::path& path) {
    MANTISSA_ASSIGN(const auto first, reader_.next());
    if (first.empty()) return invalid_input(name_ + ": is empty");
    const RowTexts texts = texts_of(first);
    const bool has_header = decide_header(texts, path);
    std::set<std::string_view> seen;
    names_.reserve(first.size());
    for (size_t i = 0; i < first.size(); ++i) {
      names_.push_back(has_header ? texts[i] : std::to_string(i + 1));
      if (names_[i].empty() || seen.insert(names_[i]).second) continue;
      return invalid_input(place() + ": two columns are called '" + names_[i] + "'");
    }
    read(first);
    waiting_ = !has_header;
    return {};
  }

  const std::vector<std::string>& names() const override { return names_; }

  Result<std::span<const TableField>> next() override {
    if (!std::exchange(waiting_, false)) {
      MANTISSA_ASSIGN(const auto row, reader_.next());
      if (!row.empty() && row.size() != names_.size()) {
        return invalid_input(place() + ": has " + std::to_string(row.size()) +
                             " fields, and the first row " + std::to_string(names_.size()));
      }
      read(row);
    }
    return std::span<const TableField>(fields_);
  }

  std::string place() const override { return name_ + ", line " + std::to_string(reader_.line()); }
  std::vector<std::string> notes() const override { return notes_; }
  char separator() const override { return reader_.separator(); }

 private:
  bool decide_header(const RowTexts& first, const std::filesystem::path& path) {
    const std::set<std::string_view> texts(first.begin(), first.end());
    const auto is_there = [&](const std::string& name) { return texts.count(name) > 0; };
    if (!format_.names.empty() &&
        std::all_of(format_.names.begin(), format_.names.end(), is_there)) {
      return true;
    }
    if (format_.has_header) return *format_.has_header;
    const std::vector<RowTexts> rows = sample(path, name_);
    const std::span<const RowTexts> below =
        std::span(rows).subspan(std::min<size_t>(1, rows.size()));
    const HeaderGuess guess = guess_header(first, below);
    if (!guess.is_sure && format_.names.empty()) note_guess(first, guess.has_names);
    return guess.has_names;
  }

  void note_guess(const RowTexts& first, bool has_names) {
    constexpr size_t kMostShown = 6;
    std::string shown;
    for (size_t i = 0; i < std::min(kMostShown, first.size()); ++i) {
      shown += (i > 0 ? ", " : "") + first[i].substr(0, 40);
    }
    if (first.size() > kMostShown) shown += ", ...";
    const std::string line = "line " + std::to_string(reader_.line()) + " (" + shown + ") is ";
    notes_.push_back(has_names ? "guessed: " + line +
                                     "taken for the columns' names; --header no takes it for a row"
                               : "guessed: " + line +
                                     "taken for a row, and columns are called 1, 2, ...; --header "
                                     "yes takes it for their names");
  }

  void read(std::span<const std::string_view> row) {
    fields_.clear();
    for (const std::string_view text : row) {
      fields_.push_back(read_field(text));
      if (is_told_missing(fields_.back(), format_)) fields_.back().kind = FieldKind::kMissing;
    }
  }

  std::string name_;
  TableFormat format_;
  std::ifstream file_;
  CsvReader reader_;
  std::vector<std::string> names_, notes_;
  std::vector<TableField> fields_;
  bool waiting_ = false;  // the first row is data, and has not been given yet
};

}  // namespace

Result<std::unique_ptr<TableRows>> open_csv_rows(const std::filesystem::path& path,
                                                 const TableFormat& format) {
  MANTISSA_RETURN_IF_ERROR(InputFile::open(path));  // a pipe would block
  auto rows = std::make_unique<CsvRows>(path, format);
  if (!rows->is_open()) return file_error("open", path, errno);
  MANTISSA_RETURN_IF_ERROR(rows->begin(path));
  return std::unique_ptr<TableRows>(std::move(rows));
}

}  // namespace mantissa

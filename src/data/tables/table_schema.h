// The columns of a table: how a row becomes the numbers that a network takes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/tables/number_style.h"
#include "tensor/tensor.h"

namespace mantissa {

// The number of an example's class.
using Label = uint16_t;
constexpr int kMaxClasses = 1 << 16;
constexpr int64_t kMostIgnoredLabel = INT32_MAX;

// Predictions: classes, or numbers.
enum class TableTask { kByTarget, kClassification, kRegression };
Result<TableTask> parse_table_task(const std::string& text);
const char* table_task_name(TableTask task);

class WordPiece;

// The texts of a column as tokens, for networks that read these in place of numbers.
struct TextColumn {
  std::string name;
  int64_t sequence = 0;  // tokens of a text, with the two that begin and end it
  std::shared_ptr<const WordPiece> tokenizer = nullptr;
};

constexpr int16_t kNoToken = -1;  // after a text's tokens
constexpr int64_t kMostTextTokens = 65536;
constexpr int64_t kMostTextPieces = 32767;  // tokens are int16 in tables

// An error for an impossible length of the sequence, or a tokenizer with too many pieces.
Status check_text_column(const TextColumn& column);

// How the text of a table's files is read.
struct TableFormat {
  std::optional<bool> has_header = std::nullopt;  // whether names stand first; nothing: found out
  // Texts that stand for missing values, besides the usual ones, of the target too. Numbers stand
  // for all that are written so or otherwise.
  std::vector<std::string> missing = {};
  // Columns that are known: a first row with all of these has names.
  std::vector<std::string> names = {};
};
Result<std::optional<bool>> parse_header(const std::string& text);  // yes, no or auto
const char* header_name(const std::optional<bool>& has_header);
// Texts with commas, or line ends, between them; and back, with commas.
std::vector<std::string> parse_missing(const std::string& text);
std::string missing_text(const std::vector<std::string>& missing);

// The decimal sign of numbers that can be read in two ways; 0: found out.
Result<char> parse_decimal(const std::string& text);  // point, comma or auto
const char* decimal_name(char decimal);

// Where the arrays of an NPZ file have the channels of an example: [N, T, C], or [N, C, T].
enum class ChannelAxis : uint8_t { kByShape, kLast, kFirst };
Result<ChannelAxis> parse_channel_axis(const std::string& text);  // auto, last or first
const char* channel_axis_name(ChannelAxis axis);

// A column of numbers becomes one number, (x - mean) / deviation; a column of texts one for each
// category, 1 for the row's own and 0 for the others.
struct TableColumn {
  std::string name;
  std::vector<std::string> categories = {};  // sorted; empty: a column of numbers
  double mean = 0, deviation = 1;            // of the numbers in training rows
  int64_t missing = 0;                       // training rows without a value
  NumberStyle style = {};                    // of the texts of its numbers

  bool is_number() const { return categories.empty(); }
  int64_t width() const { return is_number() ? 1 : static_cast<int64_t>(categories.size()); }
};

enum class ArrayKind : uint8_t { kPictures, kNumbers, kTokens, kLengths };

// An input of a network that an array of the same name fills.
struct ArrayInput {
  std::string name;
  ArrayKind kind = ArrayKind::kNumbers;
  // Shape of an example: pictures [H, W, C]; numbers [F] to [D, H, W, C]; tokens [T] or [];
  // lengths [].
  Shape shape = {};
  int64_t limit = 0;  // tokens are below it, lengths at most so large; 0: no limit
  std::string lengths = {};  // of a sequence: the input that has its lengths; "": all are whole
  bool channels_first = false;             // in the array
  std::vector<TableColumn> columns = {};   // of numbers: one for each channel

  bool operator==(const ArrayInput& other) const {  // of networks, which know no columns
    return name == other.name && kind == other.kind && shape == other.shape &&
           limit == other.limit && lengths == other.lengths;
  }
};

// A column of paths to pictures, which start at the folder of the file.
struct PictureColumn {
  std::string name;
  Shape shape = {};  // [H, W, C], which the pictures are brought to
};

// An output of a network that has several, and what it is compared with: numbers, or classes.
struct WantedTarget {
  std::string name;
  bool is_number = false;
  int64_t width = 1;  // numbers of an example, or labels that exclude no other
};

// The user's settings for a table.
struct TableChoices {
  // The column that is predicted, or several with commas between them; "": one called so, or the
  // last.
  std::string target = {};
  std::string ignore = {};  // columns that are left out, with commas between them
  TableTask task = TableTask::kByTarget;
  // With a tokenizer the network reads a column of texts: its name; "": one called text, or the
  // only one.
  TextColumn text = {};
  std::string weights = {};  // the column of the rows' weights in training; "": none
  TableFormat format = {};
  char decimal = '\0';
  // For arrays whose examples reach the network in a shape of more than one axis.
  Shape shape = {};
  ChannelAxis channel_axis = ChannelAxis::kByShape;
  // For arrays that the inputs of a network name; `label_shape` is that of its labels, if they are
  // of places.
  std::vector<ArrayInput> inputs = {};
  Shape label_shape = {};
  // With such inputs: examples have labels in an order, without places, at most as many as
  // `label_shape` says, and of so many classes. 0: they have not.
  int64_t classes_in_order = 0;
  // The label in arrays that counts nothing: of places, or of examples, which are left out.
  std::optional<int64_t> ignored_label = std::nullopt;
  // For a network that also reads pictures: [H, W, C]; they have a column. Rank 0: it reads none.
  Shape picture = {};
  // For a network with several outputs: a target for each. Columns have the outputs' names, unless
  // `target` names those of each.
  std::vector<WantedTarget> outputs = {};
};

struct TableSchema {
  std::vector<TableColumn> columns;  // the inputs, in the order of their numbers
  TableColumn target;                // its categories are the classes; a number: regression
  // Further targets of the same kind: numbers, or labels, columns of two categories of which the
  // second is 1.
  std::vector<TableColumn> more_targets = {};
  std::optional<TextColumn> text = std::nullopt;  // the input, in place of columns
  std::string weights = {};  // the column of the rows' weights in training; "": none
  TableFormat format = {};   // of the files, without names
  // Arrays of numbers, [T, C] to [D, H, W, C] each; there is a column for each of the C channels.
  // Rank 0: rows.
  Shape shape = {};
  bool channels_first = false;  // in the arrays, [C, T] or [C, H, W]
  Shape label_shape = {};       // of an example's classes; [H, W]: one for each pixel
  // Labels are in an order, without places: label_shape [most], with -1 behind the last one.
  bool has_labels_in_order = false;
  std::vector<ArrayInput> inputs = {};  // arrays by their names, in place of columns
  std::optional<PictureColumn> picture = std::nullopt;  // another input, beside the columns
  // For a network with several outputs: the targets of each, without inputs, in place of those
  // above; and the output's name.
  std::vector<TableSchema> outputs = {};
  std::string output = {};

  bool has_named_inputs() const { return !inputs.empty(); }
  bool is_shaped() const { return shape.rank > 0; }
  bool is_regression() const { return outputs.empty() && target.is_number(); }
  bool has_labels() const { return !is_regression() && !more_targets.empty(); }
  std::vector<TableColumn> targets() const;
  // "a", or "a, b and c" of several.
  std::string target_names() const;
  // Numbers of a row, or tokens of its text; 0 of named inputs.
  int64_t features() const;
  // How files with these columns are read.
  TableFormat file_format() const;
};

// The schema as JSON, in a frozen network's description, and back. Real numbers survive exactly.
// Reading checks everything.
std::string to_json(const TableSchema& schema);
Result<TableSchema> parse_table_schema(std::string_view json);
// The same; "" if there is none.
std::string table_json(const std::optional<TableSchema>& schema);

// A number of a column as a mantissa: (x - mean) / deviation, to nearest, ties to even, clipped.
int16_t standardised(double number, const TableColumn& column, int exponent);

}  // namespace mantissa

// The data, and their form.
#include "data/tokenizers/sentence_piece.h"
#include "networks/network.h"
#include "run/settings/table/rows.h"

namespace mantissa {
namespace {

using namespace traits;

constexpr auto kTable = &Config::table;

// A number of pieces, or the file of a tokenizer.
Status parse_vocabulary(S name, S text, Config& config) {
  const bool is_number =
      text.empty() || text[0] == '-' || text.find_first_not_of("0123456789") == std::string::npos;
  config.vocabulary_file = is_number ? "" : text;
  config.vocabulary = 0;
  if (!is_number) return {};
  return parse_whole<kLeastPieces, kMostCharacters, &Config::vocabulary>(name, text, config);
}

const Setting kDataRows[] = {
    // The pictures themselves are in the identity.
    {"input-size",
     "size that pictures are brought to: 32, or 28x32 (height x width); 0: as they are, or 64 "
     "where they differ",
     "0", parse_by<parse_picture_size, &Config::input_size>,
     kRun | kInImport | kInInfo | kForPictures,
     [](const Config& c) { return to_string(c.input_size); }},
    {"target",
     "column of a table that is predicted (left out: one called label, target, class or y, or the "
     "last); of several outputs a column for each, or OUTPUT=COLUMN,COLUMN",
     "", parse_text<kTable, &TableChoices::target>,
     kIfGiven | kRun | kInData | kInInfo | kForTables, print_text<kTable, &TableChoices::target>},
    {"ignore", "columns of a table that are left out, with commas between them", "",
     parse_text<kTable, &TableChoices::ignore>, kIfGiven | kRun | kInData | kInInfo | kForTables,
     print_text<kTable, &TableChoices::ignore>},
    {"text-column",
     "column of texts that a network of texts reads (left out: one called text, or the only one)",
     "", parse_text<kTable, &TableChoices::text, &TextColumn::name>, kIfGiven | kSteps | kForTables,
     print_text<kTable, &TableChoices::text, &TextColumn::name>},
    {"row-weights",
     "column of a table with the weights of its rows in training, from 0 to 31; it is no input", "",
     parse_text<kTable, &TableChoices::weights>, kIfGiven | kSteps | kInData | kInInfo | kForTables,
     print_text<kTable, &TableChoices::weights>},
    {"task",
     "what is predicted of a table: classification, regression, or auto (texts and few whole "
     "numbers are classes, other numbers are numbers)",
     "auto", parse_by<parse_table_task, kTable, &TableChoices::task>,
     kIfGiven | kRun | kInData | kInInfo | kForTables | kForArrays,
     [](const Config& c) {
       return c.table.task == TableTask::kByTarget ? ""
                                                   : std::string(table_task_name(c.table.task));
     }},
    {"header",
     "whether the first row of a CSV file has the names of its columns: yes, no, or auto (by what "
     "stands below)",
     "auto", parse_by<parse_header, kTable, &TableChoices::format, &TableFormat::has_header>,
     kIfGiven | kRun | kInData | kInInfo | kForTables,
     [](const Config& c) {
       return c.table.format.has_header ? std::string(header_name(c.table.format.has_header)) : "";
     }},
    {"missing",
     "texts of a table that stand for missing values besides the usual ones, also in the target",
     "",
     [](S, S text, Config& c) {
       c.table.format.missing = parse_missing(text);
       return Status();
     },
     kList | kIfGiven | kRun | kInData | kInInfo | kForTables,
     [](const Config& c) { return missing_text(c.table.format.missing); }},
    {"decimal",
     "how a table's numbers are read that have two readings, as 1.642: point, comma (with points "
     "between thousands), or auto (as its other columns)",
     "auto", parse_by<parse_decimal, kTable, &TableChoices::decimal>,
     kIfGiven | kRun | kInData | kInInfo | kForTables,
     [](const Config& c) {
       return c.table.decimal == '\0' ? "" : std::string(decimal_name(c.table.decimal));
     }},
    {"channels",
     "where arrays of positions or pictures of numbers have their channels: last, [N, T, C], "
     "first, "
     "[N, C, T], or auto (where the network's shape fits)",
     "auto", parse_by<parse_channel_axis, kTable, &TableChoices::channel_axis>,
     kIfGiven | kRun | kInData | kInInfo | kForArrays,
     [](const Config& c) {
       return c.table.channel_axis == ChannelAxis::kByShape
                  ? ""
                  : std::string(channel_axis_name(c.table.channel_axis));
     }},
    {"ignore-label",
     "label in NPZ and NPY files that counts nothing, such as 255 in masks: of a pixel or "
     "position; "
     "examples with it as their one label are left out",
     "",
     [](S name, S text, Config& c) {
       return assign(parse_integer(name, text, 0, kMostIgnoredLabel), c.table.ignored_label);
     },
     kIfGiven | kRun | kInData | kInInfo | kForClasses,
     [](const Config& c) {
       return c.table.ignored_label ? std::to_string(*c.table.ignored_label) : "";
     }},
    {"classes", "outputs of the network, at least the classes of the data (0: as many)", "0",
     parse_whole<0, kMaxClasses, &Config::classes>,
     kIdentity | kRun | kInInfo | kOfSource | kForClasses, print_whole<&Config::classes>},
    {"positive",
     "class of pictures that is told from all others: its name or number; makes two classes", "",
     parse_text<&Config::positive>, kIdentity | kIfGiven | kRun | kForPictures,
     print_text<&Config::positive>},
    {"sequence",
     "tokens of an example, for language models of a text (left out: 128), or positions of an ONNX "
     "model that leaves them open",
     "", parse_whole<1, kLongestSequence, &Config::sequence>,
     kIdentity | kIfGiven | kSteps | kInBench | kInInfo, print_unless<0, &Config::sequence>},
    {"tokens",
     "tokens of a text: characters (UTF-8), bytes, or pieces of words: sentencepiece, wordpiece",
     "characters", parse_by<parse_tokens, &Config::tokens>, kIdentity | kIfGiven | kSteps | kInInfo,
     [](const Config& c) { return std::string(c.sequence == 0 ? "" : tokens_name(c.tokens)); }},
    {"vocabulary",
     "pieces of words to learn, with --tokens sentencepiece or wordpiece (left out: 4000), or with "
     "wordpiece the file of a tokenizer: vocab.txt or tokenizer.json; so also for texts with "
     "labels, where --from brings none",
     "", parse_vocabulary, kIdentity | kIfGiven | kSteps | kInInfo,
     [](const Config& c) {
       return c.vocabulary == 0 ? c.vocabulary_file : std::to_string(c.vocabulary);
     }},
    {"buckets",
     "lengths that batches of sentences, conversations, or texts with labels are padded to: "
     "similar "
     "ones go together, so that less of a step is padding (1: all are padded to --sequence)",
     "", parse_whole<1, 64, &Config::buckets>, kIdentity | kIfGiven | kSteps,
     [](const Config& c) { return c.buckets <= 1 ? "" : std::to_string(c.buckets); }},
    {"pack",
     "put several conversations into one sequence of a language model with rotary positions; they "
     "do not see each other, and less of a step is padding",
     "false", parse_switch<&Config::pack>, kSwitch | kIdentity | kIfGiven | kSteps,
     [](const Config& c) { return std::string(c.pack ? "true" : ""); }},
    {"tied", "let a language model's classifier have the weights of its embedding", "false",
     parse_switch<&Config::tied>,
     kSwitch | kIdentity | kIfGiven | kSteps | kInInfo | kOfBuiltIn | kOfSource,
     [](const Config& c) { return of_built_in(c, c.tied ? "true" : ""); }},
};

}  // namespace

std::span<const Setting> data_rows() { return kDataRows; }

}  // namespace mantissa

// The columns and classes that the weights of a trained network were made for, in the data of a run
// that starts from these weights.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/tables/table_schema.h"

namespace mantissa {

struct LearnedData {
  std::string source = {};                 // the file, for messages
  std::optional<TableSchema> table = {};   // of networks of tables and arrays
  std::vector<std::string> classes = {};   // names, in the order of the results
  // Nothing is trained before the network is used: it has the columns, classes and units of the
  // source, or there is an error. Else other classes and numbers are learned anew.
  bool is_exact = false;
  int64_t features = 0;  // that a network from a file reads of a row; 0: as many as there are

  bool is_known() const { return table || !classes.empty(); }
};

// The known columns and targets in place of those that training rows gave: their order, means,
// deviations and categories. `names`: the columns of the file that may be read. Columns that the
// network does not read are left out, with a note. A network that is built for the data keeps their
// own columns if these are other ones, of another number. An error if columns are missing, or, if it
// is exact, for another target.
Status take_learned_columns(const LearnedData& learned, const std::vector<std::string>& names,
                            TableSchema& schema, std::vector<std::string>& notes);

// The same for arrays of numbers, whose channels have no names.
Status take_learned_channels(const LearnedData& learned, TableSchema& schema);

// For each class of data without columns, its number in the source; empty: the numbers stay. `names`
// become those of the source if the numbers change, or if it is exact and some classes are missing.
// An error, if it is exact, for other classes.
Result<std::vector<Label>> take_learned_classes(const LearnedData& learned, bool are_named,
                                                const std::string& data,
                                                std::vector<std::string>& names);

// The first difference between the inputs of two schemas, as they reach a network: "the column 'a'
// has the mean 1 there, and 2 here"; "" if there is none.
std::string differing_columns(const TableSchema& there, const TableSchema& here);

// The same for names of classes. Names that are numbers alone tell nothing.
std::string differing_classes(const std::vector<std::string>& there,
                              const std::vector<std::string>& here);

}  // namespace mantissa

// Tables with a column of paths to pictures, beside columns of numbers and categories.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/datasets/readers.h"
#include "data/readers/table_reader.h"

namespace mantissa {

// Finds the columns as inspect_table does, and the column of pictures: the first whose training
// file has a picture's name in its first row. Pictures that cannot be read are listed. Errors name
// the file: no such column.
Status inspect_picture_table(OpenRows open, const DataOptions& options, FoundData& found);

// Reads the rows of a split, and their pictures, brought to the size that the schema says. Errors
// name the line or the picture: none, one that cannot be read.
Result<ExampleSet> read_picture_table(OpenRows open, const FoundData& found,
                                      const FoundSplit& split, const ReadOptions& options);

// Appends the pictures of these files, which lie below the folder.
Status append_pictures(const std::filesystem::path& folder, std::span<const std::string> files,
                       const PictureColumn& column, int threads, std::vector<uint8_t>& pixels);

// The path in a row's column of pictures; an error that names the line if there is none.
Result<std::string> picture_path(const TableField& field, const PictureColumn& column,
                                 const TableRows& rows);

}  // namespace mantissa

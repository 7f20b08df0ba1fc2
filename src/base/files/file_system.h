// Tells the kind of file at a path. "Not there" and "unknown" are different answers: code that
// confuses them deletes or overwrites a file that a failing disk did not show.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace mantissa {

// Linux moves at most 2 GiB - 4 KiB in one call.
constexpr size_t kMaxTransfer = size_t{1} << 30;

// "cannot ACTION 'PATH': REASON", the reason from an errno.
std::string file_message(const char* action, const std::filesystem::path& path, int reason);

// The same as an error: invalid input if another path or other permissions would help, else (a
// failing disk, no descriptors left, ...) a failure.
Error file_error(const char* action, const std::filesystem::path& path, int reason,
                 SourceLocation where = SourceLocation::current());

enum class PathKind { kNothing, kFile, kFolder, kOther };

// Links are followed; one that dangles is nothing.
Result<PathKind> path_kind(const std::filesystem::path& path);

Result<bool> is_there(const std::filesystem::path& path);

// The names in a folder, sorted. A folder that is not there is an error, as is one that can be
// listed in part.
Result<std::vector<std::string>> list_names(const std::filesystem::path& folder);

// Makes a folder, and those above it. One that is there already is as good.
Status make_folder(const std::filesystem::path& folder);

// Removes a file, or a link to one. A missing file counts as removed.
Status remove_file(const std::filesystem::path& path);

}  // namespace mantissa

// Files of pictures below a folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace mantissa {

struct PictureFiles {
  std::vector<std::filesystem::path> files;  // in the order of their paths, byte by byte
  int64_t others = 0;                        // files that are not named as pictures
  std::filesystem::path first_other;         // one of them
};

// All files below a folder whose names end as those of pictures (has_image_name). Names that begin
// with a dot are passed over; links to folders are not followed. An error if a folder cannot be
// read, or there are 2^32 files or more.
Result<PictureFiles> find_pictures(const std::filesystem::path& folder);

// What came of a call for each of many pictures.
struct PictureResults {
  std::vector<std::string> errors;  // [count]: the message of each call's error, "" without one
  std::optional<Error> failure;     // the first of them that is not the fault of a file
  std::string shortage;             // of threads: a line where there were fewer than asked for
};

// Calls work(i) for each i in [0, count) on that many threads. An exception of `work` is the error
// that memory is short.
PictureResults for_each_picture(int64_t count, int threads,
                                const std::function<Status(int64_t)>& work);

}  // namespace mantissa

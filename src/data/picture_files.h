// Files of pictures below a folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
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

// Calls work(i) for each i in [0, count) on that many threads. Gives the message of each call's
// error ("" where it succeeded); an exception of `work` is the error that memory is short.
std::vector<std::string> for_each_picture(int64_t count, int threads,
                                          const std::function<Status(int64_t)>& work);

}  // namespace mantissa

#include "data/picture_files.h"

#include <algorithm>
#include <exception>
#include <limits>

#include "base/thread_pool.h"
#include "formats/image.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with("."); }

}  // namespace

Result<PictureFiles> find_pictures(const fs::path& folder) {
  PictureFiles found;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code ignored;
    if (is_hidden(entry->path())) {
      if (entry->is_directory(ignored)) entry.disable_recursion_pending();
    } else if (entry->is_regular_file(ignored)) {
      if (has_image_name(entry->path())) {
        found.files.push_back(entry->path());
      } else if (found.others++ == 0 || entry->path() < found.first_other) {
        found.first_other = entry->path();
      }
    }
  }
  if (error) {
    return invalid_input("'" + folder.string() + "' cannot be listed: " + error.message());
  }
  if (found.files.size() >= std::numeric_limits<uint32_t>::max()) {
    return invalid_input("'" + folder.string() + "': 2^32 pictures or more");
  }
  std::sort(found.files.begin(), found.files.end(),
            [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  return found;
}

PictureResults for_each_picture(int64_t count, int threads,
                                const std::function<Status(int64_t)>& work) {
  PictureResults results;
  results.errors.resize(static_cast<size_t>(count));
  std::vector<std::optional<ErrorCode>> codes(static_cast<size_t>(count));
  ThreadPool pool(threads);
  results.shortage = pool.shortage();
  pool.parallel_for(count, [&](int64_t i, int) {
    const auto place = static_cast<size_t>(i);
    try {
      Status status = work(i);
      if (status.ok()) return;
      codes[place] = status.error().code;
      results.errors[place] = std::move(status.error().message);
    } catch (const std::exception&) {
      codes[place] = ErrorCode::kFailed;  // without memory there is none for a message either
    }
  });
  for (size_t i = 0; i < codes.size(); ++i) {
    if (!codes[i]) continue;
    std::string& error = results.errors[i];
    if (error.empty()) error = "the memory is too small to read pictures";
    if (*codes[i] != ErrorCode::kInvalidInput && !results.failure) {
      results.failure = make_error(*codes[i], error);
    }
  }
  return results;
}

}  // namespace mantissa

#include "data/pictures/picture_files.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <system_error>

#include "base/files/file_system.h"
#include "base/system/thread_pool.h"
#include "formats/pictures/image.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostNamed = 3;  // of files not read for one reason

// By NotRead.
constexpr std::array kReasons = {
    "not named as PNG or JPEG pictures",
    "links that lead nowhere",
    "links to folders, which are followed to classes only",
    "pictures that lie in no class folder: they have no label",
    "folders without pictures, which are no classes",
    "folders beside those that are read",
};
static_assert(kReasons.size() == static_cast<size_t>(NotRead::kCount));

// Adds an entry to its list. An entry that cannot be examined is an error, unless it has a
// picture's name: then reading it gives the reason.
Status add_entry(const fs::directory_entry& entry, FolderEntries& found) {
  const fs::path& path = entry.path();
  std::string name = path.filename().string();
  if (name.starts_with(".")) return {};
  std::error_code error;
  if (entry.is_directory(error)) {  // type from the listing: no look at each file
    const bool linked = entry.is_symlink(error);
    (linked ? found.linked_folders : found.folders).push_back(std::move(name));
  } else if (has_image_name(path)) {
    found.pictures.push_back(std::move(name));
  } else if (!error) {
    found.others.add(NotRead::kOtherName, path);
  } else if (error == std::errc::no_such_file_or_directory ||
             error == std::errc::too_many_symbolic_link_levels) {
    found.others.add(NotRead::kLostLink, path);
  } else {
    return file_error("examine", path, error.value());
  }
  return {};
}

Status find_below(const fs::path& folder, const std::string& prefix, PictureFiles& found) {
  MANTISSA_ASSIGN(FolderEntries entries, list_folder(folder / prefix));
  for (const std::string& name : entries.pictures) found.files.push_back(prefix + name);
  for (const std::string& name : entries.linked_folders) {
    found.others.add(NotRead::kLinkedFolder, folder / (prefix + name));
  }
  found.others.add(entries.others);
  for (const std::string& name : entries.folders) {
    MANTISSA_RETURN_IF_ERROR(find_below(folder, prefix + name + "/", found));
  }
  return {};
}

}  // namespace

void PassedOver::add(Group& group, int64_t count, const std::vector<std::string>& names) {
  group.count += count;
  group.first.insert(group.first.end(), names.begin(), names.end());
  std::sort(group.first.begin(), group.first.end());
  group.first.resize(std::min(group.first.size(), kMostNamed));
}

void PassedOver::add(NotRead reason, const fs::path& path) {
  add(groups_[static_cast<size_t>(reason)], 1, {path.string()});
}

void PassedOver::add(const PassedOver& others) {
  for (size_t i = 0; i < groups_.size(); ++i) {
    add(groups_[i], others.groups_[i].count, others.groups_[i].first);
  }
}

std::vector<std::string> PassedOver::notes() const {
  std::vector<std::string> notes;
  for (size_t i = 0; i < groups_.size(); ++i) {
    const Group& group = groups_[i];
    if (group.count == 0) continue;
    std::string note = "passed over " + std::to_string(group.count) + " " + kReasons[i] + ": ";
    for (size_t k = 0; k < group.first.size(); ++k) {
      note += (k == 0 ? "'" : ", '") + group.first[k] + "'";
    }
    const bool all = group.count == static_cast<int64_t>(group.first.size());
    notes.push_back(note + (all ? "" : ", ..."));
  }
  return notes;
}

Result<FolderEntries> list_folder(const fs::path& folder) {
  FolderEntries found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    MANTISSA_RETURN_IF_ERROR(add_entry(*entry, found));
  }
  if (error) return file_error("list", folder, error.value());
  for (auto* names : {&found.folders, &found.linked_folders, &found.pictures}) {
    std::sort(names->begin(), names->end());
  }
  return found;
}

Result<PictureFiles> find_pictures(const fs::path& folder) {
  PictureFiles found;
  MANTISSA_RETURN_IF_ERROR(find_below(folder, "", found));
  if (found.files.size() >= std::numeric_limits<uint32_t>::max()) {
    return invalid_input("'" + folder.string() + "': 2^32 pictures or more");
  }
  std::sort(found.files.begin(), found.files.end());
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

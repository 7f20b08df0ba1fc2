// Files of pictures below a folder, and the other files beside them.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace mantissa {

// Why something in a folder is not read.
enum class NotRead {
  kOtherName,     // files that are not named as pictures
  kLostLink,      // links that lead nowhere
  kLinkedFolder,  // links to folders, inside a class
  kUnlabelled,    // pictures that lie in no folder of a class
  kEmptyFolder,   // folders without pictures among the classes
  kOtherFolder,   // folders beside the splits
  kCount
};

// The files that are not read: how many for each reason, and the first of them by name.
class PassedOver {
 public:
  void add(NotRead reason, const std::filesystem::path& path);
  void add(const PassedOver& others);

  // A line for each reason that there is, with all names if they are few.
  std::vector<std::string> notes() const;

 private:
  struct Group {
    int64_t count = 0;
    std::vector<std::string> first;
  };
  void add(Group& group, int64_t count, const std::vector<std::string>& names);
  std::array<Group, static_cast<size_t>(NotRead::kCount)> groups_;
};

// The entries of a folder, by name, sorted byte by byte. Names that begin with a dot are hidden.
struct FolderEntries {
  std::vector<std::string> folders;
  std::vector<std::string> linked_folders;  // links to folders
  std::vector<std::string> pictures;        // by name only: reading tells what each is
  PassedOver others;
};

// Lists a folder. An error if it or an entry cannot be looked at.
Result<FolderEntries> list_folder(const std::filesystem::path& folder);

struct PictureFiles {
  std::vector<std::string> files;  // paths below the folder, sorted byte by byte
  PassedOver others;
};

// All files below a folder with a picture's name (has_image_name). Links to folders are not
// followed. An error if a folder cannot be listed, or if there are 2^32 pictures or more.
Result<PictureFiles> find_pictures(const std::filesystem::path& folder);

// The results of a call for each of many pictures.
struct PictureResults {
  std::vector<std::string> errors;  // [count]: the message of each call's error, "" without one
  std::optional<Error> failure;     // the first that is not the fault of a file
  std::string shortage;             // of threads: a line if there were fewer than asked for
};

// Calls work(i) for each i in [0, count) on that many threads. An exception of `work` is the error
// that memory is short.
PictureResults for_each_picture(int64_t count, int threads,
                                const std::function<Status(int64_t)>& work);

}  // namespace mantissa

// The folders of pictures that are classes, and the split of each.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/datasets/class_folders.h"

namespace mantissa {

struct FolderLayout {
  ClassFolders train, validation, test;  // the last two have no root if they are missing
  std::vector<std::string> notes;        // notes for the user, a line each
};

// Folders named as splits (split_of) hold folders of classes. If no such folder has training
// pictures, all folders are classes. Without a test folder the validation folder is taken for it.
// Errors: a folder cannot be listed; two folders for one split; a test or validation folder without
// training pictures; errors of check_classes.
Result<FolderLayout> find_layout(const std::filesystem::path& folder);

}  // namespace mantissa

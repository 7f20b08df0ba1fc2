// Trained parameters as a file in memory, for those who send them on.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "api/outcome.h"
#include "base/files/atomic_file.h"
#include "base/wildcard.h"
#include "mantissa/runs.h"
#include "run/settings/starting_point.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

bool fits(const std::vector<std::string_view>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](std::string_view pattern) { return matches_wildcard(pattern, name); });
}

// A file that goes when this object goes.
class TemporaryFile {
 public:
  Status create() {
    std::string name = (fs::temp_directory_path() / "mantissa-parameters-XXXXXX").string();
    const int file = mkstemp(name.data());
    if (file < 0) return failed("cannot make a temporary file in " + name);
    close(file);
    path_ = name;
    return {};
  }
  ~TemporaryFile() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

Outcome<ParameterFile> trained_parameters(const std::string& path, const std::string& patterns) {
  MANTISSA_ASSIGN(const TrainedFile trained, read_trained(path));
  const std::vector<std::string_view> list =
      split_patterns(patterns.empty() ? std::string_view("*") : std::string_view(patterns));
  std::vector<NamedParameter> taken;
  for (const NamedParameter& parameter : trained.parameters) {
    if (fits(list, parameter.name)) taken.push_back(parameter);
  }
  if (taken.empty()) {
    return invalid_input("'" + patterns + "' fits no parameter; the first is " +
                         (trained.parameters.empty() ? "none" : trained.parameters[0].name));
  }
  StartEntries entries{.source = trained.source};
  // A part of the parameters may start a network of other tokens.
  if (taken.size() == trained.parameters.size()) {
    MANTISSA_ASSIGN(entries.vocabulary, vocabulary_of(trained));
    entries.tokenizer = trained.tokenizer;
    entries.learned = trained.learned;
  }
  TemporaryFile file;
  MANTISSA_RETURN_IF_ERROR(file.create());
  MANTISSA_RETURN_IF_ERROR(write_start(file.path(), entries, taken));
  MANTISSA_ASSIGN(const auto bytes, read_file(file.path(), INT64_MAX));
  std::string content(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return ParameterFile{std::move(content), std::ssize(taken)};
}

}  // namespace mantissa

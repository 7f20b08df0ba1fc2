#include "cli/launch/status.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <fstream>
#include <utility>

namespace mantissa::cli {

StatusFile::StatusFile(std::string path) : path_(std::move(path)) { std::ofstream made(path_); }

bool StatusFile::is_there() const { return access(path_.c_str(), F_OK) == 0; }

void StatusFile::read() {
  std::ifstream file(path_);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  if (!lines.empty()) lines_ = std::move(lines);
}

std::string StatusFile::line_of(int process) const {
  const auto at = static_cast<size_t>(process);
  return at < lines_.size() ? lines_[at] : "process " + std::to_string(process);
}

timespec StatusFile::changed() const {
  struct stat status = {};
  stat(path_.c_str(), &status);
  return status.st_mtim;
}

int64_t StatusFile::size() const {
  struct stat status = {};
  return stat(path_.c_str(), &status) == 0 ? status.st_size : 0;
}

std::vector<pid_t> children_of(pid_t parent) {
  const std::string id = std::to_string(parent);
  std::ifstream file("/proc/" + id + "/task/" + id + "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

bool is_frozen(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t end = text.rfind(") ");  // of the name
  return end != std::string::npos && end + 2 < text.size() && std::tolower(text[end + 2]) == 't';
}

}  // namespace mantissa::cli

#include "base/system/memory_limit.h"

#include <charconv>
#include <fstream>
#include <string_view>

namespace mantissa {
namespace {

namespace fs = std::filesystem;

// The whole number that `text` begins with, -1 for none ("max") and for more than fits.
int64_t number_in(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} ? value : -1;
}

void take_lower(int64_t bytes, const fs::path& source, MemoryLimit& limit) {
  if (bytes < 0 || (!limit.source.empty() && bytes >= limit.bytes)) return;
  limit = {bytes, source.string()};
}

void read_machine(const fs::path& meminfo, MemoryLimit& limit) {
  constexpr std::string_view kKey = "MemTotal:";
  std::ifstream file(meminfo);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kKey)) continue;
    const int64_t kib = number_in(std::string_view(line).substr(kKey.size()));
    if (kib > 0 && kib < int64_t{1} << 50) take_lower(kib * 1024, meminfo, limit);
  }
}

// The file of a group, and of all groups above it up to `top`. A container may see only some.
void read_groups(const fs::path& top, const std::string& group, const char* name,
                 MemoryLimit& limit) {
  fs::path below = fs::path(group).relative_path().lexically_normal();
  if (!below.empty() && *below.begin() == "..") below.clear();  // outside the visible part
  for (;; below = below.parent_path()) {
    const fs::path path = top / below / name;
    std::ifstream file(path);
    std::string text;
    if (std::getline(file, text)) take_lower(number_in(text), path, limit);
    if (below.empty()) return;
  }
}

// Whether a list such as "cpu,memory" has memory.
bool has_memory(std::string_view controllers) {
  for (std::string_view rest = controllers; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find(','));
    if (one == "memory") return true;
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
  }
  return false;
}

}  // namespace

MemoryLimit memory_limit(const fs::path& proc, const fs::path& cgroups) {
  MemoryLimit limit;
  read_machine(proc / "meminfo", limit);
  std::ifstream file(proc / "self" / "cgroup");
  // Lines "NUMBER:CONTROLLERS:GROUP": version 2 has number 0 and no controllers.
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      read_groups(cgroups, group, "memory.max", limit);
    } else if (has_memory(controllers)) {
      read_groups(cgroups / "memory", group, "memory.limit_in_bytes", limit);
    }
  }
  return limit;
}

}  // namespace mantissa

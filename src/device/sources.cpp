#include "device/sources.h"

#include <algorithm>
#include <map>
#include <set>

namespace mantissa::device {
namespace {

constexpr std::string_view kInclude = "#include \"";

// The paths of the files that a source includes by quotes, in order.
std::vector<std::string_view> includes(std::string_view text) {
  std::vector<std::string_view> found;
  for (size_t at = text.find(kInclude); at != text.npos; at = text.find(kInclude, at)) {
    at += kInclude.size();
    found.push_back(text.substr(at, text.find('"', at) - at));
  }
  return found;
}

// Removes REF_CXX(...) and the blank before it.
void remove_cxx_values(std::string& line) {
  constexpr std::string_view kValue = "REF_CXX(";
  for (size_t at = line.find(kValue); at != line.npos; at = line.find(kValue)) {
    size_t end = at + kValue.size();
    for (int depth = 1; depth > 0 && end < line.size(); ++end) {
      depth += line[end] == '(' ? 1 : line[end] == ')' ? -1 : 0;
    }
    const size_t begin = at > 0 && line[at - 1] == ' ' ? at - 1 : at;
    line.erase(begin, end - begin);
  }
}

}  // namespace

std::string without_cxx(std::string_view text) {
  // Of each open #if: whether it asks for C++, and whether its current part is left out.
  struct Branch {
    bool asks_for_cxx;
    bool left_out;
  };
  std::vector<Branch> open;
  const auto left_out = [&] { return std::ranges::any_of(open, &Branch::left_out); };
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line(text.substr(at, end - at));
    at = end + 1;
    bool is_own = false;  // a line of a conditional on C++
    if (line.starts_with("#if")) {
      is_own = line == "#ifdef __cplusplus";
      open.push_back({is_own, is_own});
    } else if (line.starts_with("#else") && !open.empty()) {
      is_own = open.back().asks_for_cxx;
      if (is_own) open.back().left_out = false;
    } else if (line.starts_with("#endif") && !open.empty()) {
      is_own = open.back().asks_for_cxx;
      if (is_own) {
        open.pop_back();
        continue;
      }
      if (!left_out()) result += line + "\n";
      open.pop_back();
      continue;
    }
    if (is_own || left_out()) continue;
    if (!line.starts_with("#define")) remove_cxx_values(line);
    result += line + "\n";
  }
  return result;
}

std::vector<SourceFile> sources_of(std::span<const std::string> headers) {
  std::map<std::string_view, std::string_view> texts;
  std::multimap<std::string_view, std::string_view> sources;  // by the header that they implement
  for (const auto& [path, text] : source_texts()) {
    texts[path] = text;
    const auto included = includes(text);
    if (path.ends_with(".c") && !included.empty()) sources.emplace(included[0], path);
  }
  std::set<std::string_view> wanted;
  std::vector<std::string_view> open(headers.begin(), headers.end());
  while (!open.empty()) {
    const std::string_view path = open.back();
    open.pop_back();
    const auto found = texts.find(path);
    if (found == texts.end() || !wanted.insert(found->first).second) continue;
    for (const std::string_view header : includes(found->second)) open.push_back(header);
    const auto [first, last] = sources.equal_range(path);
    for (auto source = first; source != last; ++source) open.push_back(source->second);
  }
  std::vector<SourceFile> files;
  for (const std::string_view path : wanted) {
    files.push_back({std::string(path), without_cxx(texts[path])});
  }
  return files;
}

}  // namespace mantissa::device

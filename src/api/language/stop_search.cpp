#include "api/language/stop_search.h"

#include <algorithm>
#include <string_view>

namespace mantissa {

std::string StopSearch::add(const std::string& piece) {
  if (has_found_) return "";
  held_ += piece;
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  if (first != std::string::npos) {
    has_found_ = true;
    std::string before = held_.substr(0, first);
    held_.clear();
    return before;
  }
  size_t sure = held_.size();
  for (const std::string& stop : stops_) {
    for (size_t count = std::min(stop.size() - 1, held_.size()); count > 0; --count) {
      if (!std::string_view(held_).ends_with(std::string_view(stop).substr(0, count))) continue;
      sure = std::min(sure, held_.size() - count);
      break;
    }
  }
  std::string before = held_.substr(0, sure);
  held_.erase(0, sure);
  return before;
}

std::string StopSearch::rest() { return std::exchange(held_, ""); }

}  // namespace mantissa

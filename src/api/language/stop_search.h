// Texts that end an answer.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace mantissa {

// Looks for stop texts in a text that comes in pieces. What may be the beginning of one is held
// back.
class StopSearch {
 public:
  explicit StopSearch(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // The text that is sure to come before any stop text.
  std::string add(const std::string& piece);
  // The text that was held back, at the end; empty if a stop text was found.
  std::string rest();
  bool has_found() const { return has_found_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool has_found_ = false;
};

}  // namespace mantissa

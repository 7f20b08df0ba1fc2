// Names of nodes that share one text, such as a reason against them: messages say it once.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace mantissa::onnx {

// In the order of each text's first name.
using NamesByText = std::vector<std::pair<std::string, std::vector<std::string>>>;

inline void add_name(NamesByText& groups, const std::string& text, std::string name) {
  auto group = std::find_if(groups.begin(), groups.end(),
                            [&](const auto& entry) { return entry.first == text; });
  if (group == groups.end()) group = groups.insert(groups.end(), {text, {}});
  group->second.push_back(std::move(name));
}

}  // namespace mantissa::onnx

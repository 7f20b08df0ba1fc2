#include "cli/command_line/suggest.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace mantissa::cli {
namespace {

// Damerau-Levenshtein distance (optimal string alignment): insertions, deletions, replacements and
// swaps of neighbours.
int distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> cost(a.size() + 1, std::vector<int>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = static_cast<int>(i + j);
        continue;
      }
      const int replace = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replace});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

// "learning-rate" -> "lr".
std::string initials(std::string_view name) {
  std::string letters;
  for (size_t i = 0; i < name.size(); ++i) {
    if (i == 0 || name[i - 1] == '-') letters += name[i];
  }
  return letters;
}

// In the form that names have: lower case, words joined by '-'.
std::string kebab(std::string_view word) {
  std::string result;
  for (const char c : word.substr(0, 40)) {
    result += c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

// How far apart they are; 0 for the same word written differently, -1 for unrelated.
int rank(const std::string& word, const std::string& name) {
  const int edits = distance(word, name);
  if (edits == 0) return 0;
  if (word.size() >= 2 && (initials(name) == word || name.starts_with(word))) return 1;
  if (edits <= 1 + static_cast<int>(std::min(word.size(), name.size())) / 5) return edits + 1;
  // A part of the name: "--rate".
  if (word.size() >= 4 && name.find(word) != std::string::npos) return 4;
  return -1;
}

}  // namespace

std::vector<std::string> near_misses(std::string_view word,
                                     const std::vector<std::string>& candidates) {
  const std::string wanted = kebab(word);
  std::vector<std::pair<int, std::string>> ranked;
  for (const std::string& name : candidates) {
    if (const int r = rank(wanted, name); r >= 0) ranked.emplace_back(r, name);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (const auto& [r, name] : ranked) {
    if (names.size() < 2 && r == ranked.front().first) names.push_back(name);
  }
  return names;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates,
                         std::string_view prefix) {
  std::string text;
  for (const std::string& name : near_misses(word, candidates)) {
    text += (text.empty() ? "; did you mean " : " or ") + std::string(prefix) + name;
  }
  return text.empty() ? "" : text + "?";
}

}  // namespace mantissa::cli

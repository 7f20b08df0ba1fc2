#include <algorithm>

#include "base/files/text_file.h"
#include "infer/text/embed.h"

namespace mantissa {

Result<std::vector<std::string>> read_sentences(const std::filesystem::path& path) {
  constexpr int64_t kMostBytes = int64_t{1} << 30;
  MANTISSA_ASSIGN(const std::string text, read_text_file(path, kMostBytes));
  if (text.empty()) return invalid_input(path.string() + ": is empty");
  std::vector<std::string> sentences;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::string subject =
        path.string() + ", line " + std::to_string(sentences.size() + 1) + ": ";
    if (std::ssize(line) > kMostSentenceBytes) {
      return invalid_input(subject + "has " + std::to_string(line.size()) + " bytes; at most " +
                           std::to_string(kMostSentenceBytes) + " are read as a sentence");
    }
    if (line.find('\0') != std::string_view::npos) {
      return invalid_input(subject + "has a NUL byte, so it is no text");
    }
    sentences.emplace_back(line);
    at = end + 1;
  }
  return sentences;
}

}  // namespace mantissa

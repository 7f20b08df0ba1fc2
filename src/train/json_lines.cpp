#include "train/json_lines.h"

#include <nlohmann/json.hpp>
#include <span>

#include "base/atomic_file.h"

namespace mantissa {

std::optional<int64_t> step_of(const nlohmann::json& line) {
  constexpr uint64_t kLargest = uint64_t{1} << 53;
  const auto step = line.find("step");
  if (step == line.end() || !step->is_number_unsigned()) return std::nullopt;
  if (step->get<uint64_t>() > kLargest) return std::nullopt;
  return step->get<int64_t>();
}

Result<JsonLines> JsonLines::open(const std::filesystem::path& path, int64_t last_step) {
  std::string kept, first, last;
  {
    std::ifstream old(path);
    std::string line;
    while (std::getline(old, line)) {
      const auto json = nlohmann::json::parse(line, nullptr, false);
      if (!json.is_object()) break;
      const auto step = step_of(json);
      if (!step || *step > last_step) break;
      kept += line + "\n";
      if (first.empty()) first = line;
      last = line;
    }
  }
  MANTISSA_RETURN_IF_ERROR(write_text_atomically(path, kept));
  std::ofstream file(path, std::ios::app);
  if (!file) return failed(path.string() + ": cannot be written");
  return JsonLines(path, std::move(file), std::move(first), std::move(last));
}

Status JsonLines::write(const nlohmann::ordered_json& line) {
  file_ << line.dump() << '\n' << std::flush;
  if (!file_) return failed(path_.string() + ": cannot be written (is the disk full?)");
  return {};
}

}  // namespace mantissa

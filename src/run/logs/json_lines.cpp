#include "run/logs/json_lines.h"

#include <nlohmann/json.hpp>

#include "base/files/file_system.h"
#include "base/files/line_reader.h"
#include "formats/json_text.h"

namespace mantissa {
namespace {

// The lines of a file that are kept, which stand at its start.
struct Kept {
  std::string first, last;
  int64_t last_step = 0;
  int64_t bytes = 0;
};

Result<Kept> find_kept(const std::filesystem::path& path, int64_t last_step) {
  Kept kept;
  MANTISSA_ASSIGN(const bool there, is_there(path));
  if (!there) return kept;
  MANTISSA_ASSIGN(LineReader reader, LineReader::open(path));
  int64_t cut_line = 0;  // the first to be cut
  while (true) {
    MANTISSA_ASSIGN(const auto line, reader.next());
    if (!line) return kept;
    const auto json = parse_json(*line);
    const auto step = json.is_object() ? step_of(json) : std::nullopt;
    if (!step || *step > last_step) {
      if (cut_line == 0) cut_line = reader.lines();
      continue;
    }
    if (cut_line > 0) {
      return invalid_input("'" + path.string() + "', line " + std::to_string(cut_line) +
                           ": damaged, with good lines behind it (step " + std::to_string(*step) +
                           "): mend it, or remove the file to go on without what it says");
    }
    if (kept.first.empty()) kept.first = *line;
    kept.last = *line;
    kept.last_step = *step;
    kept.bytes = reader.bytes();
  }
}

}  // namespace

std::optional<int64_t> step_of(const nlohmann::json& line) {
  constexpr uint64_t kLargest = uint64_t{1} << 53;
  const auto step = line.find("step");
  if (step == line.end() || !step->is_number_unsigned()) return std::nullopt;
  if (step->get<uint64_t>() > kLargest) return std::nullopt;
  return step->get<int64_t>();
}

Result<JsonLines> JsonLines::open(const std::filesystem::path& path, int64_t last_step,
                                  int64_t every) {
  MANTISSA_ASSIGN(Kept kept, find_kept(path, last_step));
  MANTISSA_ASSIGN(OutputFile file, OutputFile::open(path, kept.bytes));
  JsonLines lines(std::move(file));
  lines.first_ = std::move(kept.first);
  lines.last_ = std::move(kept.last);
  if (last_step / every > kept.last_step / every) {
    lines.gap_ = path.string() + " has no lines between step " + std::to_string(kept.last_step) +
                 " and step " + std::to_string(last_step) + ", where this run goes on";
  }
  return lines;
}

Status JsonLines::write(const nlohmann::ordered_json& line) {
  return file_.write(line.dump() + "\n");
}

}  // namespace mantissa

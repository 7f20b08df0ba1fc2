#include "report/verify.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/checked.h"
#include "base/files/atomic_file.h"
#include "base/files/file_system.h"
#include "formats/json_text.h"
#include "run/logs/hash_log.h"
#include "run/settings/config_file.h"
#include "run/settings/run_config.h"
#include "run/settings/run_folder.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr int64_t kLargestVerifiedBytes = int64_t{2} << 30;

bool is_texts(const OrderedJson& list) {
  return list.is_array() && std::all_of(list.begin(), list.end(),
                                        [](const OrderedJson& item) { return item.is_string(); });
}

// Steps between the lines of a run in a folder, as its configuration has them; 0 where that does
// not say it.
Result<int64_t> steps_between_hashes(const fs::path& run) {
  MANTISSA_ASSIGN(const bool there, is_there(run / kConfigFile));
  if (!there) return int64_t{0};
  MANTISSA_ASSIGN(const ConfigFile config, read_config(run / kConfigFile));
  const auto settings = config.all();
  const auto every = settings.find("hash-every");
  if (every == settings.end()) return int64_t{0};
  return parse_integer(every->first, every->second, 0, INT64_MAX);
}

// The place of missing lines in a run that hashed its state before the first step and then every
// `every` steps. If `every` is 0, the smallest distance of lines counts, without the last line,
// which may come early. An asynchronous pipeline is at rest every `drain_every` steps. It hashes at
// the first rest at or after the due step. Empty if none are missing.
std::string missing_lines(const std::vector<int64_t>& steps, int64_t every, int64_t drain_every) {
  if (steps.front() > 0) return "before step " + std::to_string(steps.front());
  const size_t regular = every > 0 ? 0 : std::max<size_t>(2, steps.size() - 1);
  for (size_t i = 1; i < std::min(regular, steps.size()); ++i) {
    const int64_t distance = steps[i] - steps[i - 1];
    every = i == 1 ? distance : std::min(every, distance);
  }
  for (size_t i = 1; i < steps.size(); ++i) {
    const int64_t due = drain_every > 0 ? round_up((steps[i - 1] / every + 1) * every, drain_every)
                                        : steps[i - 1] + every;
    if (steps[i] <= due) continue;
    return "between step " + std::to_string(steps[i - 1]) + " and step " + std::to_string(steps[i]);
  }
  return "";
}

// A line of the file; the first one also has identity and tensors.
struct HashLine {
  int64_t step = 0, drain_every = 0;
  std::string run_identity;
  std::vector<std::string> tensors, digests;
};

// Reads hashes.jsonl line by line, and checks its chain on the way.
class HashReader {
 public:
  static Result<HashReader> open(const fs::path& path) {
    MANTISSA_ASSIGN(const PathKind kind, path_kind(path));
    const bool folder = kind == PathKind::kFolder;
    const fs::path file = folder ? path / kHashesFile : path;
    MANTISSA_ASSIGN(const bool there, is_there(file));
    if (folder && !there) {
      return invalid_input(file.string() +
                           ": is not there: no run, or one that was trained with --hash-every 0");
    }
    MANTISSA_ASSIGN(auto bytes, read_file(file, kLargestVerifiedBytes));
    HashReader reader(file, std::move(bytes));
    if (folder) {
      MANTISSA_ASSIGN(reader.every_, steps_between_hashes(path));
    }
    MANTISSA_ASSIGN(const auto first, reader.next());
    if (!first) return invalid_input(file.string() + ": has no complete line");
    reader.current_ = *first;
    reader.header_ = *first;
    reader.steps_ = {first->step};
    if (first->run_identity.empty() || first->tensors.empty()) {
      return reader.damaged("names no run and no tensors");
    }
    return reader;
  }

  const fs::path& path() const { return path_; }
  fs::path folder() const { return path_.parent_path(); }
  const HashLine& header() const { return header_; }
  const std::optional<HashLine>& current() const { return current_; }

  Status advance() {
    MANTISSA_ASSIGN(std::optional<HashLine> line, next());
    if (line && line->step <= current_->step) return damaged("steps do not rise");
    current_ = std::move(line);
    if (current_) steps_.push_back(current_->step);
    return {};
  }

  // Reads on to the end, and says where lines of this run are missing. Empty if none are.
  Result<std::string> gap() {
    while (current_) MANTISSA_RETURN_IF_ERROR(advance());
    const std::string missing = missing_lines(steps_, every_, header_.drain_every);
    return missing.empty() ? missing : path_.string() + " has no hashes " + missing;
  }

 private:
  HashReader(fs::path path, std::vector<std::byte> bytes)
      : path_(std::move(path)), bytes_(std::move(bytes)) {}

  Error damaged(const std::string& what) const {
    return invalid_input(path_.string() + ", line " + std::to_string(line_) + ": " + what);
  }

  // Nothing at the end, and for a line without its end: somebody may still be writing it.
  Result<std::optional<HashLine>> next() {
    const std::string_view rest =
        std::string_view(reinterpret_cast<const char*>(bytes_.data()), bytes_.size()).substr(at_);
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) return std::optional<HashLine>();
    at_ += end + 1;
    ++line_;
    const auto json = parse_json<OrderedJson>(rest.substr(0, end));
    if (!json.is_object()) return damaged("is no line of hashes");
    MANTISSA_ASSIGN(HashLine line, parse(json));
    if (json["chain"] != chain_hash(chain_, json)) {
      return damaged("the chain of hashes is broken: the file was changed after it was written");
    }
    chain_ = json["chain"].get<std::string>();
    return std::optional<HashLine>(std::move(line));
  }

  Result<HashLine> parse(const OrderedJson& json) const {
    HashLine line;
    for (const auto& [key, value] : json.items()) {
      const bool is_number = key == "step" || key == "drain_every";
      const bool right = is_number                                 ? value.is_number_integer()
                         : key == "run_identity" || key == "chain" ? value.is_string()
                         : key == "tensors" || key == "digests"    ? is_texts(value)
                                                                   : false;
      if (!right) return damaged("is no line of hashes");
    }
    if (!json.contains("step") || !json.contains("chain") || !json.contains("digests")) {
      return damaged("is no line of hashes");
    }
    json["step"].get_to(line.step);
    json["digests"].get_to(line.digests);
    if (json.contains("drain_every")) json["drain_every"].get_to(line.drain_every);
    if (json.contains("run_identity")) json["run_identity"].get_to(line.run_identity);
    if (json.contains("tensors")) json["tensors"].get_to(line.tensors);
    const size_t wanted = header_.tensors.empty() ? line.tensors.size() : header_.tensors.size();
    if (line.digests.size() != wanted) return damaged("has not one digest per tensor");
    return line;
  }

  fs::path path_;
  std::vector<std::byte> bytes_;
  size_t at_ = 0;
  int64_t line_ = 0;
  std::string chain_;
  int64_t every_ = 0;           // steps between lines, if known
  std::vector<int64_t> steps_;  // of the lines so far
  HashLine header_;
  std::optional<HashLine> current_;
};

// "seed 1 / 2, epochs 3 / 4": settings that make two runs different, as far as their configurations
// tell.
std::string differing_settings(const fs::path& a, const fs::path& b) {
  const auto left_file = read_config(a / kConfigFile), right_file = read_config(b / kConfigFile);
  if (!left_file.ok()) return left_file.error().message;
  if (!right_file.ok()) return right_file.error().message;
  const auto ours = left_file->all(), theirs = right_file->all();
  const auto value = [](const auto& settings, const std::string& name) {
    const auto found = settings.find(name);
    if (found == settings.end()) return std::string("-");
    // Each run names its own copy: the weights in it count.
    const auto trained = name == "from" ? read_trained(found->second) : TrainedFile{};
    if (name != "from" || !trained.ok()) return found->second;
    const auto start = starting_point(*trained);
    return start.ok() ? "weights " + start->sha256 : found->second;
  };
  std::string text;
  for (const Setting& setting : training_settings()) {
    if (!setting.has(traits::kIdentity)) continue;
    const std::string left = value(ours, setting.name), right = value(theirs, setting.name);
    if (left == right) continue;
    text += (text.empty() ? "" : ", ") + std::string(setting.name) + " " + left + " / " + right;
  }
  if (!text.empty()) return text;
  return "their settings are the same, the data are not (" + value(ours, "data") + " / " +
         value(theirs, "data") + ")";
}

// Notes the steps that stand in only one of the files.
void note_the_rest(const HashReader& longer, const HashReader& shorter, int64_t last_common,
                   HashComparison& result) {
  if (!longer.current() || shorter.current()) return;
  result.complete = false;
  result.notes.push_back(shorter.path().string() + " has no hashes after step " +
                         std::to_string(last_common) + ", " + longer.path().string() + " has");
}

void compare(const HashLine& a, const HashLine& b, const std::vector<std::string>& tensors,
             HashComparison& result) {
  ++result.steps_compared;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (a.digests[i] != b.digests[i]) result.differing_tensors.push_back(tensors[i]);
  }
  (result.differing_tensors.empty() ? result.last_same_step : result.differing_step) = a.step;
}

}  // namespace

Result<HashComparison> compare_hashes(const fs::path& a, const fs::path& b) {
  MANTISSA_ASSIGN(HashReader left, HashReader::open(a));
  MANTISSA_ASSIGN(HashReader right, HashReader::open(b));
  const std::string both = left.path().string() + " and " + right.path().string();
  if (left.header().run_identity != right.header().run_identity) {
    return invalid_input(both + " cannot be compared, they are of different runs: " +
                         differing_settings(left.folder(), right.folder()));
  }
  if (left.header().tensors != right.header().tensors) {
    return invalid_input(both + " cannot be compared: they hash different tensors");
  }
  HashComparison result;
  result.tensors = static_cast<int64_t>(left.header().tensors.size());
  int64_t passed_over = 0;
  while (left.current() && right.current() && result.differing_step < 0) {
    const int64_t a_step = left.current()->step, b_step = right.current()->step;
    if (a_step == b_step) {
      compare(*left.current(), *right.current(), left.header().tensors, result);
    } else {
      ++passed_over;
    }
    if (a_step <= b_step) MANTISSA_RETURN_IF_ERROR(left.advance());
    if (b_step <= a_step) MANTISSA_RETURN_IF_ERROR(right.advance());
  }
  if (result.steps_compared == 0) {
    return invalid_input(both + " cannot be compared: they have hashes of no common step");
  }
  if (result.differing_step >= 0) return result;
  if (passed_over > 0) {
    result.notes.push_back("hashed at different steps; only common ones were compared (" +
                           std::to_string(result.steps_compared) + ")");
  }
  note_the_rest(left, right, result.last_same_step, result);
  note_the_rest(right, left, result.last_same_step, result);
  for (HashReader* reader : {&left, &right}) {
    MANTISSA_ASSIGN(const std::string gap, reader->gap());
    if (gap.empty()) continue;
    result.complete = false;
    result.notes.push_back(gap);
  }
  return result;
}

}  // namespace mantissa

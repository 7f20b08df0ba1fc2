#include "run/logs/hash_log.h"

#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "formats/json_text.h"

namespace mantissa {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Hexadecimal digits of a tensor's digest: enough that no accident makes two equal.
constexpr size_t kDigits = 16;

}  // namespace

std::string chain_hash(const std::string& previous, const OrderedJson& line) {
  OrderedJson rest = line;
  rest.erase("chain");
  return sha256_hex(previous + rest.dump());
}

Result<HashLog> HashLog::open(const std::filesystem::path& path, const std::string& run_identity,
                              int64_t step, int64_t every, int64_t drain_every,
                              const State& state) {
  MANTISSA_ASSIGN(JsonLines lines, JsonLines::open(path, step, every));
  if (!lines.last().empty()) {
    // A line that was changed since makes a chain that `verify` refuses.
    const auto last = parse_json(lines.last());
    const auto chain = last.find("chain");
    const bool known = chain != last.end() && chain->is_string();
    return HashLog(std::move(lines), known ? chain->get<std::string>() : "");
  }
  HashLog log(std::move(lines), "");
  OrderedJson line = {
      {"step", step}, {"run_identity", run_identity}, {"tensors", OrderedJson::array()}};
  if (drain_every > 0) line["drain_every"] = drain_every;
  for (const StateTensor& tensor : state.layout().tensors) line["tensors"].push_back(tensor.name);
  MANTISSA_RETURN_IF_ERROR(log.append(std::move(line), state));
  return log;
}

Status HashLog::write(int64_t step, const State& state) { return append({{"step", step}}, state); }

Status HashLog::append(OrderedJson line, const State& state) {
  OrderedJson& digests = line["digests"] = OrderedJson::array();
  for (int i = 0; i < static_cast<int>(state.layout().tensors.size()); ++i) {
    digests.push_back(sha256_hex(state.bytes(i)).substr(0, kDigits));
  }
  chain_ = chain_hash(chain_, line);
  line["chain"] = chain_;
  return lines_.write(line);
}

}  // namespace mantissa

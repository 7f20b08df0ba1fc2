#include "cli/fetched.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "cli/http/client.h"
#include "cli/terminal/process.h"

namespace mantissa::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostParameterBytes = size_t{2} << 30;
constexpr size_t kMostNetworkBytes = size_t{4} << 20;  // the limit for networks as JSON
constexpr size_t kMostErrorBytes = size_t{64} << 10;

// The reason that a server gives with its status: ", no such parameter", or "".
std::string told(const std::string& body) {
  const auto why = nlohmann::json::parse(body, nullptr, false);
  const bool is_told = why.is_object() && why.contains("error") && why["error"].is_string();
  return is_told ? ", " + why["error"].get<std::string>() : "";
}

// One server.
struct Source {
  HttpUrl url;
  HttpAddresses addresses;
  const Interrupt& interrupt;

  // Into a file. Returns the error, or "".
  std::string fetch(const fs::path& path, size_t most_bytes, bool& was_stopped) const {
    std::ofstream out(path, std::ios::binary);
    std::string fault;
    const FetchLimits limits{.body_bytes = most_bytes};
    const Fetch answer = http_get(
        url, addresses, limits, [this] { return interrupt.requested(); },
        [&](int status, std::string_view bytes) {
          if (status != 200) {
            fault += bytes.substr(0, kMostErrorBytes - std::min(fault.size(), kMostErrorBytes));
            return true;
          }
          return out.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).good();
        });
    was_stopped = answer.was_stopped;
    out.close();
    const std::string place = "http://" + url.authority();
    if (!out.good()) return "from: cannot write to " + path.string();
    if (!answer.error.empty() && answer.status == 0) {
      return "from: " + place + " does not answer as it should (" + answer.error + ")";
    }
    if (answer.status == 200) return "";
    return "from: " + place + url.path + ": " + std::to_string(answer.status) + told(fault);
  }
};

}  // namespace

Fetched::~Fetched() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
  remove_when_ended({});
}

std::string Fetched::resolve(Settings& settings) {
  const auto from = settings.find("from");
  if (from == settings.end() || !from->second.starts_with("http://")) return "";
  HttpUrl url = HttpUrl::parse(from->second);
  // Names may take long to look up, and a signal ends the process then: there is nothing yet.
  release_stop_signals();
  HttpAddresses addresses = find_addresses(url);
  if (addresses == nullptr)
    return "from: http://" + url.authority() + " does not answer (no such host)";
  const Interrupt interrupt("interrupted", false);
  const StopSignalsHeld after_this;
  // Messages name these files, and so the host.
  std::string label = "mantissa-from-" + url.authority() + "-XXXXXX";
  std::ranges::replace(label, '/', '_');
  std::string name = (fs::temp_directory_path() / label).string();
  if (mkdtemp(name.data()) == nullptr) return "from: cannot make a temporary folder";
  folder_ = name;
  if (url.path == "/") url.path = "/parameters";
  Source source{url, std::move(addresses), interrupt};
  const fs::path parameters = fs::path(folder_) / "start.safetensors";
  const fs::path network = fs::path(folder_) / "network.json";
  remove_when_ended(std::array{parameters.string(), network.string(), folder_});
  std::string error = source.fetch(parameters, kMostParameterBytes, was_interrupted_);
  if (!error.empty()) return error;
  from->second = parameters.string();
  if (settings.contains("model")) return "";
  source.url.path = "/network";
  error = source.fetch(network, kMostNetworkBytes, was_interrupted_);
  settings["model"] = network.string();
  return error;
}

}  // namespace mantissa::cli

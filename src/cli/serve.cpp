// serve: a trained network over HTTP, for predictions and for weights that others start from.
#include "cli/serve.h"

#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/process.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "mantissa/runs.h"
#include "mantissa/training.h"

namespace mantissa::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr size_t kMostBytes = size_t{64} << 20;  // of a request
constexpr int64_t kMostExamples = 4096;          // of a request
constexpr int kSeconds = 10;                     // that a client may take to send or to read
// Encodings of bodies that the library decodes. It leaves the bytes of others as they are.
constexpr std::array<std::string_view, 5> kEncodings = {"", "identity", "gzip", "deflate", "br"};
constexpr const char* kRawPixels = "application/octet-stream";

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void refuse(httplib::Response& response, int status, const std::string& why) {
  response.status = status;
  response.set_content(text_of({{"error", why}}), "application/json");
}

// The network that is served. Predictions come one after the other.
class Served {
 public:
  explicit Served(const CommandLine& line) : checkpoint_(line.setting("checkpoint")) {}

  // "" or the error.
  std::string load() {
    const NetworkOutcome network = describe_network({{"path", checkpoint_}});
    if (!network.error.empty()) return network.error;
    network_json_ = network.json;
    const fs::path path = checkpoint_;
    std::error_code ignored;
    Outcome<Model> model =
        Model::load((fs::is_directory(path, ignored) ? path / "model.safetensors" : path).string());
    if (!model.ok()) return model.error();
    model_ = std::move(*model);
    for (const InputInfo& input : model_->network().inputs()) {
      if (input.name == "pixels") dims_ = input.dims;
    }
    return dims_.size() == 3 ? ""
                             : checkpoint_ +
                                   ": the network reads no pictures, and serve answers about these "
                                   "alone; mantissa predict --input takes files of rows";
  }

  const std::string& network_json() const { return network_json_; }

  // Pixels as bytes, [N, height, width, channels].
  void predict(const std::string& pixels, httplib::Response& response) {
    const int64_t size = dims_[0] * dims_[1] * dims_[2];
    const auto bytes = static_cast<int64_t>(pixels.size());
    if (bytes == 0 || bytes % size != 0 || bytes / size > kMostExamples) {
      return refuse(response, 400,
                    "the body has " + std::to_string(bytes) + " bytes; pictures have " +
                        std::to_string(size) + " (" + std::to_string(dims_[0]) + " x " +
                        std::to_string(dims_[1]) + " x " + std::to_string(dims_[2]) +
                        "), and at most " + std::to_string(kMostExamples) + " are possible");
    }
    const ArraySet examples{bytes / size, {{"pixels", Elements::kUint8, dims_, pixels.data()}}};
    const std::lock_guard lock(mutex_);
    const auto outputs = model_->predict(examples);
    if (!outputs.ok()) return refuse(response, 500, outputs.error());
    const std::vector<double>& logits = (*outputs)[0];
    const auto classes = static_cast<int64_t>(logits.size()) / examples.count;
    Json rows = Json::array(), guesses = Json::array();
    for (int64_t i = 0; i < examples.count; ++i) {
      const auto first = logits.begin() + i * classes;
      guesses.push_back(std::max_element(first, first + classes) - first);
      rows.push_back(std::vector<double>(first, first + classes));
    }
    response.set_content(text_of({{"classes", guesses}, {"logits", rows}}), "application/json");
  }

  // Trained parameters that fit the patterns, as a file that train --from takes.
  void parameters(const std::string& patterns, httplib::Response& response) {
    const std::lock_guard lock(mutex_);
    const ParametersOutcome outcome = trained_parameters(checkpoint_, patterns);
    if (outcome.exit == Exit::kInvalidInput) return refuse(response, 400, outcome.error);
    if (!outcome.error.empty()) return refuse(response, 500, outcome.error);
    response.set_content(outcome.file, kRawPixels);
  }

 private:
  std::string checkpoint_;
  std::string network_json_;
  std::optional<Model> model_;
  Dims dims_;
  std::mutex mutex_;
};

// A port that another process has is refused. The library's own options would share it, and each
// request would reach either process.
void own_port(int socket) {
  const int yes = 1;  // of connections that have just ended
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
}

void add_routes(httplib::Server& server, Served& served) {
  server.set_socket_options(own_port);
  server.set_payload_max_length(kMostBytes);
  server.set_read_timeout(kSeconds, 0);
  server.set_write_timeout(kSeconds, 0);
  server.set_keep_alive_max_count(100);
  server.Get("/health", [](const httplib::Request&, httplib::Response& response) {
    response.set_content(text_of({{"ready", true}}), "application/json");
  });
  server.Get("/network", [&](const httplib::Request&, httplib::Response& response) {
    response.set_content(served.network_json(), "application/json");
  });
  server.Get("/parameters", [&](const httplib::Request& request, httplib::Response& response) {
    served.parameters(request.has_param("take") ? request.get_param_value("take") : "", response);
  });
  // Read here: pixels have whatever type the client says, and the library takes 8 KiB of a form.
  server.Post("/predict", [&](const httplib::Request& request, httplib::Response& response,
                              const httplib::ContentReader& read) {
    if (request.is_multipart_form_data()) {
      return refuse(response, 400, "pixels are the body itself, not a part of a form");
    }
    std::string body;
    bool is_whole = true;
    const bool is_read = read([&](const char* bytes, size_t count) {
      is_whole = body.size() + count <= kMostBytes;
      if (is_whole) body.append(bytes, count);
      return is_whole;
    });
    if (!is_whole) return refuse(response, 413, "more than 64 MiB");
    if (!is_read) return refuse(response, 400, "the body cannot be read to its end");
    const std::string encoding = request.get_header_value("Content-Encoding");
    if (std::find(kEncodings.begin(), kEncodings.end(), encoding) == kEncodings.end()) {
      return refuse(response, 415, "Content-Encoding: '" + encoding + "' is not known");
    }
    served.predict(body, response);
  });
  server.set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (!response.body.empty()) return;
    refuse(response, response.status,
           response.status == 413
               ? "more than 64 MiB"
               : "there are GET /health, /network, /parameters?take=PATTERN, and "
                 "POST /predict with pixels as bytes");
  });
}

}  // namespace

int run_serve(const CommandLine& line) {
  const auto failed = [&](Exit exit, const std::string& why) {
    say("mantissa serve: " + printable(why));
    return static_cast<int>(exit);
  };
  Served served(line);
  if (const std::string error = served.load(); !error.empty()) {
    return failed(Exit::kInvalidInput, error);
  }
  const std::string host = line.setting("host"), port_text = line.setting("port");
  char* end = nullptr;
  const long port = std::strtol(port_text.c_str(), &end, 10);
  if (port_text.empty() || *end != '\0' || port < 0 || port > 65535) {
    return failed(Exit::kInvalidInput, "port: '" + port_text + "' is no number from 0 to 65535");
  }
  httplib::Server server;
  add_routes(server, served);
  const int bound =
      port == 0 ? server.bind_to_any_port(host)
                : (server.bind_to_port(host, static_cast<int>(port)) ? static_cast<int>(port) : -1);
  if (bound < 0) {
    return failed(Exit::kFailed, "cannot listen on " + host + ", port " + port_text +
                                     ": it is taken, or not this machine's; --port 0 takes a free "
                                     "one");
  }
  const Interrupt interrupt("stopping", false);
  std::atomic<bool> ended = false;
  std::thread listener([&] {
    server.listen_after_bind();
    ended = true;
  });
  print("http://" + host + ":" + std::to_string(bound) + "\n");
  std::fflush(stdout);
  while (!interrupt.requested() && !ended) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  server.stop();
  listener.join();
  return interrupt.requested() ? 0 : failed(Exit::kFailed, "the server ended");
}

Fetched::~Fetched() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

std::string Fetched::resolve(Settings& settings) {
  constexpr std::string_view kScheme = "http://";
  const auto from = settings.find("from");
  if (from == settings.end() || !from->second.starts_with(kScheme)) return "";
  const std::string url = from->second;
  const size_t slash = std::min(url.find('/', kScheme.size()), url.size());
  const std::string host = url.substr(0, slash), path = url.substr(slash);
  httplib::Client client(host);
  client.set_connection_timeout(kSeconds, 0);
  client.set_read_timeout(6 * kSeconds, 0);
  // Messages name these files, and so the host.
  const std::string label = "mantissa-from-" + host.substr(kScheme.size()) + "-XXXXXX";
  std::string name = (fs::temp_directory_path() / label).string();
  if (mkdtemp(name.data()) == nullptr) return "from: cannot make a temporary folder";
  folder_ = name;
  const auto fetch = [&](const std::string& what, const std::string& file) -> std::string {
    const auto answer = client.Get(what);
    if (!answer)
      return "from: " + host + " does not answer (" + httplib::to_string(answer.error()) + ")";
    if (answer->status != 200) {
      const Json why = Json::parse(answer->body, nullptr, false);
      const bool told = why.is_object() && why.contains("error") && why["error"].is_string();
      return "from: " + host + what + ": " + std::to_string(answer->status) +
             (told ? ", " + why["error"].get<std::string>() : "");
    }
    std::ofstream out(fs::path(folder_) / file, std::ios::binary);
    out.write(answer->body.data(), static_cast<std::streamsize>(answer->body.size()));
    return out.good() ? "" : "from: cannot write to " + folder_;
  };
  const std::string what = path.size() > 1 ? path : "/parameters";
  if (std::string error = fetch(what, "start.safetensors"); !error.empty()) return error;
  from->second = (fs::path(folder_) / "start.safetensors").string();
  if (settings.contains("model")) return "";
  if (std::string error = fetch("/network", "network.json"); !error.empty()) return error;
  settings["model"] = (fs::path(folder_) / "network.json").string();
  return "";
}

}  // namespace mantissa::cli

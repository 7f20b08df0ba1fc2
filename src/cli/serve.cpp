// serve: a trained network over HTTP, for predictions and for weights that others start from.
#include "cli/serve.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command_line/output.h"
#include "cli/http/server.h"
#include "cli/language/routes.h"
#include "cli/terminal/process.h"
#include "cli/terminal/terminal.h"
#include "cli/terminal/text.h"
#include "mantissa/language.h"
#include "mantissa/runs.h"
#include "mantissa/training.h"

namespace mantissa::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int64_t kMostExamples = 4096;  // of a request

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// The network that is served. The server calls one function at a time, except network_json().
class Served {
 public:
  explicit Served(const CommandLine& line) : checkpoint_(line.setting("checkpoint")) {}

  // "" or the error.
  std::string load() {
    const Outcome<NetworkDescription> network = describe_network({{"path", checkpoint_}});
    if (!network.ok()) return network.error();
    network_json_ = network->json;
    const fs::path path = checkpoint_;
    std::error_code ignored;
    Outcome<Model> model =
        Model::load((fs::is_directory(path, ignored) ? path / "model.safetensors" : path).string());
    if (!model.ok()) return model.error();
    model_ = std::move(*model);
    const Json graph = Json::parse(network_json_, nullptr, false);
    if (graph.is_object() && graph.value("losses", Json::array()).size() > 1) {
      return checkpoint_ + ": the network has several outputs, and serve answers with one; "
                           "mantissa predict --input takes files";
    }
    for (const Json& node : graph.is_object() ? graph.value("nodes", Json::array()) : Json()) {
      if (node.value("op", "") != "ctc_loss") continue;
      return checkpoint_ +
             ": the network finds labels in an order (ctc_loss), and serve answers with "
             "one class; mantissa predict --input takes files";
    }
    std::string other;  // an input beside the pictures
    for (const InputInfo& input : model_->network().inputs()) {
      if (input.name == "pixels") {
        dims_ = input.dims;
      } else if (input.name != "labels" && input.name != "targets") {
        other = input.name;
      }
    }
    if (dims_.size() == 3 && !other.empty()) {
      return checkpoint_ + ": the network also reads '" + other +
             "', and serve answers about pictures alone; mantissa predict --input takes files";
    }
    return dims_.size() == 3 ? ""
                             : checkpoint_ +
                                   ": the network reads no pictures, and serve answers about these "
                                   "alone; mantissa predict --input takes files of rows";
  }

  const std::string& network_json() const { return network_json_; }

  // Pixels as bytes, [N, height, width, channels].
  void predict(const std::string& pixels, HttpAnswer& answer) {
    const int64_t size = dims_[0] * dims_[1] * dims_[2];
    const auto bytes = static_cast<int64_t>(pixels.size());
    if (bytes == 0 || bytes % size != 0 || bytes / size > kMostExamples) {
      return refuse(answer, 400,
                    "the body has " + std::to_string(bytes) + " bytes; pictures have " +
                        std::to_string(size) + " (" + std::to_string(dims_[0]) + " x " +
                        std::to_string(dims_[1]) + " x " + std::to_string(dims_[2]) +
                        "), and at most " + std::to_string(kMostExamples) + " are possible");
    }
    const ArraySet examples{bytes / size, {{"pixels", Elements::kUint8, dims_, pixels.data()}}};
    const auto outputs = model_->predict(examples);
    if (!outputs.ok()) return refuse(answer, 500, outputs.error());
    const std::vector<double>& logits = (*outputs)[0];
    const auto classes = static_cast<int64_t>(logits.size()) / examples.count;
    Json rows = Json::array(), guesses = Json::array();
    for (int64_t i = 0; i < examples.count; ++i) {
      const auto first = logits.begin() + i * classes;
      const std::vector<double> row(first, first + classes);
      const std::vector<int> guess = model_->guesses(row);
      if (model_->gives_lists()) {
        guesses.push_back(guess);
      } else if (!guess.empty()) {
        guesses.push_back(guess[0]);
      }
      rows.push_back(row);
    }
    Json found = Json::object();
    if (!guesses.empty()) found["classes"] = guesses;
    found["logits"] = rows;
    answer.body = text_of(found);
  }

  // Trained parameters that fit the patterns, as a file that train --from takes.
  void parameters(const std::string& patterns, HttpAnswer& answer) {
    const Outcome<ParameterFile> taken = trained_parameters(checkpoint_, patterns);
    if (!taken.ok()) {
      const bool is_bad_request = taken.failure().exit == Exit::kInvalidInput;
      return refuse(answer, is_bad_request ? 400 : 500, taken.error());
    }
    answer.type = "application/octet-stream";
    answer.body = taken->file;
  }

 private:
  std::string checkpoint_;
  std::string network_json_;
  std::optional<Model> model_;
  Dims dims_;
};

HttpRoutes picture_routes(Served& served) {
  return {.routes = {{"GET", "/health", false, false,
           [](const HttpRequest&, HttpAnswer& answer) {
             answer.body = text_of({{"ready", true}});
           }},
          {"GET", "/network", false, false,
           [&](const HttpRequest&, HttpAnswer& answer) { answer.body = served.network_json(); }},
          {"GET", "/parameters", false, true,
           [&](const HttpRequest& request, HttpAnswer& answer) {
             const auto take = request.arguments.find("take");
             served.parameters(take == request.arguments.end() ? "" : take->second, answer);
           }},
          {"POST", "/predict", true, true, [&](const HttpRequest& request, HttpAnswer& answer) {
             served.predict(request.body, answer);
           }}}};
}

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

// The served network: it reads pictures, or is a language model.
struct Service {
  std::optional<Served> pictures;
  std::optional<LanguageModel> language;
  HttpRoutes routes;

  // "" or the reason why it cannot be served.
  std::string load(const CommandLine& line) {
    const Outcome<bool> is_language = is_language_model(line.setting("checkpoint"));
    if (!is_language.ok()) return is_language.error();
    return *is_language ? load_language(line) : load_pictures(line);
  }

 private:
  std::string load_pictures(const CommandLine& line) {
    for (const char* name : {"format", "sequence", "threads"}) {
      if (!line.setting(name).empty()) return std::string(name) + ": is for language models";
    }
    pictures.emplace(line);
    std::string fault = pictures->load();
    if (fault.empty()) routes = picture_routes(*pictures);
    return fault;
  }

  std::string load_language(const CommandLine& line) {
    Settings settings;
    for (const char* name : {"checkpoint", "format", "sequence", "threads"}) {
      if (const std::string text = line.setting(name); !text.empty()) settings[name] = text;
    }
    Outcome<LanguageModel> model = LanguageModel::load(settings);
    if (!model.ok()) return model.error();
    language = std::move(*model);
    fs::path path = line.setting("checkpoint");
    if (!path.has_filename()) path = path.parent_path();  // a folder's path may end with a slash
    routes = language_routes(*language, path.stem().string());
    return "";
  }
};

}  // namespace

int run_serve(const CommandLine& line) {
  // Until clients may come there is nothing to end in good order.
  release_stop_signals();
  Service service;
  if (const std::string fault = service.load(line); !fault.empty()) {
    return tell(line, {Exit::kInvalidInput, fault});
  }
  const std::string host = line.setting("host"), port_text = line.setting("port");
  char* end = nullptr;
  const long port = std::strtol(port_text.c_str(), &end, 10);
  if (port_text.empty() || *end != '\0' || port < 0 || port > 65535) {
    return tell(line,
                {Exit::kInvalidInput, "port: '" + port_text + "' is no number from 0 to 65535"});
  }
  Interrupt interrupt("stopping", false);
  interrupt.begun();
  const std::string error = serve_http(
      host, static_cast<int>(port), parts_of(line.setting("names")), service.routes,
      HttpLimits(),
      [&](int bound) {
        const bool is_v6 = host.find(':') != std::string::npos;
        print("http://" + (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(bound) + "\n");
        std::fflush(stdout);
      },
      [&] { return interrupt.requested(); });
  return error.empty() ? 0 : tell(line, {Exit::kFailed, error});
}

}  // namespace mantissa::cli

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/reports/report.h"
#include "cli/terminal/text.h"

namespace mantissa::cli {
namespace {

using Json = nlohmann::ordered_json;
using Pairs = std::vector<std::pair<std::string, std::string>>;

std::string pairs_text(const char* title, const Pairs& pairs, const Terminal& terminal) {
  int width = 0;
  for (const auto& [name, value] : pairs) width = std::max(width, columns(name));
  std::string text = "\n" + terminal.paint("1", title) + "\n";
  for (const auto& [name, value] : pairs) {
    text += "  " + pad_right(printable(name), width + 2) + printable(value) + "\n";
  }
  return text;
}

}  // namespace

std::string info_report(const Info& info, const Terminal& terminal) {
  const Pairs heads = {{"CPU", info.cpu}, {"instructions", info.isa}, {"compiler", info.compiler}};
  Pairs convolutions;
  for (const ConvolutionChoice& choice : info.convolutions) {
    convolutions.emplace_back(choice.shape, choice.kernel);
  }
  std::string formats;
  for (const std::string& format : info.formats) formats += "  " + printable(format) + "\n";
  return terminal.paint("1", "mantissa " + printable(info.version)) +
         pairs_text("", heads, terminal) + pairs_text("kernels", info.kernels, terminal) +
         pairs_text("convolutions", convolutions, terminal) +
         pairs_text("networks", built_in_models(), terminal) + "\n" +
         terminal.paint("1", "formats") + "\n" + formats;
}

std::string info_json(const Info& info) {
  Json json;
  json["version"] = info.version;
  json["cpu"] = info.cpu;
  json["isa"] = info.isa;
  json["compiler"] = info.compiler;
  json["kernels"] = Json::object();
  for (const auto& [family, kernel] : info.kernels) json["kernels"][family] = kernel;
  json["convolutions"] = Json::object();
  for (const ConvolutionChoice& choice : info.convolutions) {
    Json& entry = json["convolutions"][choice.shape];
    entry["kernel"] = choice.kernel;
    entry["declined"] = Json::object();
    for (const auto& [row, reason] : choice.declined) entry["declined"][row] = reason;
  }
  json["models"] = Json::object();
  for (const auto& [name, line] : built_in_models()) json["models"][name] = line;
  json["formats"] = info.formats;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace mantissa::cli

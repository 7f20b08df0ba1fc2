// Imports an ONNX model, or a language model's file, and writes the results of the network in fp32:
// its logits for some examples and, with labels, the gradients of a training step.
// tests/long/onnx/onnx_networks and onnx_sequences run it, and tests/long/text/language_models.
//
//   onnx_numbers MODEL MEAN STD EXAMPLES LOGITS [LABELS GRADIENTS]
//
// SEQUENCE in the environment: of a language model's file. MEAN and STD: one number for all
// channels of pictures, "-" for other examples. EXAMPLES, raw: pictures, uint8 [N, H, W, C], tokens, int32 [N, T], or
// numbers, int16 [N, T, C]. LABELS: int32, one for each row of logits, raw. LOGITS: float, raw.
// GRADIENTS: a line for each parameter, its name and shape, then its numbers.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "networks/imported_network.h"
#include "networks/language/model_file.h"
#include "tests/onnx/imported.h"

namespace {

using mantissa::Result;
using mantissa::Status;

template <typename T>
std::vector<T> read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<T> numbers(bytes.size() / sizeof(T));
  std::copy_n(bytes.data(), numbers.size() * sizeof(T), reinterpret_cast<char*>(numbers.data()));
  return numbers;
}

Status write_gradients(const mantissa::onnx::ImportedNetwork& network,
                       const std::vector<std::vector<float>>& gradients, const char* path) {
  std::ofstream file(path);
  file.precision(9);
  for (size_t p = 0; p < gradients.size(); ++p) {
    if (gradients[p].empty()) continue;
    const mantissa::Parameter& parameter = network.graph.parameters[p];
    file << parameter.name;
    for (int i = 0; i < parameter.shape.rank; ++i)
      file << (i == 0 ? " " : ",") << parameter.shape[i];
    for (const float number : gradients[p]) file << " " << number;
    file << "\n";
  }
  return {};
}

Result<mantissa::onnx::ImportedNetwork> import_any(const std::string& path,
                                                   const mantissa::onnx::ImportOptions& options) {
  MANTISSA_ASSIGN(const bool is_decoder, mantissa::is_model_file(path));
  if (!is_decoder) return mantissa::import_file(path, options);
  MANTISSA_ASSIGN(const auto file, mantissa::read_language_model(path));
  const char* sequence = std::getenv("SEQUENCE");
  return mantissa::import_language_model(file, sequence == nullptr ? 0 : std::atoll(sequence));
}

Status run(int count, char** arguments) {
  mantissa::onnx::ImportOptions options;
  if (std::string(arguments[2]) != "-") {
    options.mean = {std::atof(arguments[2])};
    options.deviation = {std::atof(arguments[3])};
  }
  MANTISSA_ASSIGN(const auto network, import_any(arguments[1], options));
  const auto examples = read<uint8_t>(arguments[4]);
  const mantissa::Value& input = network.graph.values[network.graph.inputs[0]];
  const int64_t batch =
      std::ssize(examples) / (input.shape.count() * mantissa::element_bytes(input.type));
  MANTISSA_ASSIGN(auto forward, mantissa::testing::ImportedRun::create(network, batch, false));
  MANTISSA_ASSIGN(const std::vector<float> logits, forward->logits(examples));
  std::ofstream(arguments[5], std::ios::binary)
      .write(reinterpret_cast<const char*>(logits.data()),
             static_cast<std::streamsize>(logits.size() * sizeof(float)));
  if (count < 8) return {};
  MANTISSA_ASSIGN(auto training, mantissa::testing::ImportedRun::create(network, batch, true));
  MANTISSA_ASSIGN(const auto gradients, training->gradients(examples, read<int32_t>(arguments[6])));
  return write_gradients(network, gradients, arguments[7]);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 6 && count != 8) return 2;
  const Status status = run(count, arguments);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return status.ok() ? 0 : 1;
}

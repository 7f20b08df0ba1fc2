// ONNX files: bytes are refused in one line, or their network is looked through, folded, and looked
// through again.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "onnx/evaluate/evaluate.h"
#include "onnx/files/reader.h"
#include "onnx/import/import.h"

namespace mantissa::onnx {
namespace {

void check(bool holds, const char* what, const std::string& text) {
  if (holds) return;
  std::fprintf(stderr, "%s: %s\n", what, text.c_str());
  std::abort();
}

void check_line(const std::string& message) {
  check(!message.empty() && message.size() < 4000 &&
            std::find(message.begin(), message.end(), '\n') == message.end(),
        "not one line", message);
}

}  // namespace
}  // namespace mantissa::onnx

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mantissa;
  using namespace mantissa::onnx;
  const auto model =
      parse_model({reinterpret_cast<const std::byte*>(data), size}, nullptr, "/nowhere");
  if (!model.ok()) {
    check_line(model.error().message);
    return 0;
  }
  const Shapes shapes = input_shapes(*model);
  const Result<Survey> facts = survey(*model, shapes);
  if (!facts.ok()) {
    check_line(facts.error().message);
    return 0;
  }
  if (!facts->problems.empty()) check_line(describe_problems(facts->problems));
  const Result<ModelData> folded = fold_constants(*model, shapes);
  if (!folded.ok()) {
    check_line(folded.error().message);
    return 0;
  }
  ImportOptions options;
  options.height = options.width = 8;
  const auto imported = import_network(*model, options);
  if (!imported.ok()) {
    const std::string& message = imported.error().message;
    check(message.find('\n') == std::string::npos, "not one line", message);
  }
  check(survey(*folded, input_shapes(*folded, shapes)).ok(), "folded, and refused", "");
  return 0;
}

// ONNX's own tests of operators, as Debian's package libonnx-testdata has them: a network, inputs,
// outputs that are wanted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>

#include "base/files/file_bytes.h"
#include "onnx/evaluate/evaluate.h"
#include "onnx/files/reader.h"
#include "onnx/files/wire.h"

namespace mantissa::onnx {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "/usr/lib/python3/dist-packages/onnx/backend/test/data";
constexpr double kTolerance = 1e-4;  // of the largest number that is wanted
constexpr int kLeastPassed = 1020;

// Tests that are left out, since their outputs differ from ours for the reason named.
bool is_odd(const std::string& name) {
  // Random numbers of NumPy's generator.
  if (name.starts_with("test_training_dropout")) {
    return name.find("zero_ratio") == std::string::npos;
  }
  // Cut off instead of rounded; the last place by an output size with a fraction.
  return name == "test_cast_FLOAT_to_BFLOAT16" ||
         name == "test_resize_downsample_scales_linear_align_corners" ||
         name == "test_resize_downsample_scales_cubic_align_corners";
}

Result<TensorData> read_tensor_file(const fs::path& path) {
  MANTISSA_ASSIGN(const std::shared_ptr<const FileBytes> file,
                  FileBytes::read(path, int64_t{1} << 30));
  return parse_tensor(file->bytes(), file, path.parent_path());
}

std::vector<double> as_doubles(const TensorData& tensor) {
  std::vector<double> result;
  if (tensor.type == ElementType::kFloat16) {
    for (const uint16_t bits : numbers<uint16_t>(tensor)) result.push_back(from_float16(bits));
    return result;
  }
  if (tensor.type == ElementType::kBfloat16) {
    for (const uint16_t bits : numbers<uint16_t>(tensor)) result.push_back(from_bfloat16(bits));
    return result;
  }
  const Status status = with_type(AllTypes(), tensor.type, [&]<typename T>() -> Status {
    for (const T number : numbers<T>(tensor)) result.push_back(static_cast<double>(number));
    return {};
  });
  EXPECT_TRUE(status.ok());
  return result;
}

// "" or the difference.
std::string compare(const TensorData& found, const TensorData& wanted) {
  if (found.type != wanted.type || found.dims != wanted.dims) {
    return std::string(element_name(found.type)) + " " + to_text(found.dims) + " instead of " +
           element_name(wanted.type) + " " + to_text(wanted.dims);
  }
  const std::vector<double> a = as_doubles(found);
  const std::vector<double> b = as_doubles(wanted);
  double most = 0;
  for (const double number : b) {
    if (std::isfinite(number)) most = std::max(most, std::fabs(number));
  }
  const bool real = wanted.type == ElementType::kFloat || wanted.type == ElementType::kDouble ||
                    wanted.type == ElementType::kFloat16 || wanted.type == ElementType::kBfloat16;
  const double allowed = real ? kTolerance * most : 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (std::fabs(a[i] - b[i]) <= allowed) continue;
    return std::to_string(a[i]) + " instead of " + std::to_string(b[i]) + " at " +
           std::to_string(i);
  }
  return "";
}

// SequenceProto and OptionalProto have their elements in field 3, or, of sequences, in field 5.
Result<EvaluatedValue> parse_value(std::span<const std::byte> bytes,
                                   const std::shared_ptr<const FileBytes>& file, ValueKind kind) {
  std::vector<EvaluatedValue> items;
  WireReader reader(bytes);
  WireField field;
  while (reader.next(field)) {
    if (field.key == wire_key(3, WireType::kBytes)) {
      MANTISSA_ASSIGN(TensorData tensor, parse_tensor(field.bytes, file, "nowhere"));
      items.push_back({std::move(tensor), true, true});
    }
    if (field.key == wire_key(5, WireType::kBytes)) {
      MANTISSA_ASSIGN(EvaluatedValue inner, parse_value(field.bytes, file, ValueKind::kSequence));
      items.push_back(std::move(inner));
    }
  }
  return value_of_items(kind, std::move(items));
}

Result<EvaluatedValue> read_value_file(const fs::path& path, ValueKind kind) {
  if (kind == ValueKind::kTensor) {
    MANTISSA_ASSIGN(TensorData tensor, read_tensor_file(path));
    return EvaluatedValue{std::move(tensor), true, true};
  }
  MANTISSA_ASSIGN(const std::shared_ptr<const FileBytes> file,
                  FileBytes::read(path, int64_t{1} << 30));
  return parse_value(file->bytes(), file, kind);
}

// NumPy has no bfloat16: the files have it as uint16.
void take_bfloat16(ElementType type, TensorData& tensor) {
  if (type == ElementType::kBfloat16 && tensor.type == ElementType::kUint16) tensor.type = type;
}

enum class Outcome : uint8_t { kPassed, kRefused, kFailed };

struct Verdict {
  Outcome outcome;
  std::string reason;
};

Verdict refused(const Error& error) { return {Outcome::kRefused, error.message}; }

std::string compare_values(const EvaluatedValue& found, EvaluatedValue wanted) {
  if (found.kind != wanted.kind) return "another kind of value";
  if (found.kind == ValueKind::kTensor) {
    take_bfloat16(found.tensor.type, wanted.tensor);
    return compare(found.tensor, *aligned(wanted.tensor));
  }
  if (found.items->size() != wanted.items->size()) return "another number of elements";
  for (size_t i = 0; i < found.items->size(); ++i) {
    const std::string difference = compare_values((*found.items)[i], (*wanted.items)[i]);
    if (!difference.empty()) return difference;
  }
  return "";
}

Verdict run_set(const ModelData& model, const fs::path& folder, bool folded, ThreadPool& pool) {
  NamedValues inputs;
  Shapes shapes;
  for (size_t i = 0; i < model.graph.inputs.size(); ++i) {
    const ValueData& input = model.graph.inputs[i];
    const fs::path path = folder / ("input_" + std::to_string(i) + ".pb");
    if (!fs::exists(path)) continue;
    Result<EvaluatedValue> value = read_value_file(path, input.kind);
    if (!value.ok()) return refused(value.error());
    take_bfloat16(input.type, value->tensor);
    if (input.kind == ValueKind::kTensor) shapes[input.name] = value->tensor.dims;
    inputs[input.name] = std::move(*value);
  }
  ModelData network = model;
  if (folded) {
    Result<ModelData> result = fold_constants(model, shapes);
    if (!result.ok()) return refused(result.error());
    network = std::move(*result);
  }
  const Result<std::vector<EvaluatedValue>> outputs = evaluate_values(network, inputs, pool);
  if (!outputs.ok()) return refused(outputs.error());
  for (size_t i = 0; i < outputs->size(); ++i) {
    const Result<EvaluatedValue> wanted = read_value_file(
        folder / ("output_" + std::to_string(i) + ".pb"), model.graph.outputs[i].kind);
    if (!wanted.ok()) return refused(wanted.error());
    const std::string difference = compare_values((*outputs)[i], *wanted);
    if (!difference.empty()) return {Outcome::kFailed, difference};
  }
  return {Outcome::kPassed, ""};
}

Verdict run_test(const fs::path& folder, bool folded, ThreadPool& pool) {
  const Result<ModelData> model = read_model(folder / "model.onnx");
  if (!model.ok()) return refused(model.error());
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_directory()) continue;
    const Verdict verdict = run_set(*model, entry.path(), folded, pool);
    if (verdict.outcome != Outcome::kPassed) return verdict;
  }
  return {Outcome::kPassed, ""};
}

// Reasons with the names of nodes and files cut off, so that equal ones count together.
std::string short_reason(const std::string& reason) {
  std::string text = reason.substr(0, reason.find(" (\""));
  const size_t file = text.find("': ");
  if (text.starts_with('\'') && file != std::string::npos) text = text.substr(file + 3);
  return text.substr(0, 100);
}

class OnnxOperators : public testing::TestWithParam<bool> {};

TEST_P(OnnxOperators, AgreeWithTheirTests) {
  if (!fs::exists(kFolder)) GTEST_SKIP() << "the package libonnx-testdata is missing";
  ThreadPool pool(2);
  std::map<std::string, int> reasons;
  int tests = 0;
  int passed = 0;
  for (const char* kind : {"node", "simple", "pytorch-operator", "pytorch-converted"}) {
    for (const auto& entry : fs::directory_iterator(fs::path(kFolder) / kind)) {
      const std::string name = entry.path().filename();
      if (is_odd(name)) continue;
      ++tests;
      const Verdict verdict = run_test(entry.path(), GetParam(), pool);
      passed += verdict.outcome == Outcome::kPassed;
      if (verdict.outcome == Outcome::kRefused) ++reasons[short_reason(verdict.reason)];
      EXPECT_NE(verdict.outcome, Outcome::kFailed) << kind << "/" << name << ": " << verdict.reason;
    }
  }
  int refusals = 0;
  for (const auto& [reason, count] : reasons) {
    refusals += count;
    std::cout << "refused " << count << ": " << reason << "\n";
  }
  std::cout << tests << " tests: " << passed << " passed, " << refusals << " refused\n";
  EXPECT_GE(passed, kLeastPassed);
}

INSTANTIATE_TEST_SUITE_P(OfOnnx, OnnxOperators, testing::Bool(),
                         [](const auto& test) { return test.param ? "Folded" : "AsTheyAre"; });

}  // namespace
}  // namespace mantissa::onnx

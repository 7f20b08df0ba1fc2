#include "report/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "report/html.h"
#include "run/logs/run_logs.h"
#include "run/settings/run_folder.h"

namespace mantissa {
namespace {

using OrderedJson = nlohmann::ordered_json;
using Numbers = std::span<const double>;

constexpr double kMuchClipped = 1e-3;  // of the mantissas
constexpr double kMostlyOnes = 0.5;    // of the mantissas that are not zero
constexpr int kFewBits = 5;            // of the magnitude: with fewer many ones are to be expected
constexpr int kWidestMantissa = 15;    // bits of the magnitude; wider values are sums
constexpr int kFullSum = 58;           // bits; the step fails from 2^60 on

double mean(Numbers numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

double largest(Numbers numbers) { return *std::max_element(numbers.begin(), numbers.end()); }

// A run's first steps are not like the rest.
Numbers second_half(Numbers numbers) { return numbers.subspan(numbers.size() / 2); }

std::string percent(double fraction) { return number_text(100 * fraction, 3) + " %"; }

// An integer of the file, which came as a double.
OrderedJson whole(double number) {
  constexpr double kLargest = 9e15;
  return std::abs(number) < kLargest ? OrderedJson(static_cast<int64_t>(number))
                                     : OrderedJson(number);
}

// The fraction of the non-zero mantissas that are one unit; 0 if all are zero.
double part_of_ones(const std::vector<int64_t>& counts) {
  if (counts.size() < 2) return 0;
  const int64_t others = std::accumulate(counts.begin() + 1, counts.end(), int64_t{0});
  return others > 0 ? static_cast<double>(counts[1]) / static_cast<double>(others) : 0;
}

OrderedJson advice(const TensorHistory& tensor) {
  OrderedJson list = OrderedJson::array();
  if (tensor.kind == "parameter gradient") {
    if (largest(tensor.largest_bits) >= kFullSum) {
      list.push_back("its sums come near 2^60, where a step fails: lower the learning rate");
    }
    return list;
  }
  if (tensor.bits > kWidestMantissa) return list;  // logits
  if (largest(second_half(tensor.largest_bits)) <= 0) {
    list.push_back("is nothing but zeros");
    return list;
  }
  const double clipped = mean(second_half(tensor.saturation_rate));
  if (clipped > kMuchClipped) {
    list.push_back("clips " + percent(clipped) + " of its mantissas: more bits would keep them");
  }
  const double ones = part_of_ones(tensor.bit_counts);
  if (ones > kMostlyOnes && tensor.bits >= kFewBits) {
    list.push_back(percent(ones) +
                   " of what is not zero is one unit: a few large mantissas set the exponent, and "
                   "more bits would show the rest");
  }
  return list;
}

OrderedJson tensor_json(const TensorHistory& tensor) {
  const auto [least, most] = std::minmax_element(tensor.exponent.begin(), tensor.exponent.end());
  OrderedJson json = {{"name", tensor.name},
                      {"kind", tensor.kind},
                      {"written_by", tensor.written_by},
                      {"bits", tensor.bits},
                      {"exponent", whole(tensor.exponent.back())},
                      {"smallest_exponent", whole(*least)},
                      {"largest_exponent", whole(*most)},
                      {"clipped", mean(tensor.saturation_rate)},
                      {"repeated", mean(tensor.repeated)},
                      {"bit_use", tensor.bit_use.back()},
                      {"largest_bits", whole(largest(second_half(tensor.largest_bits)))}};
  if (!tensor.bit_counts.empty()) json["bit_counts"] = tensor.bit_counts;
  json["advice"] = advice(tensor);
  return json;
}

}  // namespace

Result<OrderedJson> tensor_statistics(const RunRecord& run, const std::string& kind) {
  std::vector<std::string> problems;
  for (const std::string& problem : run.problems) {
    if (problem.find(kTensorsFile) != std::string::npos) problems.push_back(problem);
  }
  if (run.tensor_steps.empty()) {
    const auto format = run.settings.find("format");
    if (format != run.settings.end() && format->second == "fp32") {
      return invalid_input(run.folder.string() + ": a run in fp32 has no mantissas to count");
    }
    const std::string why = problems.empty()
                                ? "tensors are observed every " + std::to_string(kReportSteps) +
                                      " steps and after the last"
                                : problems[0];
    return invalid_input(run.folder.string() + ": no step was observed yet; " + why);
  }
  OrderedJson json = {
      {"run", run.folder.string()},
      {"format", run.settings.count("format") != 0 ? run.settings.at("format") : ""},
      {"observed_steps", run.tensor_steps.size()},
      {"last_step", whole(run.tensor_steps.back())},
      {"histogram_step",
       run.histogram_steps.empty() ? OrderedJson() : whole(run.histogram_steps.back())},
      {"problems", problems},
      {"tensors", OrderedJson::array()}};
  for (const TensorHistory& tensor : run.tensors) {
    if (kind.empty() || tensor.kind == kind) json["tensors"].push_back(tensor_json(tensor));
  }
  return json;
}

}  // namespace mantissa

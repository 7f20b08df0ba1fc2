#include "device/guess_text.h"

#include <algorithm>
#include <cmath>

#include "base/real_text.h"
#include "device/text/c_text.h"
#include "infer/tasks/classification.h"
#include "networks/network.h"
#include "ops/loss.h"

namespace mantissa::device {
namespace {

// What a result must exceed, in units of the results. Differences of two results have 33 bits.
int64_t in_units(double threshold, int exponent) {
  constexpr double kMost = 0x1p40;
  return static_cast<int64_t>(
      std::clamp(std::floor(std::ldexp(threshold, -exponent)), -kMost, kMost));
}

std::string c_threshold(int64_t threshold) {
  return "INT64_C(" + std::to_string(threshold) + ")";
}

constexpr const char* kLargest = R"C(int @p@_best(const int32_t results[@P@_RESULTS]) {
  int best = 0;
  for (int i = 1; i < @P@_RESULTS; ++i) best = results[i] > results[best] ? i : best;
  return best;
}
)C";

GuessText of_two(const std::string& score, const std::string& what, int64_t threshold) {
  return {"// 1 if " + what + " is above " + std::to_string(threshold) +
              ", else 0.\nint @p@_best(const int32_t results[@P@_RESULTS]);\n",
          "int @p@_best(const int32_t results[@P@_RESULTS]) {\n  return " + score + " > " +
              c_threshold(threshold) + " ? 1 : 0;\n}\n"};
}

GuessText of_labels(const FrozenDescription& description, int64_t results, int exponent) {
  std::string list;
  for (int64_t i = 0; i < results; ++i) {
    const auto at = static_cast<size_t>(i);
    const double threshold = at < description.thresholds.size() ? description.thresholds[at] : 0;
    list += "\n      " + c_threshold(in_units(threshold, exponent)) + ",";
  }
  return {R"C(// 1 if the label of this number is guessed: its result is above its threshold. Labels do not exclude
// one another, so there is no best one.
int @p@_has_label(const int32_t results[@P@_RESULTS], int label);
)C",
          "int @p@_has_label(const int32_t results[@P@_RESULTS], int label) {\n"
          "  static const int64_t thresholds[@P@_RESULTS] = {" +
              list + "};\n  return results[label] > thresholds[label] ? 1 : 0;\n}\n"};
}

GuessText of_places(int64_t places, int64_t results) {
  const std::string classes = std::to_string(results / places);
  GuessText text{"enum { @P@_PLACES = " + std::to_string(places) + ", @P@_LOGITS_OF_A_PLACE = " +
                     classes + R"C( };

// The class of a place, from 0 on, row after row: the index of its largest result, the first of
// equals.
int @p@_best_at(const int32_t results[@P@_RESULTS], int place);
)C",
                 R"C(int @p@_best_at(const int32_t results[@P@_RESULTS], int place) {
  const int32_t* const of_place = results + place * @P@_LOGITS_OF_A_PLACE;
  int best = 0;
  for (int i = 1; i < @P@_LOGITS_OF_A_PLACE; ++i) best = of_place[i] > of_place[best] ? i : best;
  return best;
}
)C"};
  if (results > places) return text;
  text.declarations = "enum { @P@_PLACES = " + std::to_string(places) +
                      " };\n\n// The class of a place, from 0 on, row after row: 1 if its result "
                      "is above 0, else 0.\n"
                      "int @p@_best_at(const int32_t results[@P@_RESULTS], int place);\n";
  text.definitions =
      "int @p@_best_at(const int32_t results[@P@_RESULTS], int place) {\n"
      "  return results[place] > 0 ? 1 : 0;\n}\n";
  return text;
}

// "'a': (number - 1.5) / 0.25", or its categories.
void append_column(const TableColumn& column, int64_t& at, std::string& text) {
  if (column.is_number()) {
    text += "//   " + std::to_string(at++) + ": " + c_string(column.name) + ", (number - " +
            real_text(column.mean) + ") / " + real_text(column.deviation) + "\n";
    return;
  }
  for (const std::string& category : column.categories) {
    text += "//   " + std::to_string(at++) + ": " + c_string(column.name) + ", 1 of " +
            c_string(category) + ", else 0\n";
  }
}

}  // namespace

GuessText guess_text(const FrozenDescription& description, int64_t results, int exponent) {
  const ModelOptions& options = description.options;
  const Shape places = label_shape_of_places(description.network);
  if (places.rank > 0) return of_places(places.count(), results);
  if (gives_labels(description)) {
    return of_labels(description, results, exponent);
  }
  const double threshold = description.thresholds.empty() ? 0 : description.thresholds[0];
  if (options.one_logit && results == 1) {
    return of_two("results[0]", "the result", in_units(threshold, exponent));
  }
  if (threshold != 0 && results == 2 && threshold_count(options) == 1) {
    return of_two("(int64_t)results[1] - results[0]", "the second result less the first",
                  in_units(threshold, exponent));
  }
  return {R"C(// The index of the largest result, the first of equals.
int @p@_best(const int32_t results[@P@_RESULTS]);
)C",
          kLargest};
}

std::string units_text(const FrozenDescription& description) {
  if (!description.table) return "";
  const TableSchema& table = *description.table;
  std::string text;
  if (!table.columns.empty()) {
    text += table.is_shaped()
                ? "// The channels of " + to_string(table.shape) +
                      ", the last axis, before they become mantissas; a missing number is 0:\n"
                : std::string("// The numbers, before they become mantissas; a missing one is 0:\n");
    int64_t at = 0;
    for (const TableColumn& column : table.columns) append_column(column, at, text);
    text += "// A mantissa is such a number times 4096, to nearest, ties to even, from -32767 to "
            "32767.\n";
  }
  if (!table.is_regression()) return text;
  text += "// The results are in these units; a number is deviation * result + mean:\n";
  int64_t at = 0;
  for (const TableColumn& column : table.targets()) append_column(column, at, text);
  return text;
}

}  // namespace mantissa::device

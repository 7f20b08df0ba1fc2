// Predictions as a table for other programs.
#pragma once

#include <string>

#include "mantissa/mantissa.h"

namespace mantissa {

// CSV as in RFC 4180, but lines end in a line feed. A head, then a line per prediction: source,
// label and label_name (empty if unknown), guess, guess_name, probability (of the guess), and
// the probability of each class in a column of its name. If numbers are predicted: source, truth,
// and the prediction in a column of the target's name. Of several outputs: source, and for each
// "truth of NAME", NAME, "probability of NAME" and the probabilities "NAME=CLASS"; labels and
// numbers as if they were alone. Texts that spreadsheets would compute, such
// as "=cmd|...", have an apostrophe in front (docs/decisions/0109-predictions-for-spreadsheets.md).
std::string prediction_csv(const Predictions& predictions);

}  // namespace mantissa

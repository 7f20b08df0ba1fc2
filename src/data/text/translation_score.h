// Scores of translations against references: BLEU (Papineni et al. 2002) and chrF (Popović 2015),
// as sacreBLEU (Post 2018) computes them by default.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace mantissa {

struct TranslationScore {
  double bleu = 0;    // 0-100; case counts, 13a tokens, exponential smoothing
  double chrf = 0;    // 0-100; 6 characters, no words, beta 2
  int64_t words = 0;  // of the translations, as 13a divides them
  int64_t reference_words = 0;
};

// The score of a corpus: sentence i of one list is compared with sentence i of the other. Errors:
// lists of different length, empty lists, a sentence that is not UTF-8.
Result<TranslationScore> score_translations(std::span<const std::string> translations,
                                            std::span<const std::string> references);

// A sentence as mteval-v13a divides it: words and signs with one space between them.
std::string tokenize_13a(std::string_view sentence);

}  // namespace mantissa

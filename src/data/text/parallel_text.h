// Parallel text as data: sentences and their translations, in a file of lines or in catalogues.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mantissa {

// A sentence and its translation. The texts are UTF-8 without NUL bytes and line ends, and neither
// is empty.
struct SentencePair {
  std::string source, target;
  std::string document;  // its document; "" if the file names none

  bool operator==(const SentencePair&) const = default;
};

struct ParallelText {
  std::vector<SentencePair> train, validation, test;
  int64_t skipped = 0;  // lines with an empty side
  std::string sha256;   // of the file and of how it is divided
};

constexpr int64_t kMostParallelBytes = int64_t{1} << 30;

// The pairs of text of lines `source TAB target [TAB document]`, in their order; `skipped` counts
// lines whose source or target is empty or ASCII white space, empty lines included: nothing can be
// learned from them. Errors, with the line: text that is not UTF-8 or has NUL bytes, no tab, more
// than two, a document on some lines only.
Result<std::vector<SentencePair>> parse_parallel_text(std::string_view text, int64_t& skipped);

// The pairs of a file of lines, of a gettext catalogue (*.mo, gettext.h), or of all catalogues of a
// folder, whose names are their documents, in three parts, about 90, 5 and 5 of 100. Pairs of one
// document are in one part, because documents repeat themselves. Without documents, pairs of one
// source text are in one part. The part depends only on the document's name, or on the source text.
// So it does not change when others come or go. Pairs keep their order in the file. Errors of
// parse_parallel_text and parse_catalogue; a file that is empty or too large; a folder without
// catalogues; a part without a pair.
Result<ParallelText> load_parallel_text(const std::string& path);

}  // namespace mantissa

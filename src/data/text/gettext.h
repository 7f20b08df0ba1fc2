// Catalogues of translated messages, as gettext's msgfmt writes them (*.mo).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/text/parallel_text.h"

namespace mantissa {

// The messages of a catalogue and their translations, in its order, as pairs of `document`.
// Contexts are left out. Messages with plurals give their first form. White space between words
// becomes one space. `skipped` counts messages without a word or a translation. Both byte orders
// are read, and iconv brings charsets to UTF-8. Source: GNU gettext's manual, "The Format of GNU MO
// Files". Errors: bytes that are no catalogue, tables or texts beyond their end, a charset that the
// system does not know, text that is not of the charset.
Result<std::vector<SentencePair>> parse_catalogue(std::string_view bytes,
                                                  const std::string& document, int64_t& skipped);

}  // namespace mantissa

#include "data/tokenizers/byte_bpe/byte_bpe.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <queue>

#include "data/tokenizers/byte_bpe/byte_alphabet.h"
#include "data/tokenizers/common/code_point.h"
#include "formats/json_tree.h"

namespace mantissa {
namespace {

std::string shown(const std::string& text) {
  constexpr size_t kMost = 60;
  return json_quoted(text.substr(0, kMost));
}

uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

// A token within a piece, between its neighbours; gone: it was merged into its left neighbour.
struct Symbol {
  int32_t token;
  int64_t left, right;
  bool gone = false;
};

// A pair that may be merged: the lowest rank first, then the leftmost.
struct Candidate {
  int32_t rank;
  int64_t at;
  int32_t left, right, merged;
  bool operator<(const Candidate& other) const {
    return std::pair(rank, at) > std::pair(other.rank, other.at);
  }
};

}  // namespace

Result<ByteBpe> ByteBpe::create(std::vector<std::string> tokens, const std::vector<Merge>& merges,
                                ByteBpeOptions options) {
  ByteBpe bpe;
  bpe.tokens_ = std::move(tokens);
  bpe.options_ = std::move(options);
  MANTISSA_RETURN_IF_ERROR(bpe.index_tokens());
  MANTISSA_RETURN_IF_ERROR(bpe.index_merges(merges));
  MANTISSA_RETURN_IF_ERROR(bpe.index_added());
  return bpe;
}

Status ByteBpe::index_tokens() {
  if (tokens_.empty() || tokens_.size() > kMostByteBpeTokens) {
    return invalid_input("its tokenizer has " + std::to_string(tokens_.size()) + " tokens; 1 to " +
                         std::to_string(kMostByteBpeTokens) + " are possible");
  }
  const ByteBpeOptions& o = options_;
  for (const int32_t number : {o.first, o.last, o.begin, o.end, o.padding}) {
    if (number >= -1 && number < std::ssize(tokens_)) continue;
    return invalid_input("its tokenizer names the token " + std::to_string(number) + ", and has " +
                         std::to_string(tokens_.size()));
  }
  special_.resize(tokens_.size());
  bytes_.resize(tokens_.size());
  byte_tokens_.fill(-1);
  std::vector<bool> is_added(tokens_.size());
  for (const AddedToken& token : o.added) {
    const bool fits = token.number >= 0 && token.number < std::ssize(tokens_) &&
                      tokens_[static_cast<size_t>(token.number)] == token.text;
    if (!fits) {
      return invalid_input("its added token " + shown(token.text) + " has the number " +
                           std::to_string(token.number) + ", which is another token's");
    }
    is_added[static_cast<size_t>(token.number)] = true;
    special_[static_cast<size_t>(token.number)] = token.special;
  }
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const auto number = static_cast<int32_t>(i);
    if (!numbers_.emplace(tokens_[i], number).second) {
      return invalid_input("its tokenizer has the token " + shown(tokens_[i]) + " twice");
    }
    if (first_not_utf8(tokens_[i]) < tokens_[i].size()) {
      return invalid_input("its token " + std::to_string(i) + " is not UTF-8");
    }
    const std::optional<std::string> bytes = bytes_of_alphabet(tokens_[i]);
    bytes_[i] = bytes && !is_added[i] ? *bytes : tokens_[i];
    if (!bytes || bytes->empty()) continue;
    if (bytes->size() == 1) byte_tokens_[static_cast<uint8_t>((*bytes)[0])] = number;
    if (o.ignores_merges && !is_added[i]) wholes_.emplace(bytes_[i], number);
  }
  return {};
}

Status ByteBpe::index_merges(const std::vector<Merge>& merges) {
  merges_.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    const std::string merged = left + right;
    const auto number = [&](const std::string& token) {
      const auto found = numbers_.find(token);
      return found == numbers_.end() ? -1 : found->second;
    };
    for (const std::string& token : {left, right, merged}) {
      if (number(token) >= 0) continue;
      return invalid_input("its merge " + std::to_string(rank) + " has " + shown(token) +
                           ", which is no token");
    }
    merges_.emplace(pair_key(number(left), number(right)),
                    MergeResult{static_cast<int32_t>(rank), number(merged)});
  }
  return {};
}

Status ByteBpe::index_added() {
  for (const bool with_special : {false, true}) {
    std::array<std::vector<AddedToken>, 2> tokens;
    std::array<std::vector<std::string>, 2> texts;
    for (const AddedToken& token : options_.added) {
      if (token.special && !with_special) continue;
      tokens[token.normalised].push_back(token);
      texts[token.normalised].push_back(token.normalised ? normalised(token.text) : token.text);
    }
    finders_[with_special] = AddedTokenFinder(std::move(tokens[0]), std::move(texts[0]));
    normalised_finders_[with_special] = AddedTokenFinder(std::move(tokens[1]), std::move(texts[1]));
  }
  return {};
}

std::vector<ByteBpe::Merge> ByteBpe::merges() const {
  std::vector<std::pair<int32_t, uint64_t>> by_rank;
  by_rank.reserve(merges_.size());
  for (const auto& [pair, result] : merges_) by_rank.emplace_back(result.rank, pair);
  std::sort(by_rank.begin(), by_rank.end());
  std::vector<Merge> list;
  list.reserve(by_rank.size());
  for (const auto& [rank, pair] : by_rank) {
    list.emplace_back(tokens_[pair >> 32], tokens_[pair & UINT32_MAX]);
  }
  return list;
}

std::string ByteBpe::bytes_without_token() const {
  std::string bytes;
  for (size_t byte = 0; byte < byte_tokens_.size(); ++byte) {
    if (byte_tokens_[byte] < 0) bytes += static_cast<char>(byte);
  }
  return bytes;
}

const ByteBpe::MergeResult* ByteBpe::merge_of(int32_t left, int32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

std::string ByteBpe::normalised(std::string_view text) const {
  if (!options_.composes) return std::string(text);
  utf8proc_uint8_t* composed = nullptr;
  const auto length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &composed,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (length < 0) return std::string(text);  // memory is short
  std::string result(reinterpret_cast<const char*>(composed), static_cast<size_t>(length));
  std::free(composed);
  return result;
}

bool ByteBpe::encode_piece(std::string_view piece, std::vector<int32_t>& tokens) const {
  if (options_.ignores_merges) {
    const auto whole = wholes_.find(piece);
    if (whole != wholes_.end()) return tokens.push_back(whole->second), true;
  }
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  for (int64_t i = 0; i < std::ssize(piece); ++i) {
    const int32_t token = byte_tokens_[static_cast<uint8_t>(piece[static_cast<size_t>(i)])];
    if (token < 0) return false;
    symbols.push_back({token, i - 1, i + 1 < std::ssize(piece) ? i + 1 : -1});
  }
  std::priority_queue<Candidate> queue;
  const auto consider = [&](int64_t at) {
    if (at < 0 || symbols[static_cast<size_t>(at)].right < 0) return;
    const int32_t left = symbols[static_cast<size_t>(at)].token;
    const int32_t right =
        symbols[static_cast<size_t>(symbols[static_cast<size_t>(at)].right)].token;
    if (const MergeResult* merge = merge_of(left, right)) {
      queue.push({merge->rank, at, left, right, merge->token});
    }
  };
  for (int64_t i = 0; i < std::ssize(symbols); ++i) consider(i);
  while (!queue.empty()) {
    const Candidate next = queue.top();
    queue.pop();
    Symbol& left = symbols[static_cast<size_t>(next.at)];
    if (left.gone || left.token != next.left || left.right < 0) continue;
    Symbol& right = symbols[static_cast<size_t>(left.right)];
    if (right.token != next.right) continue;  // it has been merged since
    left.token = next.merged;
    left.right = right.right;
    right.gone = true;
    if (left.right >= 0) symbols[static_cast<size_t>(left.right)].left = next.at;
    consider(left.left);
    consider(next.at);
  }
  for (const Symbol& symbol : symbols) {
    if (!symbol.gone) tokens.push_back(symbol.token);
  }
  return true;
}

Error ByteBpe::unknown_byte(std::string_view text) const {
  for (size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<uint8_t>(text[at]);
    if (byte_tokens_[byte] >= 0) continue;
    constexpr std::string_view kDigits = "0123456789abcdef";
    return invalid_input(std::string("has the byte 0x") + kDigits[byte / 16] + kDigits[byte % 16] +
                         ", for which the tokenizer has no token: " + text_place(text, at));
  }
  return invalid_input("has a character for which the tokenizer has no token");
}

Result<std::vector<int32_t>> ByteBpe::encode(std::string_view text, Special special) const {
  if (const size_t at = first_not_utf8(text); at < text.size()) {
    return invalid_input("is not UTF-8: " + text_place(text, at));
  }
  const bool with_special = special == Special::kAreTokens;
  std::vector<int32_t> tokens;
  bool known = true;
  const auto add_token = [&](int32_t token) { tokens.push_back(token); };
  const auto add_pieces = [&](std::string_view part) {
    for_pre_tokens(part, options_.pre_tokenizer,
                   [&](std::string_view piece) { known = known && encode_piece(piece, tokens); });
  };
  const auto add_part = [&](std::string_view part) {
    if (!options_.composes) {
      return normalised_finders_[with_special].divide(part, add_pieces, add_token);
    }
    normalised_finders_[with_special].divide(normalised(part), add_pieces, add_token);
  };
  finders_[with_special].divide(text, add_part, add_token);
  if (!known) return unknown_byte(text);
  return tokens;
}

std::string ByteBpe::decode(std::span<const int32_t> tokens, bool with_special) const {
  std::string text;
  for (const int32_t token : tokens) {
    if (is_special(token) && !with_special) continue;
    text += bytes_[static_cast<size_t>(token)];
  }
  return text;
}

}  // namespace mantissa

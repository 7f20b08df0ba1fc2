#include "data/tokenizers/wordpiece_learner.h"

#include <algorithm>
#include <array>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "data/tokenizers/bert_words.h"
#include "data/tokenizers/common/code_point.h"

namespace mantissa {
namespace {

// Two pieces beside each other, by their numbers.
using Pair = std::pair<int32_t, int32_t>;

struct PairHash {
  size_t operator()(const Pair& pair) const {
    const auto both = static_cast<uint64_t>(static_cast<uint32_t>(pair.first)) << 32 |
                      static_cast<uint32_t>(pair.second);
    return std::hash<uint64_t>()(both * 0x9E3779B97F4A7C15U);
  }
};

struct Word {
  std::vector<int32_t> pieces;
  int64_t count;
};

// How often a pair occurred when it was put into the queue.
struct Candidate {
  int64_t count;
  Pair pair;
  bool operator<(const Candidate& other) const {
    return std::tie(count, other.pair) < std::tie(other.count, pair);
  }
};

// The words of a text and how often they occur, in the order of their bytes.
std::map<std::string, int64_t> count_words(std::string_view text, const WordPieceOptions& options) {
  std::unordered_map<std::string, int64_t> counts;
  while (!text.empty()) {
    for_bert_words(next_text_part(text), options,
                   [&](std::string_view word) { ++counts[std::string(word)]; });
  }
  std::erase_if(counts, [&](const auto& item) {
    return std::count_if(item.first.begin(), item.first.end(),
                         [](char c) { return (c & 0xC0) != 0x80; }) > options.longest_word;
  });
  return {counts.begin(), counts.end()};
}

class Learner {
 public:
  explicit Learner(const WordPieceOptions& options) : options_(options) {
    for (const std::string& special :
         {options.padding, options.unknown, options.first, options.last, options.mask}) {
      add(special);
    }
  }

  const std::vector<std::string>& pieces() const { return pieces_; }

  void take_words(const std::map<std::string, int64_t>& counts) {
    std::set<std::string> all, inside;
    for (const auto& [word, count] : counts) {
      for (size_t at = 0; at < word.size();) {
        const std::string character = word.substr(at, code_point_at(word, at).length);
        if (at > 0) inside.insert(options_.continuation + character);
        at += character.size();
        all.insert(character);
      }
    }
    // The order of UTF-8 is the one of code points.
    for (const std::string& character : all) add(character);
    for (const std::string& character : inside) add(character);
    for (const auto& [word, count] : counts) {
      std::vector<int32_t> pieces;
      for (size_t at = 0; at < word.size();) {
        const size_t length = code_point_at(word, at).length;
        pieces.push_back(
            numbers_.at((at > 0 ? options_.continuation : "") + word.substr(at, length)));
        at += length;
      }
      words_.push_back({std::move(pieces), count});
      count_pairs(static_cast<uint32_t>(words_.size() - 1), 1);
    }
    for (const auto& [pair, count] : counts_) queue_.push({count, pair});
  }

  // Merges pairs until there are this many pieces, or no pair is left.
  void merge_until(int64_t size) {
    while (std::ssize(pieces_) < size && !queue_.empty()) {
      const Candidate next = queue_.top();
      queue_.pop();
      const int64_t count = counts_[next.pair];
      if (count == next.count && count > 0) {
        merge(next.pair);
      } else if (count > 0 && count < next.count) {  // more: another candidate says so
        queue_.push({count, next.pair});
      }
    }
  }

 private:
  int32_t add(const std::string& piece) {
    const auto [found, is_new] = numbers_.emplace(piece, static_cast<int32_t>(pieces_.size()));
    if (is_new) pieces_.push_back(piece);
    return found->second;
  }

  // Adds a word's pairs to the counts, or with -1 takes them away.
  void count_pairs(uint32_t word, int64_t sign) {
    const auto& [pieces, count] = words_[word];
    for (size_t i = 1; i < pieces.size(); ++i) {
      const Pair pair = {pieces[i - 1], pieces[i]};
      counts_[pair] += sign * count;
      if (sign > 0) where_[pair].push_back(word);
    }
  }

  void merge(const Pair& pair) {
    const std::string second = pieces_[pair.second].substr(options_.continuation.size());
    const int32_t merged = add(pieces_[pair.first] + second);
    std::unordered_set<Pair, PairHash> grown;
    for (const uint32_t word : std::exchange(where_[pair], {})) {
      std::vector<int32_t> joined = with_pair_joined(words_[word].pieces, pair, merged);
      if (joined.size() == words_[word].pieces.size()) continue;
      count_pairs(word, -1);
      words_[word].pieces = std::move(joined);
      count_pairs(word, 1);
      const std::vector<int32_t>& now = words_[word].pieces;
      for (size_t i = 1; i < now.size(); ++i) {
        if (now[i - 1] == merged || now[i] == merged) grown.insert({now[i - 1], now[i]});
      }
    }
    for (const Pair& each : grown) queue_.push({counts_[each], each});
  }

  static std::vector<int32_t> with_pair_joined(const std::vector<int32_t>& pieces, const Pair& pair,
                                               int32_t merged) {
    std::vector<int32_t> joined;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const bool is_pair =
          i + 1 < pieces.size() && pieces[i] == pair.first && pieces[i + 1] == pair.second;
      joined.push_back(is_pair ? merged : pieces[i]);
      if (is_pair) ++i;
    }
    return joined;
  }

  const WordPieceOptions& options_;
  std::vector<std::string> pieces_;
  std::unordered_map<std::string, int32_t> numbers_;
  std::vector<Word> words_;
  std::unordered_map<Pair, int64_t, PairHash> counts_;
  std::unordered_map<Pair, std::vector<uint32_t>, PairHash> where_;  // words, some of them before
  std::priority_queue<Candidate> queue_;
};

}  // namespace

std::string_view next_text_part(std::string_view& text) {
  constexpr size_t kMost = size_t{1} << 16;
  size_t end = std::min(text.size(), kMost);
  if (end < text.size()) {
    const size_t space = text.substr(0, end).find_last_of(" \n");
    if (space != std::string_view::npos) {
      end = space + 1;
    } else {
      while (end > 1 && (text[end] & 0xC0) == 0x80) --end;
    }
  }
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end);
  return part;
}

Result<WordPiece> learn_wordpiece(std::string_view text, int64_t size,
                                  const WordPieceOptions& options) {
  const std::map<std::string, int64_t> words = count_words(text, options);
  if (words.empty()) return invalid_input("has no word that pieces could be learned from");
  Learner learner(options);
  learner.take_words(words);
  const auto needed = std::ssize(learner.pieces());
  if (needed > size) {
    return invalid_input("needs " + std::to_string(needed) +
                         " pieces for its characters and the special tokens, and the vocabulary is "
                         "to have " +
                         std::to_string(size) + ": choose a larger --vocabulary");
  }
  learner.merge_until(size);
  const auto found = std::ssize(learner.pieces());
  if (found == size) return WordPiece::create(learner.pieces(), options);
  return invalid_input("gives " + std::to_string(found) +
                       " pieces, with which every word is one; " + "the vocabulary is to have " +
                       std::to_string(size) + ": choose --vocabulary " + std::to_string(found) +
                       " or less");
}

}  // namespace mantissa

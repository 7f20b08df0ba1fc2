#include "data/text/packed_conversations.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

namespace mantissa {
namespace {

// The conversations of each sequence, by their numbers.
struct Packing {
  std::vector<int64_t> begins;  // of the conversations in the tokens, and the end of the last
  std::vector<std::vector<uint32_t>> sequences;

  // Positions that a conversation takes.
  int64_t length(uint32_t i) const { return begins[i + 1] - begins[i] - 1; }
};

Packing pack(std::span<const Token> tokens, int64_t sequence) {
  Packing packing{.begins = example_begins(tokens), .sequences = {}};
  std::vector<uint32_t> order(packing.begins.size() - 1);
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](uint32_t i) { return packing.length(i); });
  std::set<std::pair<int64_t, size_t>> rooms;  // positions that are left, and the sequence
  for (const uint32_t i : order) {
    const int64_t length = packing.length(i);
    auto room = rooms.lower_bound({length, 0});
    if (room == rooms.end()) {
      room = rooms.emplace(sequence, packing.sequences.size()).first;
      packing.sequences.emplace_back();
    }
    const auto [left, place] = *room;
    rooms.erase(room);
    rooms.emplace(left - length, place);
    packing.sequences[place].push_back(i);
  }
  return packing;
}

// The tensors of a sequence, each [sequence].
struct Places {
  int32_t *tokens, *labels, *starts;
};

void write(const Packing& packing, std::span<const Token> tokens, uint32_t example,
           int64_t sequence, Token padding, const Places& to) {
  int64_t at = 0;
  for (const uint32_t i : packing.sequences[example]) {
    const Token* const from = tokens.data() + packing.begins[i];
    const int64_t start = at;
    for (int64_t k = 0; k < packing.length(i); ++k, ++at) {
      to.tokens[at] = from[k] & kTokenMask;
      to.labels[at] = (from[k + 1] & kAnswerMark) != 0 ? from[k + 1] & kTokenMask : kIgnoredLabel;
      to.starts[at] = static_cast<int32_t>(start);
    }
  }
  std::fill(to.tokens + at, to.tokens + sequence, padding);
  std::fill(to.labels + at, to.labels + sequence, kIgnoredLabel);
  std::fill(to.starts + at, to.starts + sequence, static_cast<int32_t>(at));
}

std::string note_of(const Packing& packing, int64_t sequence) {
  const auto alone = std::ssize(packing.begins) - 1, packed = std::ssize(packing.sequences);
  const int64_t used = packing.begins.back() - alone;
  return "packed: " + std::to_string(alone) + " conversations of " + std::to_string(used) +
         " tokens in " + std::to_string(packed) + " sequences of " + std::to_string(sequence) +
         "; padding: " + std::to_string(packed * sequence - used) + " tokens in place of " +
         std::to_string(alone * sequence - used) + ", " +
         std::to_string((alone - packed) * sequence) + " saved";
}

int64_t bytes_of(const Packing& packing) {
  int64_t bytes = std::ssize(packing.begins) * int64_t{sizeof(int64_t) + sizeof(uint32_t)};
  bytes += std::ssize(packing.sequences) * int64_t{sizeof(std::vector<uint32_t>) + 16};
  return bytes;
}

}  // namespace

PackedExamples packed_answer_examples(std::span<const Token> tokens, int64_t sequence,
                                      Token padding) {
  const auto packing = std::make_shared<const Packing>(pack(tokens, sequence));
  PackedExamples packed;
  packed.bytes = bytes_of(*packing);
  packed.note = note_of(*packing, sequence);
  packed.examples.count = std::ssize(packing->sequences);
  packed.examples.specs = specs_for(TextTask::kNextToken, sequence);
  packed.examples.specs.push_back({kStartTensor, DataType::kInt32, Shape{sequence}});
  packed.examples.write = [tokens, packing, sequence, padding](
                              uint32_t, uint32_t example, std::span<std::byte* const> places) {
    const auto numbers = [&](size_t i) { return reinterpret_cast<int32_t*>(places[i]); };
    write(*packing, tokens, example, sequence, padding, {numbers(0), numbers(1), numbers(2)});
  };
  return packed;
}

}  // namespace mantissa

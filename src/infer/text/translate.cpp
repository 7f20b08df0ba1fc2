#include "infer/text/translate.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/checked.h"
#include "data/text/text.h"
#include "infer/tasks/language.h"
#include "infer/text/beam.h"
#include "kernels/kernel_table.h"

namespace mantissa {
namespace {

// A translation has at most twice as many tokens as the source, and this many more.
constexpr int64_t kMoreTokens = 16;
// Programs are made for sources whose lengths are multiples of this. After every kBucket steps they
// are made for the sentences that are not done yet.
constexpr int64_t kBucket = 16;

// A sentence and the decoder's rows that belong to it, as many as its beam is wide.
struct Sentence {
  std::span<const Token> source;
  Beam beam;
  int64_t first_row = 0;
  std::vector<int64_t> rows = {};  // of the hypotheses that go on

  // Gives each hypothesis the row of the one that it continues; if several continue one, copies of
  // the row.
  void follow(int64_t width, Decoder& decoder) {
    const std::vector<Hypothesis>& live = beam.live();
    std::vector<int64_t> next(live.size(), -1);
    std::vector<bool> is_taken(width, false);
    for (size_t k = 0; k < live.size(); ++k) {
      const int64_t row = rows[live[k].parent];
      if (is_taken[row - first_row]) continue;
      is_taken[row - first_row] = true;
      next[k] = row;
    }
    for (size_t k = 0; k < live.size(); ++k) {
      if (next[k] >= 0) continue;
      const auto free = std::find(is_taken.begin(), is_taken.end(), false);
      *free = true;
      next[k] = first_row + (free - is_taken.begin());
      decoder.copy(rows[live[k].parent], next[k]);
    }
    rows = std::move(next);
  }

  void move_to(int64_t row, Decoder& decoder) {
    if (row == first_row) return;
    for (int64_t& each : rows) {
      decoder.copy(each, each - first_row + row);
      each += row - first_row;
    }
    first_row = row;
  }
};

class Translator {
 public:
  Translator(FrozenNetwork& network, int64_t sequence, Token end, const TranslationOptions& options,
             ThreadPool& pool, Isa isa)
      : network_(network),
        sequence_(sequence),
        end_(end),
        options_(options),
        pool_(pool),
        isa_(isa),
        table_(kernels::select_kernels(isa)) {}

  Beam beam_of(std::span<const Token> source) const {
    return {options_.beam, end_, most_tokens(std::ssize(source))};
  }

  // Translates sentences of similar length together.
  Status translate(std::span<Sentence> sentences) const {
    int64_t longest = 0;
    std::vector<std::span<const Token>> sources;
    std::vector<Sentence*> live;
    for (Sentence& one : sentences) {
      longest = std::max(longest, std::ssize(one.source));
      one.first_row = std::ssize(live) * options_.beam;
      one.rows = {one.first_row};
      sources.push_back(one.source);
      live.push_back(&one);
    }
    MANTISSA_ASSIGN(const std::unique_ptr<Decoder> decoder,
                    Decoder::create(network_,
                                    {.rows = std::ssize(live) * options_.beam,
                                     .positions = most_tokens(longest),
                                     .source = std::min(sequence_, round_up(longest, kBucket)),
                                     .form = options_.form},
                                    pool_, isa_));
    MANTISSA_RETURN_IF_ERROR(decoder->begin(sources));
    int64_t rows = 0;
    for (int64_t step = 0; !live.empty(); ++step) {
      if (step % kBucket == 0) rows = move_to_front(live, *decoder);
      MANTISSA_RETURN_IF_ERROR(advance(live, rows, step, *decoder));
      std::erase_if(live, [](const Sentence* one) { return one->beam.live().empty(); });
    }
    return {};
  }

 private:
  int64_t most_tokens(int64_t source) const {
    return std::min(sequence_, 2 * source + kMoreTokens);
  }

  // Returns how many rows there are.
  int64_t move_to_front(std::span<Sentence* const> sentences, Decoder& decoder) const {
    int64_t row = 0;
    for (Sentence* const one : sentences) {
      one->move_to(row, decoder);
      row += options_.beam;
    }
    return row;
  }

  // All hypotheses have `step` tokens, and get one more.
  Status advance(std::span<Sentence* const> sentences, int64_t rows, int64_t step,
                 Decoder& decoder) const {
    std::vector<Token> tokens;
    for (const Sentence* const one : sentences) {
      for (size_t k = 0; k < one->rows.size(); ++k) {
        const std::vector<Token>& before = one->beam.live()[k].tokens;
        tokens.assign(1, end_);
        tokens.insert(tokens.end(), before.begin(), before.end());
        decoder.set(one->rows[k], tokens);
      }
    }
    MANTISSA_RETURN_IF_ERROR(decoder.run(rows, step, step + 1));
    for (Sentence* const one : sentences) {
      std::vector<TokenLogits> logits;
      for (const int64_t row : one->rows) logits.push_back(decoder.logits(row));
      one->beam.extend(std::move(logits), *table_.softmax);
      one->follow(options_.beam, decoder);
    }
    return {};
  }

  FrozenNetwork& network_;
  int64_t sequence_;
  Token end_;
  TranslationOptions options_;
  ThreadPool& pool_;
  Isa isa_;
  kernels::KernelTable table_;
};

Result<std::string> joined(std::span<const std::string> sentences) {
  std::string lines;
  for (size_t i = 0; i < sentences.size(); ++i) {
    if (sentences[i].find('\n') != std::string::npos) {
      return invalid_input("sentence " + std::to_string(i + 1) + " has several lines");
    }
    lines += sentences[i] + "\n";
  }
  return lines;
}

}  // namespace

Result<TranslatedTexts> translate_sentences(FrozenNetwork& network,
                                            std::span<const std::string> sentences,
                                            const TranslationOptions& options, ThreadPool& pool,
                                            Isa isa, const TranslationObserver& observer) {
  const std::string& name = network.description.network.name;
  const auto language = language_options(network.description.network);
  MANTISSA_ASSIGN(const Vocabulary vocabulary, vocabulary_of(network.description));
  const auto end = vocabulary.line_feed();
  if (!language.ok() || language->task != TextTask::kTranslation || !end) {
    return invalid_input("network '" + name + "' does not translate, as transformer_nmt does");
  }
  MANTISSA_ASSIGN(const std::string text, joined(sentences));
  TranslatedTexts result;
  MANTISSA_ASSIGN(const std::vector<Token> tokens,
                  vocabulary.encode(vocabulary.known_part(text, result.unknown)));
  const auto lines = lines_of(tokens, *end);
  result.texts.resize(sentences.size());
  std::vector<size_t> order;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].empty()) order.push_back(i);
    result.truncated += std::ssize(lines[i]) > language->sequence;
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lines[a].size() < lines[b].size(); });
  const Translator translator(network, language->sequence, *end, options, pool, isa);
  const auto group = static_cast<size_t>(options.batch_size);
  for (size_t first = 0; first < order.size(); first += group) {
    const auto members = std::span(order).subspan(first, std::min(group, order.size() - first));
    std::vector<Sentence> together;
    for (const size_t i : members) {
      const auto read = std::min(lines[i].size(), static_cast<size_t>(language->sequence));
      const auto source = lines[i].first(read);
      together.push_back({source, translator.beam_of(source)});
    }
    MANTISSA_RETURN_IF_ERROR(translator.translate(together));
    for (size_t i = 0; i < members.size(); ++i) {
      result.texts[members[i]] = vocabulary.decode(together[i].beam.best().tokens);
    }
    if (observer == nullptr || observer(static_cast<int64_t>(first + members.size()))) continue;
    return make_error(ErrorCode::kInterrupted, "interrupted while translating");
  }
  return result;
}

}  // namespace mantissa

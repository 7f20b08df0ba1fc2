#include "train/translate.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "data/ordered_batches.h"
#include "data/text.h"
#include "graph/input_shapes.h"
#include "kernels/kernel_table.h"
#include "train/beam.h"
#include "train/language.h"
#include "train/token_logits.h"

namespace mantissa {
namespace {

// Tokens that programs are made for: multiples of this, so that short sentences are not computed as
// long ones.
constexpr int64_t kBucket = 16;

struct Sentence {
  std::span<const Token> source;
  Beam beam;
};

// The network for sources and targets of so many tokens, and for so many hypotheses at once.
class Window {
 public:
  static Result<std::unique_ptr<Window>> create(FrozenNetwork& network, int64_t source,
                                                int64_t target, int64_t rows, ThreadPool& pool,
                                                Isa isa) {
    std::unique_ptr<Window> window(new Window(source, target, rows));
    std::vector<Shape> shapes;
    for (const int input : network.graph.inputs) {
      const std::string& name = network.graph.values[input].name;
      shapes.push_back(name == kSourceTensor         ? Shape{source}
                       : name == kSourceLengthTensor ? Shape{}
                                                     : Shape{target});
    }
    MANTISSA_ASSIGN(window->graph_, with_input_shapes(network.graph, shapes));
    const kernels::KernelTable table = kernels::select_kernels(isa);
    MANTISSA_ASSIGN(window->program_, compile_inference(window->graph_, network.description.format,
                                                        rows, false, {&table, pool.size()}));
    MANTISSA_ASSIGN(window->arena_, AlignedMemory::create(window->program_.arena_bytes));
    window->programs_ = std::make_unique<Programs>(window->graph_, network.state,
                                                   Machine{pool, window->arena_->span(), isa});
    window->programs_->add(window->program_);
    return window;
  }

  int64_t target() const { return target_; }

  void set_source(int64_t row, std::span<const Token> source) {
    std::copy(source.begin(), source.end(), source_tokens_.begin() + row * source_);
    lengths_[row] = static_cast<int32_t>(source.size());
  }
  void set_target(int64_t row, Token first, std::span<const Token> tokens) {
    const auto to = target_tokens_.begin() + row * target_;
    *to = first;
    std::copy(tokens.begin(), tokens.end(), to + 1);
  }

  // Computes all rows. The results are outputs().
  Status run() {
    const auto spec = [](const char* name, const Shape& shape) {
      return TensorSpec{name, DataType::kInt32, shape};
    };
    MANTISSA_ASSIGN(
        OrderedBatches batches,
        OrderedBatches::create(
            array_examples(std::ssize(lengths_),
                           {{spec(kSourceTensor, Shape{source_}), source_tokens_.data()},
                            {spec(kSourceLengthTensor, Shape{}), lengths_.data()},
                            {spec(kTranslationTensor, Shape{target_}), target_tokens_.data()}}),
            std::ssize(lengths_)));
    const auto result = programs_->infer(batches.next());
    return result.ok() ? Status() : Status(result.error());
  }

  TokenLogits logits(int64_t row, int64_t position) const {
    return logits_at(programs_->outputs(), row * target_ + position);
  }

 private:
  Window(int64_t source, int64_t target, int64_t rows)
      : source_(source),
        target_(target),
        source_tokens_(rows * source, 0),
        target_tokens_(rows * target, 0),
        lengths_(rows, 1) {}

  int64_t source_, target_;
  std::vector<int32_t> source_tokens_, target_tokens_, lengths_;
  Graph graph_;
  Program program_;
  std::optional<AlignedMemory> arena_;
  std::unique_ptr<Programs> programs_;
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
    return {options_.beam, end_, std::min(sequence_, 2 * std::ssize(source) + kBucket)};
  }

  // Translates sentences of similar length together.
  Status translate(std::span<Sentence> sentences) {
    int64_t longest = 0;
    for (const Sentence& one : sentences) longest = std::max(longest, std::ssize(one.source));
    const int64_t source = std::min(sequence_, round_up(longest, kBucket));
    for (int64_t step = 0; step < sequence_;) {
      std::vector<Sentence*> live;
      for (Sentence& one : sentences) {
        if (!one.beam.live().empty()) live.push_back(&one);
      }
      if (live.empty()) break;
      const int64_t target = std::min(sequence_, round_up(step + 1, kBucket));
      MANTISSA_ASSIGN(
          const std::unique_ptr<Window> window,
          Window::create(network_, source, target, std::ssize(live) * options_.beam, pool_, isa_));
      for (size_t i = 0; i < live.size(); ++i) {
        for (int64_t k = 0; k < options_.beam; ++k) {
          window->set_source(row_of(i, k), live[i]->source);
        }
      }
      for (; step < target; ++step) MANTISSA_RETURN_IF_ERROR(advance(live, step, *window));
    }
    return {};
  }

 private:
  int64_t row_of(size_t sentence, int64_t hypothesis) const {
    return static_cast<int64_t>(sentence) * options_.beam + hypothesis;
  }

  // All hypotheses have `step` tokens, and get one more.
  Status advance(std::span<Sentence* const> sentences, int64_t step, Window& window) const {
    for (size_t i = 0; i < sentences.size(); ++i) {
      const auto& hypotheses = sentences[i]->beam.live();
      for (size_t k = 0; k < hypotheses.size(); ++k) {
        window.set_target(row_of(i, static_cast<int64_t>(k)), end_, hypotheses[k].tokens);
      }
    }
    MANTISSA_RETURN_IF_ERROR(window.run());
    for (size_t i = 0; i < sentences.size(); ++i) {
      Beam& beam = sentences[i]->beam;
      std::vector<TokenLogits> logits;
      for (size_t k = 0; k < beam.live().size(); ++k) {
        logits.push_back(window.logits(row_of(i, static_cast<int64_t>(k)), step));
      }
      beam.extend(std::move(logits), *table_.softmax);
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

Result<Translations> translate_sentences(FrozenNetwork& network,
                                         std::span<const std::string> sentences,
                                         const TranslationOptions& options, ThreadPool& pool,
                                         Isa isa, const TranslationObserver& observer) {
  const std::string& name = network.description.network.name;
  const auto language = language_options(network.description.network);
  const Vocabulary vocabulary(network.description.class_names);
  const auto end = vocabulary.line_feed();
  if (!language.ok() || language->task != TextTask::kTranslation || !end) {
    return invalid_input("network '" + name + "' does not translate, as transformer_nmt does");
  }
  MANTISSA_ASSIGN(const std::string text, joined(sentences));
  MANTISSA_ASSIGN(const std::vector<Token> tokens, vocabulary.encode(text));
  const auto lines = lines_of(tokens, *end);
  Translations result;
  result.texts.resize(sentences.size());
  std::vector<size_t> order;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].empty()) order.push_back(i);
    result.truncated += std::ssize(lines[i]) > language->sequence;
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lines[a].size() < lines[b].size(); });
  Translator translator(network, language->sequence, *end, options, pool, isa);
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

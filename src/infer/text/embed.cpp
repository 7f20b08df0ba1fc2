#include "infer/text/embed.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "data/batches/ordered_batches.h"
#include "graph/input_shapes.h"
#include "infer/frozen_network.h"
#include "infer/programs.h"
#include "kernels/kernel_table.h"
#include "models/bert.h"
#include "ops/wide_values.h"

namespace mantissa {
namespace {

// A sentence as the network reads it: special tokens around its own.
struct TokenisedSentence {
  std::vector<int32_t> tokens;
  bool is_truncated = false;
};

Result<TokenisedSentence> tokenise(const WordPiece& tokenizer, const std::string& text,
                                   int64_t sequence) {
  TokenisedSentence sentence;
  MANTISSA_ASSIGN(sentence.tokens, tokenizer.encode(text));
  const auto most = static_cast<size_t>(sequence - 2);
  sentence.is_truncated = sentence.tokens.size() > most;
  if (sentence.is_truncated) sentence.tokens.resize(most);
  sentence.tokens.insert(sentence.tokens.begin(), tokenizer.first());
  sentence.tokens.push_back(tokenizer.last());
  return sentence;
}

// Lengths that sentences are padded to.
constexpr int64_t kSentenceBucket = 16;

int64_t bucket_of(const TokenisedSentence& sentence, int64_t sequence) {
  return std::min(sequence, round_up<int64_t>(std::ssize(sentence.tokens), kSentenceBucket));
}

// The mean of the first rows of an example's results, as a vector of length 1.
void pool_rows(const Tensor& results, int64_t example, int64_t rows, float* to) {
  const int64_t sequence = results.shape[1], channels = results.shape[2];
  std::vector<double> sums(static_cast<size_t>(channels), 0);
  for (int64_t row = example * sequence; row < example * sequence + rows; ++row) {
    const int64_t at = row * channels;
    if (results.type == DataType::kFloat) {
      for (int64_t c = 0; c < channels; ++c) sums[c] += results.as<float>()[at + c];
      continue;
    }
    const ops::Mantissas mantissas(results);
    const double unit = std::ldexp(1.0, results.row_exponent(row));
    for (int64_t c = 0; c < channels; ++c) {
      sums[c] += static_cast<double>(mantissas[at + c]) * unit;
    }
  }
  double squares = 0;
  for (const double sum : sums) squares += sum * sum;
  const double norm = std::sqrt(squares);
  for (int64_t c = 0; c < channels; ++c) {
    to[c] = norm > 0 ? static_cast<float>(sums[c] / norm) : 0.0F;
  }
}

// The inputs of the sentences of a bucket.
struct BucketInputs {
  std::vector<int32_t> tokens, segments, lengths;

  BucketInputs(std::span<const TokenisedSentence> sentences, std::span<const int64_t> members,
               int64_t bucket, int32_t padding)
      : tokens(members.size() * bucket, padding), segments(tokens.size(), 0) {
    for (size_t i = 0; i < members.size(); ++i) {
      const auto& from = sentences[members[i]].tokens;
      std::copy(from.begin(), from.end(), tokens.begin() + static_cast<int64_t>(i) * bucket);
      lengths.push_back(static_cast<int32_t>(from.size()));
    }
  }

  Examples examples(int64_t bucket) const {
    const auto spec = [](const char* name, const Shape& shape) {
      return TensorSpec{name, DataType::kInt32, shape};
    };
    return array_examples(std::ssize(lengths),
                          {{spec(kBertTokens, Shape{bucket}), tokens.data()},
                           {spec(kBertSegments, Shape{bucket}), segments.data()},
                           {spec(kBertLengths, Shape{}), lengths.data()}});
  }
};

class Embedding {
 public:
  Embedding(Encoder& encoder, const EmbeddingOptions& options, ThreadPool& pool, Isa isa)
      : encoder_(encoder), options_(options), pool_(pool), isa_(isa) {}

  // Computes the sentences `members`, all of one bucket; found(member, results, example, rows) for
  // each.
  template <typename Found>
  Status run(std::span<const TokenisedSentence> sentences, std::span<const int64_t> members,
             int64_t bucket, const Found& found) {
    const Shape shapes[] = {Shape{bucket}, Shape{bucket}, Shape{}};
    MANTISSA_ASSIGN(const Graph graph, with_input_shapes(encoder_.graph, shapes));
    const kernels::KernelTable table = kernels::select_kernels(isa_);
    const auto count = std::ssize(members);
    const int64_t batch = std::min(options_.batch_size, count);
    std::vector<Program> made;
    for (const int64_t size : {batch, count % batch}) {
      if (size == 0) continue;
      MANTISSA_ASSIGN(Program program, compile_inference(graph, encoder_.format, size, false,
                                                         {&table, pool_.size()}));
      made.push_back(std::move(program));
    }
    int64_t bytes = 0;
    for (const Program& program : made) bytes = std::max(bytes, program.arena_bytes);
    MANTISSA_ASSIGN(const AlignedMemory arena, AlignedMemory::create(bytes));
    Programs programs(graph, encoder_.state, {pool_, arena.span(), isa_});
    for (const Program& program : made) programs.add(program);
    const BucketInputs inputs(sentences, members, bucket, encoder_.tokenizer.padding());
    MANTISSA_ASSIGN(OrderedBatches batches, OrderedBatches::create(inputs.examples(bucket), batch));
    for (Batch next = batches.next(); next.count > 0; next = batches.next()) {
      MANTISSA_RETURN_IF_ERROR(programs.infer(next));
      for (int64_t i = 0; i < next.count; ++i) {
        const uint32_t example = next.examples[i];
        found(members[example], programs.outputs(), i, int64_t{inputs.lengths[example]});
      }
      MANTISSA_RETURN_IF_ERROR(step(next.count));
    }
    return {};
  }

  void observe(const EmbeddingObserver& observer) { observer_ = &observer; }

 private:
  Status step(int64_t count) {
    done_ += count;
    if (observer_ == nullptr || *observer_ == nullptr || (*observer_)(done_)) return {};
    return make_error(ErrorCode::kInterrupted, "interrupted while embedding");
  }

  Encoder& encoder_;
  const EmbeddingOptions& options_;
  ThreadPool& pool_;
  Isa isa_;
  const EmbeddingObserver* observer_ = nullptr;
  int64_t done_ = 0;
};

}  // namespace

Result<SentenceVectors> embed_sentences(Encoder& encoder, std::span<const std::string> sentences,
                                        const EmbeddingOptions& options, ThreadPool& pool, Isa isa,
                                        const EmbeddingObserver& observer) {
  constexpr int64_t kLeastSequence = 3;  // one token between the special ones
  const int64_t most = encoder.tokenizer.options().most_tokens;
  const int64_t usual = most > 0 ? std::min(most, encoder.sequence()) : encoder.sequence();
  const int64_t sequence = options.sequence == 0 ? usual : options.sequence;
  if (sequence < kLeastSequence) return invalid_input("sequence: is at least 3");
  std::vector<TokenisedSentence> tokenised;
  SentenceVectors vectors;
  vectors.channels = encoder.channels();
  for (size_t i = 0; i < sentences.size(); ++i) {
    auto sentence = tokenise(encoder.tokenizer, sentences[i], sequence);
    if (!sentence.ok()) {
      return invalid_input("sentence " + std::to_string(i + 1) + ": " + sentence.error().message);
    }
    vectors.truncated += sentence->is_truncated ? 1 : 0;
    tokenised.push_back(std::move(*sentence));
  }
  vectors.numbers.resize(sentences.size() * static_cast<size_t>(vectors.channels));
  std::vector<int64_t> order(sentences.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto bucket = [&](int64_t i) { return bucket_of(tokenised[i], sequence); };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return bucket(a) < bucket(b); });
  Embedding embedding(encoder, options, pool, isa);
  embedding.observe(observer);
  for (auto first = order.begin(); first != order.end();) {
    const int64_t length = bucket(*first);
    const auto last =
        std::find_if(first, order.end(), [&](int64_t i) { return bucket(i) != length; });
    MANTISSA_RETURN_IF_ERROR(embedding.run(
        tokenised, {first, last}, length,
        [&](int64_t member, const Tensor& results, int64_t example, int64_t rows) {
          pool_rows(results, example, rows, vectors.numbers.data() + member * vectors.channels);
        }));
    first = last;
  }
  return vectors;
}

}  // namespace mantissa

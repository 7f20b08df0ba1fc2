#include "infer/text/decoder.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/checked.h"
#include "data/text/text.h"
#include "graph/input_shapes.h"
#include "infer/text/decoded_part.h"
#include "kernels/kernel_table.h"

namespace mantissa {
namespace {

// Translations without a cache have programs for multiples of this many positions.
constexpr int64_t kPositionBucket = 16;

// Whether it is the input that grows token by token.
bool is_decoded(const Value& input) {
  return input.name == kTokenTensor || input.name == kTranslationTensor;
}

// The network for other lengths of sequences.
Result<Graph> with_lengths(const Graph& network, int64_t source, int64_t positions) {
  std::vector<Shape> shapes;
  for (const int input : network.inputs) {
    const std::string& name = network.values[input].name;
    shapes.push_back(name == kSourceTensor         ? Shape{source}
                     : name == kSourceLengthTensor ? Shape{}
                                                   : Shape{positions});
  }
  return with_input_shapes(network, shapes);
}

}  // namespace

Decoder::Decoder(FrozenNetwork& network, const DecoderOptions& options, ThreadPool& pool, Isa isa)
    : network_(network),
      options_(options),
      pool_(pool),
      isa_(isa),
      source_tokens_(options.rows * options.source, 0),
      lengths_(options.rows, 0),
      tokens_(options.rows * options.positions, 0),
      piece_tokens_(options.rows * options.positions, 0) {}

Result<std::unique_ptr<Decoder>> Decoder::create(FrozenNetwork& network,
                                                 const DecoderOptions& options, ThreadPool& pool,
                                                 Isa isa) {
  std::unique_ptr<Decoder> decoder(new Decoder(network, options, pool, isa));
  if (options.form == DecodingForm::kCached) MANTISSA_RETURN_IF_ERROR(decoder->find_cached_form());
  MANTISSA_RETURN_IF_ERROR(decoder->allocate());
  return decoder;
}

// Chooses the cached form if the network and its format allow it.
Status Decoder::find_cached_form() {
  const Graph& graph = network_.graph;
  const auto tokens = std::find_if(graph.inputs.begin(), graph.inputs.end(),
                                   [&](int input) { return is_decoded(graph.values[input]); });
  auto given = values_given_to_decoder(graph, *tokens);
  if (!given) return {};
  // A source's values are handed over without the exponents of their rows.
  if (network_.description.format.has_row_exponents() && !given->empty()) return {};
  form_ = DecodingForm::kCached;
  given_values_ = std::move(*given);
  return {};
}

// The cache, and an arena for single positions and for as many as are computed at once; without a
// cache for all positions.
Status Decoder::allocate() {
  std::vector<int64_t> sizes = {options_.positions};
  if (is_cached()) sizes = {1, std::min(options_.at_once, options_.positions)};
  int64_t most = 0;
  for (const int64_t positions : sizes) {
    std::unique_ptr<Piece>& piece = pieces_[{options_.rows, positions}];
    if (piece != nullptr) continue;
    MANTISSA_ASSIGN(piece, compile_piece(options_.rows, positions, piece_options()));
    cache_bytes_ = piece->program.cache_bytes;
    most = std::max(most, piece->program.arena_bytes);
  }
  if (is_cached()) {
    MANTISSA_ASSIGN(cache_,
                    AlignedMemory::create(options_.rows * cache_bytes_, "the cache of positions"));
  }
  MANTISSA_ASSIGN(arena_, AlignedMemory::create(most));
  return {};
}

DecoderMemory Decoder::memory() const {
  DecoderMemory memory{.weights = std::ssize(network_.state.all_bytes())};
  if (cache_) memory.cache = std::ssize(cache_->span());
  if (arena_) memory.arena = std::ssize(arena_->span());
  for (const auto& [sizes, piece] : pieces_) {
    if (piece->arena) memory.arena += std::ssize(piece->arena->span());
  }
  return memory;
}

ProgramOptions Decoder::piece_options() const {
  if (!is_cached()) return {};
  return {.results = network_.graph.outputs,
          .given = given_values_,
          .cached_positions = options_.positions};
}

// The piece without its memory.
Result<std::unique_ptr<Decoder::Piece>> Decoder::compile_piece(int64_t rows, int64_t positions,
                                                               ProgramOptions options) const {
  auto piece = std::make_unique<Piece>();
  MANTISSA_ASSIGN(piece->graph, with_lengths(network_.graph, options_.source, positions));
  options.kind = ProgramKind::kInference;
  options.micro_batch_size = rows;
  options.with_loss = false;
  options.exponents = ExponentMode::kFixed;
  options.format = network_.description.format;
  const kernels::KernelTable table = kernels::select_kernels(isa_);
  MANTISSA_ASSIGN(piece->program, compile(piece->graph, options, {&table, pool_.size()}));
  return piece;
}

Status Decoder::give_arena(Piece& piece, std::span<std::byte> shared) const {
  if (std::ssize(shared) < piece.program.arena_bytes) {
    MANTISSA_ASSIGN(piece.arena, AlignedMemory::create(piece.program.arena_bytes));
    shared = piece.arena->span();
  }
  piece.executor.emplace(piece.graph, piece.program, network_.state, shared, pool_, isa_);
  return {};
}

Result<Decoder::Piece*> Decoder::piece_of(int64_t rows, int64_t positions) {
  std::unique_ptr<Piece>& piece = pieces_[{rows, positions}];
  if (piece == nullptr) {
    MANTISSA_ASSIGN(piece, compile_piece(rows, positions, piece_options()));
  }
  if (!piece->executor) {
    MANTISSA_RETURN_IF_ERROR(give_arena(*piece, arena_ ? arena_->span() : std::span<std::byte>()));
    if (cache_) piece->executor->set_cache(cache_->span());
  }
  return piece.get();
}

std::vector<const void*> Decoder::inputs_of(const Piece& piece, const int32_t* targets) const {
  std::vector<const void*> inputs;
  for (const int input : piece.graph.inputs) {
    const Value& value = piece.graph.values[input];
    inputs.push_back(value.name == kSourceTensor         ? source_tokens_.data()
                     : value.name == kSourceLengthTensor ? lengths_.data()
                     : is_decoded(value)                 ? targets
                                                         : nullptr);
  }
  for (const Given& given : given_) inputs.push_back(given.rows.data());
  return inputs;
}

Status Decoder::begin(std::span<const std::span<const Token>> sources) {
  const int64_t each = options_.rows / std::ssize(sources);
  // In the place of the first rows while the source's part of the network runs.
  const auto place = [&](int64_t row, std::span<const Token> source) {
    const auto to = source_tokens_.begin() + row * options_.source;
    std::fill(std::copy(source.begin(), source.end(), to), to + options_.source, 0);
    lengths_[row] = static_cast<int32_t>(source.size());
  };
  if (is_cached() && !given_values_.empty()) {
    for (int64_t i = 0; i < std::ssize(sources); ++i) place(i, sources[i]);
    MANTISSA_RETURN_IF_ERROR(give(sources));
  }
  for (int64_t row = 0; row < each * std::ssize(sources); ++row) place(row, sources[row / each]);
  return {};
}

// Computes the values that depend on the sources alone, and gives each row the part of its source.
Status Decoder::give(std::span<const std::span<const Token>> sources) {
  const int64_t count = std::ssize(sources), each = options_.rows / count;
  MANTISSA_ASSIGN(const std::unique_ptr<Piece> encoder,
                  compile_piece(count, 1, {.results = given_values_}));
  MANTISSA_RETURN_IF_ERROR(give_arena(*encoder, {}));
  const auto ran = encoder->executor->infer(inputs_of(*encoder, nullptr));
  if (!ran.ok()) return ran.error();
  given_.clear();
  for (int i = 0; i < std::ssize(given_values_); ++i) {
    const Tensor value = encoder->executor->output(i);
    Given& given = given_.emplace_back();
    given.row_bytes = value.count() * element_bytes(value.type) / count;
    given.rows.resize(options_.rows * given.row_bytes);
    for (int64_t row = 0; row < each * count; ++row) {
      std::memcpy(given.rows.data() + row * given.row_bytes,
                  value.as<std::byte>() + row / each * given.row_bytes,
                  static_cast<size_t>(given.row_bytes));
    }
  }
  return {};
}

void Decoder::set(int64_t row, std::span<const Token> tokens) {
  std::copy(tokens.begin(), tokens.end(), tokens_.begin() + row * options_.positions);
}

// Without a cache the program of a translation has a few more positions. No position sees the ones
// after it.
int64_t Decoder::whole_positions(int64_t end) const {
  return options_.source > 0 ? std::min(options_.positions, round_up(end, kPositionBucket))
                             : options_.positions;
}

Status Decoder::run(int64_t rows, int64_t first, int64_t end) {
  if (!is_cached()) first = 0;
  const int64_t positions = is_cached() ? end - first : whole_positions(end);
  MANTISSA_ASSIGN(Piece* const piece, piece_of(rows, positions));
  for (int64_t row = 0; row < rows; ++row) {
    std::copy_n(tokens_.begin() + row * options_.positions + first, positions,
                piece_tokens_.begin() + row * positions);
  }
  const auto ran = piece->executor->infer(inputs_of(*piece, piece_tokens_.data()), first);
  if (!ran.ok()) return ran.error();
  last_ = piece;
  last_positions_ = positions;
  last_place_ = end - 1 - first;
  return {};
}

TokenLogits Decoder::logits(int64_t row) const {
  return logits_at(last_->executor->output(0), row * last_positions_ + last_place_);
}

void Decoder::copy(int64_t from, int64_t to) {
  const auto copy_row = [&](std::byte* rows, int64_t bytes) {
    std::memcpy(rows + to * bytes, rows + from * bytes, static_cast<size_t>(bytes));
  };
  if (cache_) copy_row(cache_->data(), cache_bytes_);
  for (Given& given : given_) copy_row(given.rows.data(), given.row_bytes);
  std::copy_n(source_tokens_.begin() + from * options_.source, options_.source,
              source_tokens_.begin() + to * options_.source);
  lengths_[to] = lengths_[from];
}

}  // namespace mantissa

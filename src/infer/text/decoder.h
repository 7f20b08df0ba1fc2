// Logits for the next token, position after position, of a network that reads tokens. Each new
// token is computed alone, from a cache of the positions before (docs/decisions/0094).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/system/cpu.h"
#include "base/system/thread_pool.h"
#include "infer/frozen_network.h"
#include "infer/text/token_logits.h"
#include "runtime/executor.h"
#include "runtime/memory.h"

namespace mantissa {

enum class DecodingForm : uint8_t {
  kCached,  // new positions alone, if all operators of the network can do that; else kWhole
  kWhole,   // all positions for each new one, without a cache: the reference
};

struct DecoderOptions {
  int64_t rows = 1;       // sequences at once
  int64_t positions = 1;  // of a sequence, at most
  int64_t source = 0;     // tokens of the longest source; 0: the network has none
  int64_t at_once = 1;    // positions of a row that are computed at once, at most
  DecodingForm form = DecodingForm::kCached;
};

// The memory of a decoder beside its program, in bytes.
struct DecoderMemory {
  int64_t weights = 0, cache = 0, arena = 0;
};

class Decoder {
 public:
  // Everything except the options must outlive it. Errors: the network does not take such
  // sequences, no memory.
  static Result<std::unique_ptr<Decoder>> create(FrozenNetwork& network,
                                                 const DecoderOptions& options, ThreadPool& pool,
                                                 Isa isa);

  // Whether it computes new positions alone.
  bool is_cached() const { return form_ == DecodingForm::kCached; }

  // With the cache of all rows, and the arena that all programs share.
  DecoderMemory memory() const;

  // The sources, each for the same number of rows, one after the other. The network's values that
  // depend on a source alone are computed now, once.
  Status begin(std::span<const std::span<const Token>> sources);

  // The first tokens of a row. Tokens that were computed must stay the same.
  void set(int64_t row, std::span<const Token> tokens);

  // Computes the positions [first, end) of the first `rows` rows. The positions before must have
  // been computed.
  Status run(int64_t rows, int64_t first, int64_t end);

  // The logits for the token after the last computed position.
  TokenLogits logits(int64_t row) const;

  // From now on the row `to` has the source and the computed positions of the row `from`. Its
  // tokens must still be set.
  void copy(int64_t from, int64_t to);

 private:
  // The network for this many rows, and this many positions of each.
  struct Piece {
    Graph graph;
    Program program;
    std::optional<AlignedMemory> arena;  // if it does not fit the shared one
    std::optional<Executor> executor;
  };
  // A value that depends on the source alone: of one row, and of all rows.
  struct Given {
    int64_t row_bytes = 0;
    std::vector<std::byte> rows;
  };

  Decoder(FrozenNetwork& network, const DecoderOptions& options, ThreadPool& pool, Isa isa);
  Result<std::unique_ptr<Piece>> compile_piece(int64_t rows, int64_t positions,
                                               ProgramOptions program) const;
  Status give_arena(Piece& piece, std::span<std::byte> shared) const;
  ProgramOptions piece_options() const;
  Status find_cached_form();
  Status allocate();
  int64_t whole_positions(int64_t end) const;
  Result<Piece*> piece_of(int64_t rows, int64_t positions);
  std::vector<const void*> inputs_of(const Piece& piece, const int32_t* targets) const;
  Status give(std::span<const std::span<const Token>> sources);

  FrozenNetwork& network_;
  const DecoderOptions options_;
  ThreadPool& pool_;
  Isa isa_;
  DecodingForm form_ = DecodingForm::kWhole;
  std::vector<int> given_values_;
  std::vector<Given> given_;
  std::vector<int32_t> source_tokens_, lengths_, tokens_;  // of all rows
  std::vector<int32_t> piece_tokens_;
  std::optional<AlignedMemory> cache_;
  std::optional<AlignedMemory> arena_;  // of all programs: one of them runs at a time
  int64_t cache_bytes_ = 0;  // of a row
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<Piece>> pieces_;
  const Piece* last_ = nullptr;  // that ran
  int64_t last_positions_ = 0;   // of a row there
  int64_t last_place_ = 0;       // of the last position that was wanted
};

}  // namespace mantissa

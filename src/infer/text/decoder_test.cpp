// Decoding with a cache gives the logits, and texts, of decoding without one.
#include "infer/text/decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/random.h"
#include "data/batches/ordered_batches.h"
#include "data/text/text.h"
#include "graph/op.h"
#include "infer/freeze.h"
#include "infer/text/decoded_part.h"
#include "infer/text/generate.h"
#include "infer/text/translate.h"
#include "models/decoder.h"
#include "models/models.h"
#include "networks/adapters.h"
#include "networks/language/block_network.h"
#include "ops/ops.h"
#include "plan/passes/network_format.h"
#include "plan/programs/verify.h"

namespace mantissa {
namespace {

constexpr int64_t kSequence = 24, kExamples = 4;
// Formats whose rows have exponents of their own.
constexpr const char *kToken = "bfp:block=channel,blocks=token",
                     *kWideToken = "bfp:block=channel,blocks=token,a=16";
const std::vector<std::string> kPieces = {"\n", "a", "b", "c", "d", "e", "f", "g", "h"};

int32_t drawn(uint64_t place, uint64_t below) {
  return static_cast<int32_t>(
      uniform_below(random_bits(5, RandomStream::kShuffle, 0, place), below));
}

std::vector<Token> tokens_of(uint64_t seed, int64_t count) {
  std::vector<Token> tokens;
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back(
        static_cast<Token>(1 + drawn(seed * 1000 + static_cast<uint64_t>(i), kPieces.size() - 1)));
  }
  return tokens;
}

// A network with the random weights that training starts from, frozen on random tokens.
FrozenNetwork frozen(Graph network, const std::string& format_name) {
  const Format format = *parse_format(format_name);
  const Graph graph = in_format(network, format);
  auto state = State::create(training_layout(graph, format, OptimizerKind::kAdam));
  initialise(graph, format, 3, *state);
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  const auto calibration = compile(graph,
                                   {.kind = ProgramKind::kInference,
                                    .micro_batch_size = kExamples,
                                    .with_loss = false,
                                    .exponents = ExponentMode::kCalibrate,
                                    .format = format},
                                   {&table, 1});
  EXPECT_TRUE(calibration.ok()) << (calibration.ok() ? "" : calibration.error().message);
  const auto arena = AlignedMemory::create(freeze_bytes(*calibration));
  std::vector<std::vector<int32_t>> numbers;
  std::vector<ExampleArray> arrays;
  numbers.reserve(graph.inputs.size());
  for (const int input : graph.inputs) {
    const Value& value = graph.values[input];
    std::vector<int32_t>& all = numbers.emplace_back();
    for (int64_t i = 0; i < kExamples * value.shape.count(); ++i) {
      all.push_back(1 + drawn(static_cast<uint64_t>(i + 7919 * input), kPieces.size() - 1));
    }
    arrays.push_back({{value.name, DataType::kInt32, value.shape}, all.data()});
  }
  auto batches = OrderedBatches::create(array_examples(kExamples, arrays), kExamples);
  FrozenDescription description;
  description.network = std::move(network);
  description.format = format;
  description.class_names = kPieces;
  description.form = frozen_form(graph, format);
  Graph frozen_graph = freeze_graph(graph, description.form);
  State frozen_state = std::move(*State::create(frozen_layout(frozen_graph, format)));
  FrozenNetwork result{std::move(description), std::move(frozen_graph), std::move(frozen_state)};
  ThreadPool pool(1);
  const Status status =
      freeze(graph, *state, *calibration, {pool, arena->span(), best_isa()}, *batches, result);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  return result;
}

FrozenNetwork frozen_model(const char* model, const std::string& format) {
  auto graph = build_model(
      model, {.classes = std::ssize(kPieces), .width_multiplier = 0.5, .sequence = kSequence});
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
  return frozen(std::move(*graph), format);
}

std::unique_ptr<Decoder> decoder_of(FrozenNetwork& network, DecoderOptions options,
                                    DecodingForm form, ThreadPool& pool, Isa isa = best_isa()) {
  options.form = form;
  auto decoder = Decoder::create(network, options, pool, isa);
  EXPECT_TRUE(decoder.ok()) << (decoder.ok() ? "" : decoder.error().message);
  return std::move(*decoder);
}

// Logits of fp32 may differ in their last bits: its sums are in the order of a library that chooses
// by the number of rows. 2^-20 is the unit of the mantissas.
void expect_same(const TokenLogits& a, const TokenLogits& b, const std::string& what) {
  ASSERT_EQ(a.mantissas.size(), kPieces.size()) << what;
  ASSERT_EQ(a.exponent, b.exponent) << what;
  if (what.find("fp32") == std::string::npos) {
    ASSERT_EQ(a.mantissas, b.mantissas) << what;
    return;
  }
  for (size_t i = 0; i < a.mantissas.size(); ++i) {
    ASSERT_LE(std::abs(a.mantissas[i] - b.mantissas[i]), 8) << what;
  }
}

void expect_ok(const Status& status) {
  ASSERT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
}

// The logits behind each position, computed without a cache.
std::vector<TokenLogits> reference(FrozenNetwork& network, std::span<const Token> tokens) {
  ThreadPool pool(1);
  const auto decoder =
      decoder_of(network, {.positions = kSequence}, DecodingForm::kWhole, pool, Isa::kScalar);
  EXPECT_FALSE(decoder->is_cached());
  std::vector<TokenLogits> logits;
  for (int64_t end = 1; end <= std::ssize(tokens); ++end) {
    decoder->set(0, tokens.first(end));
    expect_ok(decoder->run(1, end - 1, end));
    logits.push_back(decoder->logits(0));
  }
  return logits;
}

TEST(Decoder, GivesTheLogitsOfLanguageModelsWithoutACache) {
  for (const char* model : {"transformer_lm", "lstm_lm", "gru_lm"}) {
    for (const char* format :
         {"bfp8", "dfp8", "bfp:block=channel", kToken, "fp32"}) {
      const bool has_rows = std::string_view(format).find("token") != std::string_view::npos;
      if (has_rows && std::string_view(model) != "transformer_lm") continue;
      FrozenNetwork network = frozen_model(model, format);
      const std::vector<Token> tokens = tokens_of(1, kSequence), others = tokens_of(2, kSequence);
      const auto wanted = reference(network, tokens), of_others = reference(network, others);
      EXPECT_NE(wanted[5].mantissas, wanted[6].mantissas);
      for (const int threads : {1, 3}) {
        ThreadPool pool(threads);
        const auto decoder =
            decoder_of(network, {.positions = kSequence}, DecodingForm::kCached, pool);
        ASSERT_TRUE(decoder->is_cached()) << model;
        // Pieces of several sizes, then, from the start again, another sequence.
        for (const auto& [sequence, logits, longest] :
             {std::tuple(tokens, wanted, 5), std::tuple(others, of_others, 1)}) {
          decoder->set(0, sequence);
          for (int64_t first = 0, size = longest; first < kSequence; first += size) {
            size = std::min<int64_t>(first % 3 == 0 ? longest : 1, kSequence - first);
            expect_ok(decoder->run(1, first, first + size));
            const std::string what = std::string(model) + " " + format + " at " +
                                     std::to_string(first + size - 1) + " with " +
                                     std::to_string(threads);
            expect_same(decoder->logits(0), logits[first + size - 1], what);
          }
        }
      }
    }
  }
}

TEST(Decoder, GivesTheLogitsOfTranslatorsWithoutACache) {
  for (const char* model : {"transformer_nmt", "lstm_nmt"}) {
    for (const char* format : {"bfp8", "dfp8", "fp32"}) {
      FrozenNetwork network = frozen_model(model, format);
      // Three sources for two rows each.
      const std::vector<Token> sources[] = {tokens_of(3, 9), tokens_of(4, 1), tokens_of(5, 5)};
      const std::vector<std::span<const Token>> spans(std::begin(sources), std::end(sources));
      const DecoderOptions options{.rows = 6, .positions = kSequence, .source = 12};
      for (const int threads : {1, 3}) {
        ThreadPool one(1), pool(threads);
        const auto whole = decoder_of(network, options, DecodingForm::kWhole, one, Isa::kScalar);
        const auto cached = decoder_of(network, options, DecodingForm::kCached, pool);
        ASSERT_TRUE(cached->is_cached()) << model;
        std::vector<std::vector<Token>> targets;
        for (uint64_t row = 0; row < 6; ++row) targets.push_back(tokens_of(10 + row, kSequence));
        expect_ok(whole->begin(spans));
        expect_ok(cached->begin(spans));
        int64_t rows = 6;
        for (int64_t step = 0; step < kSequence; ++step) {
          if (step == 7) {
            // A hypothesis goes on from another one of its sentence; later the first sentence is
            // done, and the last takes its place.
            std::copy_n(targets[2].begin(), step, targets[3].begin());
            for (const auto& decoder : {whole.get(), cached.get()}) decoder->copy(2, 3);
          } else if (step == 12) {
            rows = 4;
            for (const int64_t row : {0, 1}) {
              targets[row] = targets[row + 4];
              for (const auto& decoder : {whole.get(), cached.get()}) decoder->copy(row + 4, row);
            }
          }
          for (const auto& decoder : {whole.get(), cached.get()}) {
            for (int64_t row = 0; row < rows; ++row) decoder->set(row, targets[row]);
            expect_ok(decoder->run(rows, step, step + 1));
          }
          for (int64_t row = 0; row < rows; ++row) {
            expect_same(cached->logits(row), whole->logits(row),
                        std::string(model) + " " + format + " row " + std::to_string(row) + " at " +
                            std::to_string(step));
          }
        }
        EXPECT_NE(cached->logits(0).mantissas, cached->logits(2).mantissas);
      }
    }
  }
}

TEST(Decoder, HasConsistentProgramsThatDoNotRunWithoutTheirCache) {
  FrozenNetwork network = frozen_model("transformer_nmt", "bfp8");
  const Graph& graph = network.graph;
  const auto given = values_given_to_decoder(graph, graph.inputs[2]);
  ASSERT_TRUE(given);
  EXPECT_EQ(given->size(), 4U);  // keys and values of two blocks
  ThreadPool pool(1);
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  ProgramOptions options{.kind = ProgramKind::kInference,
                         .with_loss = false,
                         .exponents = ExponentMode::kFixed,
                         .results = *given};
  const auto encoder = compile(graph, options, {&table, 1});
  ASSERT_TRUE(encoder.ok()) << encoder.error().message;
  options.results = graph.outputs;
  options.given = *given;
  options.cached_positions = kSequence;
  const auto decoder = compile(graph, options, {&table, 1});
  ASSERT_TRUE(decoder.ok()) << decoder.error().message;
  const auto whole =
      compile(graph, {.kind = ProgramKind::kInference, .with_loss = false}, {&table, 1});
  EXPECT_EQ(encoder->instructions.size() + decoder->instructions.size(),
            whole->instructions.size());
  expect_ok(verify(graph, *encoder));
  expect_ok(verify(graph, *decoder));
  EXPECT_EQ(encoder->cache_bytes, 0);
  const auto arena = AlignedMemory::create(decoder->arena_bytes);
  Executor executor(graph, *decoder, network.state, arena->span(), pool, best_isa());
  const std::vector<int32_t> zeros(kSequence * 4096, 0);
  const std::vector<const void*> batch(graph.inputs.size() + given->size(), zeros.data());
  const auto ran = executor.infer(batch);
  ASSERT_FALSE(ran.ok());
  EXPECT_NE(ran.error().message.find("has no cache"), std::string::npos);
  const auto lacks = executor.infer(std::span(batch).first(graph.inputs.size()));
  ASSERT_FALSE(lacks.ok());
  EXPECT_NE(lacks.error().message.find("the network wants 'decoder1.cross.key"), std::string::npos)
      << lacks.error().message;
}

TEST(Decoder, TakesNetworksThatLookAheadWithoutACache) {
  GraphBuilder builder("looks_ahead");
  const int tokens = builder.add_input("tokens", Shape{kSequence}, Element::kIndex);
  const int x = builder.add(ops::kEmbedding, "embedding", {tokens},
                            {{"rows", std::ssize(kPieces)}, {"channels", 16}});
  const int y = builder.add(ops::kAttention, "attention", {x, x, x}, {{"heads", 2}});
  const int logits = builder.add(ops::kLinear, "classifier", {y},
                                 {{"channels", std::ssize(kPieces)}, {"classifier", 1}});
  FrozenNetwork network = frozen(*builder.finish(logits), "bfp8");
  ThreadPool pool(1);
  const auto decoder = decoder_of(network, {.positions = kSequence}, DecodingForm::kCached, pool);
  EXPECT_FALSE(decoder->is_cached());
  // Its memory is known before the first token: the arena of the program for the whole sequence.
  const DecoderMemory memory = decoder->memory();
  EXPECT_EQ(memory.cache, 0);
  EXPECT_GE(memory.arena, kSequence * 16);
  decoder->set(0, tokens_of(6, kSequence));
  expect_ok(decoder->run(1, 0, kSequence));
  EXPECT_EQ(decoder->memory().arena, memory.arena);
}

// All lengths of pieces share the arena of the longest.
TEST(Decoder, KnowsItsMemoryWithoutACache) {
  for (const char* model : {"transformer_nmt", "lstm_nmt"}) {
    FrozenNetwork network = frozen_model(model, "bfp8");
    ThreadPool pool(1);
    const auto decoder = decoder_of(network, {.rows = 2, .positions = kSequence, .source = 8},
                                    DecodingForm::kWhole, pool);
    const int64_t arena = decoder->memory().arena;
    EXPECT_GT(arena, 0) << model;
    const std::vector<Token> source = tokens_of(3, 8);
    const std::span<const Token> sources[] = {source};
    expect_ok(decoder->begin(sources));
    for (const int64_t end : {int64_t{1}, int64_t{17}, kSequence}) {
      expect_ok(decoder->run(2, 0, end));
      EXPECT_EQ(decoder->memory().arena, arena) << model << " at " << end;
    }
  }
}

// Its result is of one position, not of each new one.
TEST(Decoder, DoesNotGoOnBehindASliceOfOnePosition) {
  for (const int64_t position : {-1, 0}) {
    GraphBuilder builder("slices");
    const int tokens = builder.add_input("tokens", Shape{kSequence}, Element::kIndex);
    const int x =
        builder.add(ops::kEmbedding, "embedding", {tokens}, {{"rows", 9}, {"channels", 8}});
    const int part =
        builder.add(ops::kSlice, "part", {x}, {{"channels", 8}, {"position", position}});
    const Graph graph =
        *builder.finish(builder.add(ops::kLinear, "last", {part}, {{"channels", 9}}));
    EXPECT_EQ(values_given_to_decoder(graph, graph.inputs[0]).has_value(), position < 0);
  }
}

// A language model of all operators that say that they work row by row.
Graph of_rows() {
  GraphBuilder builder("of_rows");
  constexpr int64_t kChannels = 16;
  const int tokens = builder.add_input("tokens", Shape{kSequence}, Element::kIndex);
  int x = builder.add(ops::kEmbedding, "embedding", {tokens},
                      {{"rows", std::ssize(kPieces)}, {"channels", kChannels}});
  x = builder.add(ops::kPositionEmbedding, "positions", {x}, {{"positions", kSequence}});
  x = builder.add(ops::kSinusoidalPositions, "sines", {x});
  x = builder.add(ops::kRotary, "turned", {x}, {{"heads", 2}, {"channels", 6}});
  int i = 0;
  for (const Op* op : {&ops::kRelu6, &ops::kLeakyRelu, &ops::kSigmoid, &ops::kTanh,
                       &ops::kHardSigmoid, &ops::kHardSwish, &ops::kGelu, &ops::kSilu, &ops::kElu,
                       &ops::kSoftplus, &ops::kMish, &ops::kPrelu, &ops::kRelu,
                       &ops::kDropout, &ops::kRmsNorm, &ops::kLayerNorm, &ops::kRnn}) {
    const std::string name = "part" + std::to_string(++i);
    const int y = builder.add(ops::kLinear, name + ".linear", {x}, {{"channels", kChannels}});
    const int z = builder.add(*op, name, {y});
    const int product = builder.add(ops::kMultiply, name + ".product", {z, y});
    x = builder.add(ops::kLayerNorm, name + ".norm",
                    {builder.add(ops::kAdd, name + ".sum", {product, x})});
    const int both = builder.add(ops::kConcat, name + ".concat", {x, z});
    x = builder.add(ops::kSlice, name + ".slice", {both},
                    {{"first", kChannels / 2}, {"channels", kChannels}});
  }
  const int logits = builder.add(ops::kLinear, "classifier", {x},
                                 {{"channels", std::ssize(kPieces)}, {"classifier", 1}});
  auto graph = builder.finish(logits);
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
  return std::move(*graph);
}

// With a cache, and this many tokens at once, the network has the logits of the reference.
void expect_goes_on(FrozenNetwork& network, const std::string& what,
                    std::initializer_list<int64_t> pieces) {
  const std::vector<Token> tokens = tokens_of(6, kSequence);
  const auto wanted = reference(network, tokens);
  for (const int64_t piece : pieces) {
    ThreadPool pool(static_cast<int>(1 + piece % 3));
    const auto decoder =
        decoder_of(network, {.positions = kSequence, .at_once = 4}, DecodingForm::kCached, pool);
    ASSERT_TRUE(decoder->is_cached());
    decoder->set(0, tokens);
    for (int64_t at = 0; at < kSequence; at += piece) {
      const int64_t end = std::min<int64_t>(kSequence, at + piece);
      expect_ok(decoder->run(1, at, end));
      expect_same(decoder->logits(0), wanted[end - 1], what + " at " + std::to_string(end - 1));
    }
  }
}

TEST(Decoder, ComputesNewRowsAloneWithAllOperatorsThatWorkRowByRow) {
  for (const char* format : {"bfp8", "bfp:a=16", "bfp:linear=16", "fp32"}) {
    FrozenNetwork network = frozen(of_rows(), format);
    expect_goes_on(network, format, {1});
  }
}

// Rotary positions, heads that share keys, and windows shorter than the sequence.
Graph of_shared_keys() {
  GraphBuilder builder("shared_keys");
  const int tokens = builder.add_input("tokens", Shape{kSequence}, Element::kIndex);
  int x = builder.add(ops::kEmbedding, "embedding", {tokens},
                      {{"rows", std::ssize(kPieces)}, {"channels", 24}});
  for (const int64_t window : {0, 3}) {
    const std::string name = "block" + std::to_string(window) + ".";
    const auto linear = [&](const char* part, int64_t channels) {
      return builder.add(ops::kLinear, name + part, {x}, {{"channels", channels}});
    };
    const auto turned = [&](const char* part, int value, int64_t heads) {
      return builder.add(ops::kRotary, name + part, {value}, {{"heads", heads}, {"base", 30}});
    };
    const int queries = turned("turned_queries", linear("queries", 24), 4);
    const int keys = turned("turned_keys", linear("keys", 12), 2);
    const int seen = builder.add(
        ops::kAttention, name + "attention", {queries, keys, linear("values", 12)},
        {{"heads", 4}, {"kv_heads", 2}, {"causal", 1}, {"window", window}});
    x = builder.add(ops::kAdd, name + "sum", {x, seen});
  }
  return *builder.finish(builder.add(ops::kLinear, "classifier", {x},
                                     {{"channels", std::ssize(kPieces)}, {"classifier", 1}}));
}

// Multiplies rows of the first parameter, the table of tokens, by powers of two: rows of values
// have exponents that lie far apart, in no order.
void spread(FrozenNetwork& network) {
  const ParameterState& table = network.state.layout().parameters[0];
  auto* const exponents = network.state.data<int16_t>(table.exponent);
  for (size_t row = 0; row < kPieces.size(); ++row) {
    exponents[row] = static_cast<int16_t>(exponents[row] + static_cast<int16_t>(row * 5 % 13));
  }
}

TEST(Decoder, GoesOnWithRotaryPositionsSharedKeysAndWindows) {
  for (const char* format : {"bfp8", "bfp:a=16", kToken, kWideToken, "fp32"}) {
    FrozenNetwork network = frozen(of_shared_keys(), format);
    if (network.description.format.has_row_exponents()) spread(network);
    expect_goes_on(network, format, {1, 3, 5});
  }
}

// Norms within heads and scaled angles; a table of positions and slices of one layer.
TEST(Decoder, GoesOnWithOtherFamilies) {
  DecoderSizes qwen3 = {.layers = 2, .channels = 24, .heads = 4, .key_heads = 2,
                        .head_channels = 6, .inner = 32, .vocabulary = std::ssize(kPieces)};
  qwen3.rotary_factors = {1 << 23, 11 << 22, 9 << 23};
  qwen3.head_norms = true;
  DecoderSizes gpt2 = qwen3;
  gpt2.layout = DecoderLayout::kGpt2;
  gpt2.positions = kSequence;
  for (const DecoderSizes& sizes : {qwen3, gpt2}) {
    for (const char* format : {"bfp8", kToken, "fp32"}) {
      FrozenNetwork network = frozen(*decoder_lm("family", sizes, kSequence), format);
      expect_goes_on(network, format, {1});
    }
  }
}

// Numbers of a layer's adapters, which begin with zeros.
void fill_adapters(FrozenNetwork& network) {
  for (const Adapter& adapter : adapters_of(network.graph)) {
    const int tensor = network.state.layout().parameters[adapter.b].mantissa;
    int8_t value = 0;
    for (std::byte& each : network.state.bytes(tensor)) {
      each = static_cast<std::byte>(value = static_cast<int8_t>((value + 37) % 100 - 20));
    }
  }
}

// Imported language models: values of 8 and 16 bits, adapters beside layers, weights in blocks.
TEST(Decoder, GoesOnWithLanguageModelsInIntegers) {
  const DecoderSizes sizes = {.layers = 2, .channels = 32, .heads = 4, .key_heads = 2,
                              .head_channels = 8, .inner = 64, .vocabulary = std::ssize(kPieces)};
  const Graph plain = *decoder_lm("plain", sizes, kSequence);
  const std::pair<const char*, Graph> graphs[] = {
      {"plain", plain},
      {"adapters", *with_adapters(plain, {.rank = 2})},
      {"blocks", *with_weight_blocks(plain, [](int parameter) {
         return parameter == 0 ? BlockKind::kQ8_0 : BlockKind::kQ4_1;
       })}};
  for (const auto& [name, graph] : graphs) {
    FrozenNetwork network = frozen(graph, kToken);
    spread(network);
    fill_adapters(network);
    expect_goes_on(network, name, {1, 2, 4, 7, 24});
  }
}

// Earlier positions are read from the cache: other tokens in their place change nothing.
TEST(Decoder, ComputesNewPositionsAlone) {
  constexpr int64_t kBefore = 12;
  for (const char* format : {"bfp8", kToken}) {
    FrozenNetwork network = frozen(of_shared_keys(), format);
    const std::vector<Token> tokens = tokens_of(6, kSequence);
    std::vector<Token> others = tokens_of(9, kSequence);
    std::copy(tokens.begin() + kBefore, tokens.end(), others.begin() + kBefore);
    const auto wanted = reference(network, tokens);
    ASSERT_NE(reference(network, others)[kBefore].mantissas, wanted[kBefore].mantissas);
    ThreadPool pool(1);
    const auto decoder = decoder_of(network, {.positions = kSequence}, DecodingForm::kCached, pool);
    decoder->set(0, tokens);
    expect_ok(decoder->run(1, 0, kBefore));
    decoder->set(0, others);
    expect_ok(decoder->run(1, kBefore, kBefore + 1));
    expect_same(decoder->logits(0), wanted[kBefore], format);
  }
}

// Keys and values have their own widths there, and with exponents of rows 2 bytes more each.
TEST(Decoder, KnowsItsMemory) {
  // Two layers of 12 channels of keys and of values.
  for (const auto& [format, bytes] : {std::pair("bfp8", 1), {kToken, 1}, {kWideToken, 2}}) {
    FrozenNetwork network = frozen(of_shared_keys(), format);
    ThreadPool pool(1);
    const auto decoder = decoder_of(network, {.positions = kSequence}, DecodingForm::kCached, pool);
    const bool has_rows = network.description.format.has_row_exponents();
    const auto padded = [](int64_t count) { return (count + 63) / 64 * 64; };
    const int64_t each = padded(kSequence * 12 * bytes) + (has_rows ? padded(kSequence * 2) : 0);
    const DecoderMemory memory = decoder->memory();
    EXPECT_EQ(memory.cache, 4 * each) << format;
    EXPECT_EQ(memory.weights, std::ssize(network.state.all_bytes()));
    EXPECT_GT(memory.arena, 0);
  }
}

// Another text that begins in the same way: positions are computed again from where it differs.
TEST(Decoder, GoesBackToAnEarlierPosition) {
  for (const char* format : {"bfp8", "bfp:a=16", kToken, kWideToken, "fp32"}) {
    FrozenNetwork network = frozen(of_shared_keys(), format);
    const std::vector<Token> first = tokens_of(6, kSequence);
    ThreadPool pool(2);
    const auto decoder = decoder_of(network, {.positions = kSequence}, DecodingForm::kCached, pool);
    decoder->set(0, first);
    expect_ok(decoder->run(1, 0, kSequence));
    for (const int64_t from : {kSequence - 1, int64_t{9}, int64_t{2}}) {
      std::vector<Token> second = first;
      const std::vector<Token> others = tokens_of(8, kSequence);
      std::copy(others.begin() + from, others.end(), second.begin() + from);
      decoder->set(0, second);
      expect_ok(decoder->run(1, from, kSequence));
      expect_same(decoder->logits(0), reference(network, second).back(), format);
    }
  }
}

TEST(Decoder, GeneratesTheTextWithoutACache) {
  for (const char* model : {"transformer_lm", "gru_lm"}) {
    FrozenNetwork network = frozen_model(model, "bfp8");
    ThreadPool pool(2);
    const auto text = [&](DecodingForm form) {
      // Longer than the sequence, so that the window moves.
      const auto result =
          generate_text(network, "abcabc", {.length = 2 * kSequence}, form, pool, best_isa(),
                        nullptr);
      EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
      return result->text;
    };
    EXPECT_EQ(text(DecodingForm::kCached), text(DecodingForm::kWhole)) << model;
  }
}

TEST(Decoder, TranslatesAsWithoutACache) {
  const std::vector<std::string> sentences = {"abc", "hgfedcba", "", "b", "ddddddddddddddddddd"};
  for (const char* model : {"transformer_nmt", "lstm_nmt"}) {
    FrozenNetwork network = frozen_model(model, "bfp8");
    ThreadPool pool(2);
    for (const int64_t beam : {1, 3, 8}) {
      const auto texts = [&](DecodingForm form) {
        const auto result =
            translate_sentences(network, sentences, {.beam = beam, .batch_size = 3, .form = form},
                                pool, best_isa(), nullptr);
        EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
        return result->texts;
      };
      EXPECT_EQ(texts(DecodingForm::kCached), texts(DecodingForm::kWhole)) << model << " " << beam;
    }
  }
}

}  // namespace
}  // namespace mantissa

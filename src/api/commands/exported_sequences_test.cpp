// Exported networks of sequences compute what `predict` computes, in all that the command line's
// built-in networks do not have, and translators.
#include "api/commands/test_exported_sequences.h"
#include "models/json/network_json.h"
#include "models/translation.h"
#include "ops/loss.h"

namespace mantissa::testing {
namespace {

struct Kind {
  const char* op;
  int64_t gates;
  const char* exported;
};
constexpr Kind kKinds[] = {{"rnn", 1, "RNN"}, {"lstm", 4, "LSTM"}, {"gru", 3, "GRU"}};

Var gates_of(NetworkBuilder& b, const Kind& kind, Var from) {
  return b.add("linear", {from},
               {{"channels", kind.gates * kChannels}, {"least_bits", int64_t{16}}});
}
Var embedding(NetworkBuilder& b, Var tokens) {
  return b.add("embedding", {tokens}, {{"rows", kTokens}, {"channels", kChannels}});
}
Var last_position(NetworkBuilder& b, Var rows) {
  const Var flat = b.add("reshape", {rows}, {{"channels", kSteps * kChannels}});
  return b.add("slice", {flat}, {{"first", (kSteps - 1) * kChannels}, {"channels", kChannels}});
}
// The same by the operator's own attribute, as imports have it.
Var last_of_positions(NetworkBuilder& b, Var rows) {
  return b.add("slice", {rows}, {{"position", kSteps - 1}, {"channels", kChannels}});
}
Network finished(NetworkBuilder& b, Var result) {
  const Var logits = b.linear(kClasses, result, "classifier");
  b.cross_entropy(logits, "labels");
  auto network = b.finish({logits});
  EXPECT_TRUE(network.ok()) << network.error();
  return *network;
}

class ExportedSequences : public ExportedSequencesTest {
 protected:
  void expect_refused(NetworkBuilder& b, Var result, const std::vector<Sequences>& sequences,
                      const std::string& reason) const {
    const bool of_rows = b.dims(result).size() == 2;
    const Network network = finished(b, result);
    const Outcome<ExportedModel> outcome = exported(frozen(network, {sequences, of_rows}, "bfp8"));
    EXPECT_NE(outcome.error().find(reason), std::string::npos) << outcome.error();
  }
};

TEST_F(ExportedSequences, LayersInBothDirections) {
  for (const Kind& kind : kKinds) {
    NetworkBuilder b(kind.op);
    const Var embedded = embedding(b, b.indices("tokens", {kSteps}));
    OperatorSettings settings;
    if (std::string(kind.op) == "lstm") settings = {{"peepholes", int64_t{1}}};
    const Var forward = b.add(kind.op, {gates_of(b, kind, embedded)}, settings);
    const Var turned = b.add("reverse", {embedded});
    const Var backward = b.add("reverse", {b.add(kind.op, {gates_of(b, kind, turned)}, settings)});
    const Var both = b.add("concat", {forward, backward});
    expect_near(finished(b, b.add(kind.op, {gates_of(b, kind, both)})), {{source(false)}, true});
  }
}

TEST_F(ExportedSequences, LastStates) {
  for (const Kind& kind : kKinds) {
    for (const bool with_lengths : {false, true}) {
      NetworkBuilder b(kind.op);
      Var h = embedding(b, b.indices("tokens", {kSteps}));
      const Var lengths = with_lengths ? b.indices("lengths", {}) : Var{};
      for (int layer = 0; layer < 2; ++layer) {
        std::vector<Var> inputs = {gates_of(b, kind, h)};
        if (with_lengths) inputs.push_back(lengths);
        h = b.add(kind.op, inputs);
      }
      const Var last = kind.gates == 1 ? last_position(b, h) : last_of_positions(b, h);
      expect_near(finished(b, last), {{source(with_lengths)}, false});
    }
  }
}

TEST_F(ExportedSequences, StatesAtTheStart) {
  for (const Kind& kind : kKinds) {
    NetworkBuilder b(kind.op);
    const Var embedded = embedding(b, b.indices("tokens", {kSteps}));
    const Var lengths = b.indices("lengths", {});
    const Var last = last_position(b, b.add(kind.op, {gates_of(b, kind, embedded), lengths}));
    std::vector<Var> inputs = {gates_of(b, kind, embedded), lengths, last};
    OperatorSettings settings;
    if (kind.gates == 4) {
      inputs.push_back(b.linear(kChannels, last));
      settings = {{"peepholes", int64_t{1}}};
    }
    expect_near(finished(b, b.add(kind.op, inputs, settings)), {{source(true)}, true});
  }
}

// Rows of numbers in place of tokens, with attention between layers. Its rows of padding are zeros
// here and not in the file: the layer behind does not see them.
TEST_F(ExportedSequences, Numbers) {
  NetworkBuilder b("numbers");
  const Var rows = b.numbers("numbers", {kSteps, kChannels}, -12);
  const Var lengths = b.indices("lengths", {});
  const Var h = b.add("lstm", {gates_of(b, kKinds[1], rows), lengths});
  const Var placed = b.add("position_embedding", {h}, {{"positions", kSteps}});
  const Var seen = b.add("attention", {placed, b.linear(kChannels, rows), h, lengths},
                         {{"heads", int64_t{2}}, {"causal", int64_t{1}}});
  Sequences of = {"numbers", "lengths", "numbers", "attention_mask"};
  of.has_numbers = true;
  const Var last = last_position(b, b.add("gru", {gates_of(b, kKinds[2], seen), lengths}));
  expect_near(finished(b, last), {{of}, false});
}

// The networks that are built in, with two vocabularies of one size.
TEST_F(ExportedSequences, Translators) {
  for (const bool tied : {false, true}) {
    const TranslationSizes sizes = {.vocabulary = kTokens,
                                    .source = kSteps,
                                    .target = kSteps - 2,
                                    .channels = kChannels,
                                    .heads = 2,
                                    .tied = tied};
    for (const auto& make : {transformer_translator, lstm_translator}) {
      const Graph graph =
          *ops::with_loss(*make("translator", sizes), ops::LossKind::kCrossEntropy, 0);
      Sequences to = target();
      to.steps = sizes.target;
      expect_near(*Network::from_json(to_json(graph)), {{of_translator(), to}, true});
    }
  }
}

// Norms of heads, scaled angles, and GELU by tanh.
TEST_F(ExportedSequences, PartsOfOtherLanguageModels) {
  NetworkBuilder b("parts");
  const Var embedded = embedding(b, b.indices("tokens", {kSteps}));
  const auto turned = [&](const char* norm, const std::vector<int64_t>& factors) {
    const Var heads =
        b.add(norm, {b.linear(kChannels, embedded)}, {{"heads", int64_t{2}}, {"epsilon", 1e-3}});
    return b.add("rotary", {heads}, {{"heads", int64_t{2}}, {"factors", factors}});
  };
  const int64_t pairs = kChannels / 4;
  std::vector<int64_t> factors;
  for (int64_t i = 0; i < pairs; ++i) factors.push_back((1 << 23) + i * (1 << 22));
  const Var query = turned("rms_norm", factors), key = turned("layer_norm", {3 << 23});
  const Var seen = b.add("attention", {query, key, b.linear(kChannels, embedded)},
                         {{"heads", int64_t{2}}, {"causal", int64_t{1}}});
  expect_near(finished(b, b.add("gelu_tanh", {seen})), {{source(false)}, true}, 0.1);
}

// Sines that are added, pairs of channels that turn, keys that heads share, and a window.
TEST_F(ExportedSequences, PositionsAndHeads) {
  for (const int64_t interleaved : {0, 1}) {
    NetworkBuilder b("positions");
    const Var placed = b.add("sinusoidal_positions", {embedding(b, b.indices("tokens", {kSteps}))},
                             {{"interleaved", interleaved}});
    const auto turned = [&](int64_t heads) {
      return b.add("rotary", {b.linear(heads * kChannels / 2, placed)},
                   {{"heads", heads}, {"channels", int64_t{4}}, {"interleaved", interleaved}});
    };
    const Var query = turned(2), key = turned(1);
    const Var seen = b.add("attention", {query, key, b.linear(kChannels / 2, placed)},
                           {{"heads", int64_t{2}},
                            {"kv_heads", int64_t{1}},
                            {"window", int64_t{3}},
                            {"causal", interleaved}});
    expect_near(finished(b, seen), {{source(false)}, true}, 0.1);
  }
}

// Rows in front of the positions, positions one after the other, and sums and means of them.
TEST_F(ExportedSequences, RowsInFrontAndReductions) {
  NetworkBuilder b("reductions");
  const Var rows = embedding(b, b.indices("tokens", {kSteps}));
  const Var more = b.add("prepend_rows", {rows}, {{"rows", int64_t{2}}});
  const Var all = b.add("concat_positions", {more, rows});
  const Var sum = b.add("reduce_sum", {all});
  const Var image = b.add(
      "reshape", {all},
      {{"height", 2 * kSteps + 2}, {"width", int64_t{1}}, {"channels", kChannels}});
  const Var mean = b.add("global_average_pool", {image});
  expect_near(finished(b, b.add("concat", {sum, mean, b.add("reduce_mean", {rows})})),
              {{source(false)}, false}, 0.15);  // sums are large
}

// Rows that are taken and put, softmaxes, and biases by distance.
TEST_F(ExportedSequences, PlacesSharesAndBiases) {
  for (const bool ends_flat : {false, true}) {
    NetworkBuilder b("places");
    const Var rows = embedding(b, b.indices("tokens", {kSteps}));
    const Var taken =
        b.add("gather_rows", {rows}, {{"rows", std::vector<int64_t>{6, 0, 3, 3, 1}}});
    const Var put =
        b.add("scatter_rows", {taken},
              {{"rows", std::vector<int64_t>{2, 5, 0, 3, 6}}, {"positions", kSteps}});
    const Var placed = b.add("position_embedding", {put}, {{"positions", kSteps}});
    const Var seen = b.add(
        "attention",
        {b.linear(kChannels, placed), b.linear(kChannels, rows), b.linear(kChannels, rows)},
        {{"heads", int64_t{2}}, {"causal", int64_t{1}}, {"bias_width", kSteps + 3}});
    const Var of_picture = b.add(
        "attention", {b.linear(kChannels, seen), b.linear(kChannels, rows), rows},
        {{"heads", int64_t{3}}, {"bias_width", int64_t{1}}, {"bias_height", kSteps}});
    const Var kinds = b.add("softmax", {of_picture}, {{"over", std::string("channels")}});
    const Var shares = b.add("softmax", {kinds}, {{"over", std::string("positions")}});
    const Var sum = b.sum(b.linear(kChannels, shares), seen);
    const Var end = ends_flat ? b.add("reshape", {sum}, {{"channels", kSteps * kChannels}})
                              : b.add("slice", {sum}, {{"position", int64_t{2}},
                                                       {"channels", kChannels}});
    // The softmaxes have 7 bits here, and float32 in the file.
    expect_near(finished(b, end), {{source(false)}, false}, 0.2, 0.999);
  }
}

// Without places of rows the file's sequences have any length that has biases.
TEST_F(ExportedSequences, BiasesOfOpenLengths) {
  NetworkBuilder b("open");
  const Var rows = embedding(b, b.indices("tokens", {kSteps}));
  const Var lengths = b.indices("lengths", {});
  const Var seen = b.add("attention",
                         {b.linear(kChannels, rows), b.linear(kChannels, rows), rows, lengths},
                         {{"heads", int64_t{2}}, {"bias_width", kSteps}});
  expect_near(finished(b, b.add("slice", {seen}, {{"position", int64_t{0}},
                                                  {"channels", kChannels}})),
              {{source(true)}, false});
}

TEST_F(ExportedSequences, RefusesByName) {
  const auto start = [](NetworkBuilder& b) { return embedding(b, b.indices("tokens", {kSteps})); };
  {
    NetworkBuilder b("net");
    const Var rows = start(b);
    const Var gates = b.sum(gates_of(b, kKinds[1], rows), gates_of(b, kKinds[1], rows));
    expect_refused(b, b.add("lstm", {gates}, {}, "cell"), {source(false)},
                   "node 'cell' (lstm) has gates of another layer than a linear one");
  }
  {
    NetworkBuilder b("net");
    const Var rows = start(b);
    const Var h = b.add("gru", {gates_of(b, kKinds[2], rows), b.indices("lengths", {})});
    expect_refused(b, b.add("reverse", {h}, {}, "turned"), {source(true)},
                   "node 'turned' (reverse) puts padding in front");
  }
  for (const char* op : {"gather_rows", "scatter_rows", "softmax"}) {
    NetworkBuilder b("net");
    const Var rows = start(b);
    const Var h = b.add("gru", {gates_of(b, kKinds[2], rows), b.indices("lengths", {})});
    const bool is_softmax = std::string(op) == "softmax";
    OperatorSettings settings = {{"over", std::string("positions")}};
    if (!is_softmax) settings = {{"rows", std::vector<int64_t>{3, 1, 0, 2, 4, 5, 6}}};
    if (std::string(op) == "scatter_rows") settings["positions"] = kSteps;
    expect_refused(b, b.add(op, {h}, settings, "it"), {source(true)},
                   std::string("node 'it' (") + op + ") " +
                       (is_softmax ? "counts padding" : "moves the positions that a mask counts"));
  }
  {
    NetworkBuilder b("net");
    const Var rows = start(b);
    const Var h = b.add("gru", {gates_of(b, kKinds[2], rows), b.indices("lengths", {})});
    expect_refused(b, last_position(b, b.relu(h)), {source(true)},
                   "the last position, which may be padding");
  }
  {
    NetworkBuilder b("net");
    const Var from = embedding(b, b.indices("source", {kSteps}));
    const Var lengths = b.indices("source_length", {});
    const Var to = embedding(b, b.indices("target", {kSteps}));
    const Var h = b.add("gru", {gates_of(b, kKinds[2], to), lengths}, {}, "cell");
    expect_refused(b, b.add("add", {from, h}, {}, "both"), {of_translator(), target()},
                   "node 'cell' (gru) reads the lengths of another sequence; node 'both' (add) "
                   "reads positions of two sequences");
  }
}

}  // namespace
}  // namespace mantissa::testing

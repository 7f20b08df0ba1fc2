// The effects of the keys of BlockFloat's own setting, bfp8-text: widths and exponents in programs
// and in steps.
#include <gtest/gtest.h>

#include "models/models.h"
#include "tests/harness.h"
#include "tests/networks.h"
#include "tests/operators/single_op.h"

namespace mantissa::testing {
namespace {

// A step's gradients that were narrowed to g bits and are not zero: their number, and how many have
// a mantissa with all bits.
struct Narrowed {
  int64_t all = 0, full = 0;
};

Narrowed narrowed_gradients(const HarnessOptions& options) {
  Harness harness(options);
  const int g = parse_format(options.format)->gradient_bits;
  Observations observations(harness.program());
  harness.train(3);
  harness.executor().set_observations(&observations);
  harness.step();
  Narrowed found;
  for (const TensorObservation& seen : observations.tensors()) {
    const Instruction& instruction = harness.program().instructions[seen.instruction];
    if (seen.kind != ObservedKind::kGradient || seen.bits.largest() == 0) continue;
    const int bits = bits_of(harness.program(), instruction.grad_inputs()[seen.operand]);
    // Gradients of more bits may have no wide results.
    const Operand& gradient = instruction.grad_inputs()[seen.operand];
    if (!rounds(harness.program().exponents[gradient.exponent].rule) || bits != g) continue;
    ++found.all;
    found.full += seen.bits.largest() == bits - 1;
  }
  return found;
}

TEST(TextFormat, GradientsHaveTheExponentOfTheirOwnMaximum) {
  for (const char* model : {"lenet5", "resnet8"}) {
    for (const char* format : {"bfp8-text", "bfp:ge=exact", "bfp:ge=exact,g=6",
                               "bfp:ge=exact,g=8,gr=stochastic", "bfp:ge=exact,g=12,gw=32"}) {
      SCOPED_TRACE(std::string(model) + " " + format);
      const Narrowed found = narrowed_gradients({.model = model, .format = format});
      EXPECT_GT(found.all, 3);
      EXPECT_EQ(found.full, found.all);
    }
    const Narrowed kept_free = narrowed_gradients({.model = model});
    EXPECT_LT(kept_free.full, kept_free.all / 2) << "the headroom rule leaves a bit";
  }
}

// A guess costs time and no bit.
TEST(TextFormat, ExactGradientsDoNotDependOnTheExponentBefore) {
  constexpr int64_t kCount = 300;
  SingleOp op(ops::kTanh, {}, {Shape{kCount}});
  const std::vector<Mantissas> inputs = {some_mantissas(kCount, 8, -6, 1)};
  for (const int bits : {6, 8, 16, 32}) {
    const Mantissas grad = some_mantissas(kCount, bits, -20, 2);
    const auto wanted = op.backward(inputs, grad, bits);
    for (const int before : {-128, -60, -50, -44, -43, -42, -41, -21, -20, -19, 0, 127}) {
      EXPECT_EQ(op.backward_exactly(inputs, grad, bits, before), wanted) << bits << " " << before;
      EXPECT_EQ(op.totals().re_executions, 0);
      EXPECT_EQ(op.totals().mispredictions, before == wanted[0].exponent ? 0 : 1);
    }
  }
}

TEST(TextFormat, ExactGradientsHaveNoPredictors) {
  const Graph graph = *build_model("lenet5", fashion_options());
  for (const auto& [format, slots] :
       {std::pair{"bfp8", gradient_slots(graph)}, std::pair{"bfp:ge=exact", int64_t{0}}}) {
    const StateLayout layout =
        training_layout(graph, *parse_format(format), OptimizerKind::kMomentum);
    EXPECT_EQ(layout.predictors < 0 ? 0 : layout.tensors[layout.predictors].shape.count(), slots);
    EXPECT_GE(layout.guards, 0);
  }
}

// Whether an operator computes something on the way of the gradient from the layers above to a
// value, so that the gradient has more bits to give than theirs.
bool is_computed(const Graph& graph, int value) {
  if (value == graph.outputs[0]) return true;  // by the loss
  std::vector<int> readers;
  const auto readers_of_values = readers_of(graph);
  for (const int reader : readers_of_values[value]) {
    for (const int input : graph.nodes[reader].inputs) {
      if (input == value) readers.push_back(reader);
    }
  }
  if (readers.size() > 1) return true;  // a sum
  const Node& reader = graph.nodes[readers.at(0)];
  if (is_layer(*reader.op)) return false;
  const bool passes = is_view(*reader.op) || passes_gradient(*reader.op);
  return !passes || is_computed(graph, reader.outputs[0]);
}

// Every layer computes its weights' gradient from a gradient of gw bits if something was computed
// since the layer above. It computes its input's from one of g bits, as BlockFloat [0128] says.
void check_widths(const Graph& plain, const std::string& format_name) {
  const Format format = *parse_format(format_name);
  const Graph graph = in_format(plain, format);
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  const auto program = compile(graph, {.micro_batch_size = 2, .format = format}, {&table, 1});
  ASSERT_TRUE(program.ok()) << program.error().message;
  int layers = 0;
  for (const Instruction& instruction : program->instructions) {
    if (instruction.node < 0 || !is_layer(*instruction.op)) continue;
    SCOPED_TRACE(graph.name + " " + format_name + " " + instruction.name);
    if (kind_of(instruction) == SegmentKind::kGradWeights) {
      const bool computed = is_computed(graph, graph.nodes[instruction.node].outputs[0]);
      EXPECT_EQ(bits_of(*program, instruction.grad_output()),
                computed ? format.wide_gradient_bits() : format.gradient_bits);
      ++layers;
    }
    if (kind_of(instruction) == SegmentKind::kGradInput) {
      EXPECT_EQ(bits_of(*program, instruction.grad_output()), format.gradient_bits);
    }
  }
  EXPECT_GT(layers, 0);
}

TEST(TextFormat, EveryChainOfOperatorsKeepsTheBitsOfGradWeights) {
  for (const char* format : {"bfp8-text", "bfp:g=8,gw=16", "bfp:g=8,gw=16,gr=stochastic",
                             "bfp:g=6,gw=32", "bfp8", "bfp:g=8,gr=stochastic"}) {
    for (const ModelInfo& model : models()) {
      ModelOptions options = fashion_options();
      options.width_multiplier = 1.0 / 16;
      const auto graph = build_model(model.name, options);
      ASSERT_TRUE(graph.ok()) << model.name;
      check_widths(*graph, format);
    }
    for (const NamedNetwork& network : networks_of_all_operators()) {
      check_widths(network.build(), format);
    }
  }
}

// The document's own layers: convolution, pooling, activation; and averages.
Graph smooth_network(const Op& pool) {
  Layers net("smooth", fashion_options());
  net.convolution("conv1", 6, 5, 2, 2, true);
  net.add(pool, "pool1", {{"window", 2}});
  net.add(ops::kTanh, "tanh1");
  net.convolution("conv2", 8, 3, 1, 1, true);
  net.add(pool, "pool2", {{"window", 2}, {"stride", 2}});
  net.add(ops::kSigmoid, "sigmoid2");
  net.add(ops::kFlatten, "flatten");
  return finished(net);
}

// Between a pool and an activation a gradient has 32 bits: with 16 bits it would be rounded twice.
TEST(TextFormat, PoolingPassesOnWhatActivationsCompute) {
  for (const Op* pool : {&ops::kMaxPool, &ops::kOverlappingMaxPool, &ops::kAveragePool}) {
    const Graph graph = smooth_network(*pool);
    HarnessOptions options{.format = "bfp:gw=32", .reuses_memory = false};
    Harness harness(options, graph);
    harness.step();
    int seen = 0;
    for (size_t i = 0; i < harness.program().instructions.size(); ++i) {
      const Instruction& instruction = harness.program().instructions[i];
      if (kind_of(instruction) != SegmentKind::kGradInput || instruction.op != pool) continue;
      ++seen;
      EXPECT_EQ(bits_of(harness.program(), instruction.grad_output()), 32) << pool->name;
      EXPECT_EQ(bits_of(harness.program(), instruction.grad_inputs()[0]), 32) << pool->name;
      const Tensor& gradient = harness.executor().context(static_cast<int>(i)).grad_output();
      const auto* mantissas = gradient.as<int32_t>();
      const auto is_long = [](int32_t mantissa) { return (mantissa & 0xffff) != 0; };
      EXPECT_GT(std::count_if(mantissas, mantissas + gradient.count(), is_long),
                gradient.count() / 2);
    }
    EXPECT_EQ(seen, 2);
  }
}

// Sums of gradients and of products that would not fit int64 are refused, not rounded.
TEST(TextFormat, SumsThatWouldNotBeExactAreRefused) {
  const auto compiled = [](int64_t batch, const char* name) {
    Layers net("norm", fashion_options());
    net.convolution("conv", 2, 3, 1, 1, false);
    net.batch_norm("norm");
    net.add(ops::kTanh, "tanh");
    net.add(ops::kFlatten, "flatten");
    const Format format = *parse_format(name);
    const Graph graph = in_format(finished(net), format);
    const kernels::KernelTable table = kernels::select_kernels(best_isa());
    const auto program = compile(graph, {.micro_batch_size = batch, .format = format}, {&table, 1});
    return program.ok() ? std::string() : program.error().message;
  };
  // 83 pictures of 784 pixels are 65,072 rows, 84 are 65,856.
  EXPECT_EQ(compiled(83, "bfp:linear=16,gw=32"), "");
  EXPECT_NE(compiled(84, "bfp:linear=16,gw=32").find("'norm' (batch_norm): sums of 65856 products"),
            std::string::npos);
  EXPECT_EQ(compiled(84, "bfp:gw=32"), "");
  EXPECT_EQ(compiled(84, "bfp:linear=16"), "");
}

TEST(TextFormat, MomentumKeepsUpdatesOfSoManyBits) {
  const Graph graph = *build_model("lenet5", fashion_options());
  for (const auto& [format, type] :
       {std::pair{"bfp8", DataType::kInt16}, std::pair{"bfp8-text", DataType::kInt32},
        std::pair{"dfp:u=32", DataType::kInt32}}) {
    for (const Optimizer& row : optimizers()) {
      const StateLayout layout = training_layout(graph, *parse_format(format), row.kind);
      for (const ParameterState& parameter : layout.parameters) {
        for (const MomentState& moment : parameter.moments) {
          if (moment.mantissa < 0) continue;
          const StateTensor& tensor = layout.tensors[moment.mantissa];
          EXPECT_EQ(tensor.type, tensor.name.ends_with(".velocity") ? type : DataType::kInt16)
              << format << " " << tensor.name;
        }
      }
    }
  }
}

// If an optimiser keeps nothing, directions have 32 bits anyway.
TEST(TextFormat, UpdatesOf32BitsChangeWhatMomentumKeeps) {
  for (const Optimizer& row : optimizers()) {
    const auto weights = [&](const char* format) {
      Harness harness({.model = "lenet5", .format = format, .optimizer = row.kind});
      harness.train(3);
      return harness.weights_sha256();
    };
    EXPECT_EQ(weights("bfp:u=32") == weights("bfp8"), !row.has_velocity) << row.name;
  }
}

TEST(TextFormat, UpdatesOf32BitsOverThreadsAndInstructionSets) {
  for (const OptimizerKind kind : {OptimizerKind::kMomentum, OptimizerKind::kNesterov}) {
    for (const char* format : {"bfp8-text", "bfp:u=32,block=channel", "dfp:u=32,warmup=1"}) {
      SCOPED_TRACE(std::string(optimizer_name(kind)) + " " + format);
      HarnessOptions options{.model = "lenet5",
                             .format = format,
                             .optimizer = kind,
                             .micro_batch_size = 8,
                             .isa = Isa::kScalar};
      const auto state = [&] {
        Harness harness(options);
        harness.train(3);
        return harness.state_sha256();
      };
      const std::string expected = state();
      for (const Isa isa : kAllIsas) {
        if (!is_supported(isa)) continue;
        options.isa = isa;
        options.threads = isa == best_isa() ? 3 : 2;
        EXPECT_EQ(state(), expected) << isa_name(isa);
      }
      options.by_rows = true;
      options.micro_batch_size = 16;
      options.threads = 1;
      const std::string rows = state();
      options.by_rows = false;
      EXPECT_EQ(state(), rows);
    }
  }
}

// max |W| of each weight tensor before the first step.
std::map<std::string, int> largest_initial_weights(const char* model, const char* format_name) {
  const Format format = *parse_format(format_name);
  const Graph graph = *build_model(model, fashion_options());
  auto created = State::create(training_layout(graph, format, OptimizerKind::kSgd));
  State& state = *created;
  initialise(graph, format, 1, state);
  std::map<std::string, int> found;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    if (graph.parameters[i].storage != Storage::kWeights) continue;
    const auto* weights = state.data<int8_t>(state.layout().parameters[i].mantissa);
    int& most = found[graph.parameters[i].name];
    for (int64_t w = 0; w < graph.parameters[i].shape.count(); ++w) {
      most = std::max(most, std::abs(int{weights[w]}));
    }
  }
  return found;
}

// A largest weight of eight bits lies above 63. The classifier's initialiser ends at a power of
// two, so its largest weight lies just below it.
TEST(TextFormat, InitialWeightsHaveTheExponentOfTheirOwnMaximum) {
  for (const char* model : {"mlp", "lenet5", "resnet8"}) {
    for (const auto& [name, most] : largest_initial_weights(model, "bfp8-text")) {
      EXPECT_GE(most, 64) << model << " " << name;
    }
  }
  const auto exact = largest_initial_weights("resnet8", "bfp:we=exact");
  auto bound = largest_initial_weights("resnet8", "bfp8");
  EXPECT_LE(bound["classifier.weights"], 64);
  EXPECT_GE(exact.at("classifier.weights"), 126);
}

}  // namespace
}  // namespace mantissa::testing

#include "tests/planning/parse_program.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <sstream>

#include "ops/losses/slices/sliced_loss.h"
#include "ops/ops.h"
#include "plan/passes/node_operands.h"
#include "plan/programs/program_text.h"
#include "tests/planning/line_reader.h"

namespace mantissa::testing {
namespace {

constexpr const Op* kAllOperators[] = {
#define MANTISSA_OP(symbol) &ops::symbol,
#include "ops/ops.inc"
#undef MANTISSA_OP
    &ops::kSlicedCrossEntropy};

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

class ProgramReader : private LineReader {
 public:
  ProgramReader(const Graph& graph, const std::string& text) : LineReader(text), graph_(graph) {}

  Result<Program> read() {
    at("program").expect("of");
    word();
    read_options();
    read_parameters();
    read_buffers();
    read_exponents();
    read_instructions();
    read_table("outputs", 0, [this] { program_.outputs.push_back(operand()); });
    read_segments();
    read_table("schedule", 0, [this] { read_stretch(); });
    if (!ok()) return status().error();
    return std::move(program_);
  }

 private:
  void read_options() {
    ProgramOptions& o = program_.options;
    o.kind = at("kind").one_of<ProgramKind>(program_words::kKinds);
    const auto format = parse_format(at("format").word());
    if (!format.ok()) return fail(format.error().message);
    o.format = *format;
    o.micro_batch_size = at("micro_batch_size").number(1);
    o.micro_batches = at("micro_batches").number<int>(1);
    o.optimizer = at("optimizer").one_of<OptimizerKind>(optimizers().size(), optimizer_name);
    o.with_loss = at("with_loss").number(0, 1) != 0;
    o.exponents = at("exponents").one_of<ExponentMode>(program_words::kExponentModes);
    o.clips = at("clips").number(0, 1) != 0;
    o.retention = at("retention").letters<Retention>(program_words::kRetention);
    o.by_rows = at("by_rows").letters<bool>("01");
    const auto most_value = std::ssize(graph_.values) - 1;
    o.results = at("results").list<int>(most_value);
    o.given = at("given").list<int>(most_value);
    o.cached_positions = at("cached_positions").number();
    o.logit_rows = at("logit_rows").number();
    o.arena_limit_bytes = at("arena_limit").number_or<int64_t>(kMost);
    program_.arena_bytes = at("arena_bytes").number();
    program_.live_bytes = at("live_bytes").number();
    program_.cache_bytes = at("cache_bytes").number();
    program_.caches = at("caches").list<int64_t>();
  }

  WeightGrid weight_grid() {
    std::string text = word();
    if (text == "-") return {};
    std::replace(text.begin(), text.end(), ',', ' ');
    std::istringstream parts(text);
    std::string bits, flag;
    parts >> bits;
    WeightGrid grid{.bits = static_cast<int>(number_of(bits, 1, 7))};
    while (parts >> flag) (flag == "full" ? grid.is_full : grid.stops) = true;
    return grid;
  }

  void read_parameters() {
    read_numbered("parameters", 1, [this] {
      Grid grid;
      grid.scaling = one_of<Scaling>(program_words::kScalings);
      grid.bits = number<int>();
      grid.blocks = one_of<Blocks>(program_words::kBlocks);
      grid.exponent_limit = number_or<int>(kExponentMax, std::numeric_limits<int>::min());
      grid.weights = weight_grid();
      program_.parameter_grids.push_back(grid);
    });
    if (program_.parameter_grids.size() != graph_.parameters.size()) {
      fail("the network has another number of parameters");
    }
  }

  void read_buffers() {
    read_numbered("buffers", 1, [this] {
      Buffer buffer;
      buffer.kind = one_of<BufferKind>(static_cast<size_t>(BufferKind::kCount), buffer_kind_name);
      buffer.bytes = number();
      buffer.offset = number();
      buffer.first = number<int>();
      buffer.last = number<int>();
      buffer.name = word();
      program_.buffers.push_back(std::move(buffer));
    });
  }

  static bool is_of_node(ExponentOwner owner) {
    return owner >= ExponentOwner::kGradient && owner <= ExponentOwner::kRoundedSum;
  }
  int64_t owners(ExponentOwner owner) const {
    if (owner == ExponentOwner::kValue) return std::ssize(graph_.values);
    return is_of_node(owner) ? std::ssize(graph_.nodes) : std::ssize(graph_.parameters);
  }

  void read_exponents() {
    read_numbered("exponents", 1, [this] {
      Exponent row;
      row.owner = one_of<ExponentOwner>(program_words::kOwners);
      row.of = number<int>(0, std::ssize(graph_.values) + std::ssize(graph_.nodes));
      row.input = number<int>();
      row.rule = one_of<ExponentRule>(10, exponent_rule_name);
      row.bits = number<int>();
      row.limit = number_or<int>(kExponentMax, std::numeric_limits<int>::min());
      row.predictor = number_or<int64_t>(-1);
      row.key = number_or<int>(-1);
      const auto channels = number_or<int64_t>(-1);
      if (channels >= 0) program_.guarded_channels.push_back(channels);
      if (row.of >= owners(row.owner)) return fail("its owner does not exist");
      if (is_of_node(row.owner) && row.input >= std::ssize(graph_.nodes[row.of].inputs)) {
        return fail("its node has no such input");
      }
      program_.exponents.push_back(row);
    });
  }

  size_t places(Operand::Space space) const {
    switch (space) {
      case Operand::Space::kArena:
        return program_.buffers.size();
      case Operand::Space::kInput:
        return graph_.inputs.size() + program_.options.given.size();
      case Operand::Space::kState:
        return graph_.parameters.size();
      case Operand::Space::kCache:
        return program_.caches.size();
      case Operand::Space::kNone:
        break;
    }
    return 0;
  }

  Shape shape() {
    std::string text = word();
    if (text.size() < 2 || text.front() != '[' || text.back() != ']') fail("wants a shape");
    std::replace(text.begin(), text.end(), ',', ' ');
    std::istringstream dims(text.size() < 2 ? "" : text.substr(1, text.size() - 2));
    Shape shape;
    for (std::string dim; dims >> dim;) {
      if (shape.rank == Shape::kMostDims) fail("'" + text + "' has too many dimensions");
      if (!ok()) return {};
      shape.dims[shape.rank++] = number_of(dim, 0, kMost);
    }
    return shape;
  }

  Operand operand() {
    Operand operand;
    operand.role = one_of<Role>(kRoles, role_name);
    operand.access = one_of<Access>(6, access_name);
    operand.space = one_of<Operand::Space>(program_words::kSpaces);
    operand.index = index_below(places(operand.space));
    if (operand.exists() && operand.index < 0) fail("the operand has no place");
    std::string type = word();
    operand.is_measured = !type.empty() && type.back() == '?';
    if (operand.is_measured) type.pop_back();
    operand.type = value_of<DataType>(type, 7, data_type_name);
    operand.exponent = index_below(program_.exponents.size());
    operand.row_exponents = number_or<int64_t>(-1);
    operand.shape = shape();
    return operand;
  }

  const Op* find_op(const std::string& name) {
    const auto found =
        std::ranges::find_if(kAllOperators, [&](const Op* op) { return name == op->name; });
    if (found != std::end(kAllOperators)) return *found;
    fail("'" + name + "' is no operator");
    return nullptr;
  }

  void read_row(Instruction& instruction) {
    instruction.op = find_op(word());
    const std::string name = word();
    if (!ok()) return;
    const auto found =
        std::ranges::find(program_words::kRows, name, &program_words::NamedRow::name);
    if (found == program_words::kRows.end()) return fail("'" + name + "' is no row");
    instruction.row = &(rows_in(*instruction.op, program_.options.format).*found->row);
    if (!*instruction.row) fail("the operator has no row '" + name + "'");
  }

  void read_value(Instruction& instruction, const std::string& key, const std::string& digits) {
    const auto most_node = std::ssize(graph_.nodes) - 1;
    if (key == "node") {
      instruction.node = static_cast<int>(number_of(digits, 0, most_node));
    } else if (key == "layer") {
      instruction.layer = static_cast<int>(number_of(digits, 0, most_node));
    } else if (key == "multiply_adds") {
      instruction.multiply_adds = number_of(digits, 1, kMost);
    } else if (key == "rows_at_once") {
      if (instruction.node < 0) return fail("rows of no node");
      instruction.gradient_rows = graph_.nodes[instruction.node].op->gradient_rows;
      instruction.rows_at_once = number_of(digits, 0, kMost);
    } else {
      fail("'" + key + "' is not known here");
    }
  }

  // Attributes are the node's; they are compared with the whole text.
  void read_instruction(Instruction& instruction) {
    read_row(instruction);
    instruction.name = word();
    for (std::string fact; has_word(fact) && fact.front() != '{';) {
      const size_t equals = fact.find('=');
      if (equals != std::string::npos) {
        read_value(instruction, fact.substr(0, equals), fact.substr(equals + 1));
      } else if (fact == "relu") {
        instruction.relu = true;
      } else if (fact == "again") {
        instruction.again = true;
      } else if (fact == "once_per_step") {
        instruction.once_per_step = true;
      } else {
        fail("'" + fact + "' is not known here");
      }
    }
  }

  // A line that begins with the next instruction's number begins it; others are operands.
  void read_instructions() {
    next_line();
    const int64_t count = at("instructions").number();
    next_line();
    next_line();
    while (ok() && !next_line_is_blank()) {
      next_line();
      const std::string next = std::to_string(program_.instructions.size());
      if (program_.instructions.empty() || peek() == next) {
        expect(next);
        read_instruction(program_.instructions.emplace_back());
      } else {
        program_.instructions.back().operands.push_back(operand());
      }
    }
    if (std::ssize(program_.instructions) != count) fail("there are not as many instructions");
  }

  void read_segments() {
    read_numbered("segments", 1, [this] {
      Segment segment;
      segment.kind = one_of<SegmentKind>(6, segment_kind_name);
      segment.layer = index_below(graph_.nodes.size());
      segment.instructions = list<int>(std::ssize(program_.instructions) - 1);
      program_.segments.push_back(std::move(segment));
    });
  }

  void read_stretch() {
    constexpr std::array<std::string_view, 2> kWords = {"once_per_step", "every_micro_batch"};
    Stretch stretch;
    stretch.every_micro_batch = one_of<int>(kWords) == 1;
    stretch.segments = list<int>(std::ssize(program_.segments) - 1);
    program_.schedule.push_back(std::move(stretch));
  }

  const Graph& graph_;
  Program program_;
};

std::string line_at(const std::string& text, std::string::const_iterator place) {
  const auto begin = std::find(std::reverse_iterator(place), text.rend(), '\n').base();
  return {begin, std::find(place, text.end(), '\n')};
}

}  // namespace

Result<Program> parse_program(const Graph& graph, const std::string& text) {
  auto program = ProgramReader(graph, text).read();
  if (!program.ok()) return program;
  const std::string difference = first_difference(text, to_string(graph, *program));
  if (difference.empty()) return program;
  return invalid_input(difference);
}

std::string first_difference(const std::string& text, const std::string& wanted) {
  const auto [found, other] = std::ranges::mismatch(text, wanted);
  if (found == text.end() && other == wanted.end()) return "";
  const auto number = 1 + std::count(text.begin(), found, '\n');
  return "line " + std::to_string(number) + ": '" + line_at(text, found) + "' in the place of '" +
         line_at(wanted, other) + "'";
}

}  // namespace mantissa::testing

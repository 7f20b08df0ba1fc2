#include "plan/passes/program_writer.h"

#include <algorithm>

#include "base/checked.h"

namespace mantissa {
namespace {

Program empty_program(const ProgramOptions& options) {
  Program program;
  program.options = options;
  return program;
}

}  // namespace

ProgramWriter::ProgramWriter(const Graph& graph, const ProgramOptions& options,
                             const PlanningContext& planning)
    : graph_(graph),
      program_(empty_program(options)),
      values_(resolve_values(graph)),
      slots_(exponent_slots(graph)),
      nodes_(graph, values_, program_.options, planning),
      buffer_of_value_(graph.values.size(), -1),
      is_needed_(graph.nodes.size(), options.results.empty()),
      left_by_node_(graph.nodes.size()) {
  find_needed();
  if (options.logit_rows > 0 && options.with_loss) sliced_ = sliced_loss(graph, values_, options);
  program_.parameter_grids = nodes_.parameter_grids();
  for (int value = 0; value < static_cast<int>(graph.values.size()); ++value) {
    add_exponent(exponent_of_value(value));
  }
}

int ProgramWriter::given_place(int value) const {
  const std::vector<int>& given = options().given;
  const auto place = std::find_if(given.begin(), given.end(), [&](int each) {
    return values_.canonical[each] == values_.canonical[value];
  });
  return place == given.end() ? -1 : static_cast<int>(place - given.begin());
}

void ProgramWriter::find_needed() {
  std::vector<int> wanted = options().results;
  while (!wanted.empty()) {
    const int value = wanted.back();
    wanted.pop_back();
    const int n = values_.producer[values_.canonical[value]];
    if (n < 0 || given_place(value) >= 0 || is_needed_[n]) continue;
    is_needed_[n] = true;
    wanted.insert(wanted.end(), node(n).inputs.begin(), node(n).inputs.end());
  }
}

Exponent ProgramWriter::exponent_of_value(int value) const {
  Exponent exponent{.owner = ExponentOwner::kValue, .of = value, .key = value};
  if (graph_.values[value].element == Element::kNumber) {
    exponent.rule = ExponentRule::kFixed;
    exponent.bits = 16;
    return exponent;
  }
  if (graph_.values[value].element != Element::kMantissa) return exponent;
  const ExponentMode mode = options().exponents;
  const Grid& grid = nodes_.grid_of(value);
  exponent.rule = ExponentRule::kFixed;
  if (const int n = values_.producer[values_.canonical[value]]; n >= 0) {
    exponent.rule = value_rule(*graph_.nodes[n].op, nodes_.is_wide(value), mode);
    exponent.bits = grid.bits;
    exponent.limit = grid.exponent_limit;
  }
  if (grid.blocks == Blocks::kRow) exponent.rule = ExponentRule::kRows;
  if (grid.scaling == Scaling::kReal) exponent.rule = ExponentRule::kNone;
  if (mode == ExponentMode::kDecided) exponent.predictor = slots_.value_predictor(value);
  return exponent;
}

bool ProgramWriter::is_left_out(int n) const {
  return values_.skipped[n] || !is_needed_[n] || (!options().with_loss && graph_.is_loss(n));
}

bool ProgramWriter::computes_rows(int n) const {
  const std::vector<int>& parameters = node(n).parameters;
  const std::vector<bool>& by_rows = options().by_rows;
  return !by_rows.empty() && !parameters.empty() && by_rows[parameters[0]];
}

Instruction ProgramWriter::instruction_of(int n, const OpRow& row) const {
  const Node& node = graph_.nodes[n];
  Instruction instruction;
  instruction.op = node.op;
  instruction.row = &row;
  instruction.node = n;
  instruction.name = node.name;
  instruction.relu = values_.fused_relu[n];
  for (const int parameter : node.parameters) {
    instruction.add(parameter_operand(parameter), Role::kParameter, Access::kReads);
  }
  instruction.multiply_adds = nodes_.multiply_adds(node);
  return instruction;
}

Instruction ProgramWriter::forward_instruction(int n) {
  const Node& node = graph_.nodes[n];
  Instruction instruction = instruction_of(n, nodes_.rows(*node.op).forward);
  for (const int input : node.inputs) {
    instruction.add(operand(input), Role::kInput, Access::kReads);
  }
  for (const int output : node.outputs) {
    instruction.add(operand(output), Role::kOutput, Access::kWrites);
  }
  const OpMemory memory = nodes_.memory_of(node);
  add_row_memory(instruction, memory.forward);
  if (memory.cache_bytes == 0) return instruction;
  instruction.add({.space = Operand::Space::kCache,
                   .type = DataType::kUint8,
                   .index = static_cast<int>(program_.caches.size()),
                   .shape = Shape{memory.cache_bytes}},
                  Role::kCache, Access::kUpdates);
  program_.caches.push_back(program_.cache_bytes);
  program_.cache_bytes += round_up<int64_t>(memory.cache_bytes, 64);
  return instruction;
}

Operand ProgramWriter::operand(int value) {
  const Shape shape = nodes_.shape_of(value);
  const int root = values_.canonical[value];
  const Value& source = graph_.values[root];
  if (source.element == Element::kReal) return {};
  const bool has_exponent =
      source.element == Element::kMantissa || source.element == Element::kNumber;
  if (source.producer < 0) {
    const auto place = std::find(graph_.inputs.begin(), graph_.inputs.end(), root);
    return {.space = Operand::Space::kInput,
            .type = source.type,
            .index = static_cast<int>(place - graph_.inputs.begin()),
            .exponent = has_exponent ? value : -1,
            .shape = shape};
  }
  if (const int place = given_place(root); place >= 0) {
    return {.space = Operand::Space::kInput,
            .type = nodes_.type_of(value),
            .index = static_cast<int>(graph_.inputs.size()) + place,
            .exponent = has_exponent ? root : -1,
            .shape = shape};
  }
  int& buffer = buffer_of_value_[root];
  int64_t bytes = shape.count() * element_bytes(nodes_.type_of(value));
  const bool has_rows = nodes_.grid_of(value).blocks == Blocks::kRow && has_exponent;
  const int64_t rows_at = has_rows ? round_up<int64_t>(bytes, sizeof(int16_t)) : -1;
  if (has_rows) bytes = rows_at + shape.count() / shape.last() * int64_t{sizeof(int16_t)};
  if (buffer < 0) buffer = add_buffer(source.name, BufferKind::kActivation, bytes);
  return {.space = Operand::Space::kArena,
          .type = nodes_.type_of(value),
          .index = buffer,
          .exponent = has_exponent ? root : -1,
          .shape = shape,
          .row_exponents = rows_at};
}

void ProgramWriter::emit(Instruction instruction) {
  instruction.layer = layer_;
  instruction.once_per_step = once_per_step_;
  program_.instructions.push_back(std::move(instruction));
}

int ProgramWriter::add_exponent(const Exponent& exponent) {
  program_.exponents.push_back(exponent);
  return static_cast<int>(program_.exponents.size()) - 1;
}

int ProgramWriter::add_sum_exponent(int parameter, DataType type, bool measures_sums) {
  const bool is_own = type == DataType::kInt32 || measures_sums;
  const ExponentRule rule = type == DataType::kFloat ? ExponentRule::kNone
                            : is_own                 ? ExponentRule::kInherited
                                                     : ExponentRule::kFixed;
  return add_exponent({.owner = ExponentOwner::kParameterGradient,
                       .of = parameter,
                       .rule = rule,
                       .bits = static_cast<int>(8 * element_bytes(type))});
}

Operand ProgramWriter::gradient_operand(int value, const Exponent& exponent) {
  const Shape shape = nodes_.shape_of(value);
  const DataType type = nodes_.gradient_type(exponent.bits);
  const int buffer = add_buffer(graph_.values[values_.canonical[value]].name, BufferKind::kGradient,
                                shape.count() * element_bytes(type));
  return {.space = Operand::Space::kArena,
          .type = type,
          .index = buffer,
          .exponent = add_exponent(exponent),
          .shape = shape};
}

int ProgramWriter::add_buffer(std::string name, BufferKind kind, int64_t bytes) {
  program_.buffers.push_back({.name = std::move(name), .kind = kind, .bytes = bytes});
  return static_cast<int>(program_.buffers.size()) - 1;
}

void ProgramWriter::add_row_memory(Instruction& instruction, const RowMemory& memory) {
  if (memory.workspace_bytes > 0) {
    const int buffer = add_buffer(instruction.name, BufferKind::kWorkspace, memory.workspace_bytes);
    instruction.add(memory_operand(buffer), Role::kWorkspace, Access::kWrites);
  }
  if (memory.scratch_bytes > 0) {
    const int buffer = add_buffer(instruction.name, BufferKind::kScratch, memory.scratch_bytes);
    instruction.add(memory_operand(buffer), Role::kScratch, Access::kWrites);
  }
}

Operand ProgramWriter::memory_operand(int buffer) const {
  if (buffer < 0) return {};
  return {.space = Operand::Space::kArena,
          .type = DataType::kUint8,
          .index = buffer,
          .shape = Shape{program_.buffers[buffer].bytes}};
}

void ProgramWriter::add_left(Instruction& instruction, Access access) const {
  const auto [saved, statistics] = left_by_node_[instruction.node];
  if (saved >= 0) instruction.add(memory_operand(saved), Role::kSaved, access);
  if (statistics >= 0) instruction.add(memory_operand(statistics), Role::kStatistics, access);
}

bool ProgramWriter::is_there(int value) const {
  const int root = values_.canonical[value];
  return graph_.values[root].producer < 0 || buffer_of_value_[root] >= 0;
}

void ProgramWriter::forget_values(std::optional<Retention> retention) {
  const std::vector<Retention>& all = options().retention;
  for (size_t value = 0; value < all.size(); ++value) {
    if (retention ? all[value] == *retention : all[value] != Retention::kKept) {
      buffer_of_value_[value] = -1;
    }
  }
}

}  // namespace mantissa

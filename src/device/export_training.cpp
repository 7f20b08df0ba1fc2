#include "device/export_training.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/checked.h"
#include "device/dynamic_tables.h"
#include "device/rows/training_rows.h"
#include "device/text/training_writer.h"
#include "device/training_files.h"
#include "device/volumes.h"
#include "kernels/kernel_table.h"
#include "plan/retention/compile_training.h"

namespace mantissa::device {
namespace {

Error refuse_instruction(const Instruction& instruction, const std::string& why) {
  return invalid_input("node '" + instruction.name + "' (" + instruction.op->name + ", " +
                       std::string(phase_name(instruction)) + "): " + why);
}

// Refuses formats that the C functions do not compute.
Status check_format(const Format& format) {
  const auto refuse = [](const std::string& why) { return invalid_input("C " + why); };
  if (format.is_float()) return refuse("trains in integers; the run is in fp32");
  if (format.weight_bits > 8 || format.most_activation_bits() > 8) {
    return refuse("trains with weights and activations of up to 8 bits");
  }
  if (format.gradient_bits > 16 || format.wide_gradient_bits() > 16 || format.update_bits > 16) {
    return refuse("trains with gradients and updates of up to 16 bits");
  }
  if (!format.tensor_values) return refuse("wants one exponent for a value: not blocks=token");
  return {};
}

Status check_operands(const Instruction& instruction) {
  if (has_volume(instruction)) return refuse_instruction(instruction, kNoVolumes);
  for (const Operand& operand : instruction.operands) {
    if (operand.is_measured && operand.type == DataType::kInt32) {
      return refuse_instruction(instruction, "C has no sums of 32 bits that may be left out");
    }
  }
  if (instruction.gradient_rows != nullptr) {
    return refuse_instruction(instruction, "C does not compute gradients within an update");
  }
  return {};
}

// The program with the memory that the C functions need, packed anew; the offsets of each
// instruction's own memory, and behind them of the exponents of a DevNeeded.
std::vector<int64_t> plan_work(const Graph& graph, std::span<const TrainingRow* const> rows,
                               Program& program) {
  // Running statistics are updated where a batch is measured, without a record of it.
  constexpr BufferKind kLeftOut[] = {BufferKind::kWorkspace, BufferKind::kScratch,
                                     BufferKind::kStatistics};
  for (Buffer& buffer : program.buffers) {
    if (std::ranges::find(kLeftOut, buffer.kind) != std::end(kLeftOut)) buffer.bytes = 0;
  }
  const size_t first = program.buffers.size();
  for (size_t i = 0; i < rows.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const int at = static_cast<int>(i);
    const int64_t bytes =
        rows[i]->work_bytes == nullptr ? 0 : rows[i]->work_bytes(graph, instruction);
    program.buffers.push_back({.name = instruction.name,
                               .kind = BufferKind::kWorkspace,
                               .bytes = bytes,
                               .first = at,
                               .last = at});
  }
  const std::vector<int64_t> noted = needed_places(graph, program);
  program.buffers.push_back({.name = "needed",
                             .kind = BufferKind::kWorkspace,
                             .bytes = noted.empty() ? 0 : noted.back(),
                             .first = 0,
                             .last = static_cast<int>(rows.size()) - 1});
  std::vector<Buffer> packed;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.bytes > 0) packed.push_back(buffer);
  }
  program.arena_bytes = pack_arena(packed);
  size_t next = 0;
  std::vector<int64_t> work;
  for (Buffer& buffer : program.buffers) {
    buffer.offset = buffer.bytes > 0 ? packed[next++].offset : 0;
    if (&buffer >= &program.buffers[first]) work.push_back(buffer.offset);
  }
  return work;
}

// The instructions of each stretch of the schedule, as a function.
std::string stretches(const Program& program, const std::vector<std::string>& blocks,
                      std::string& calls) {
  std::string functions;
  for (size_t s = 0; s < program.schedule.size(); ++s) {
    const Stretch& stretch = program.schedule[s];
    const std::string name = "part" + std::to_string(s);
    functions += "static void " + name + "(DevMemory* m, const void* const* inputs) {\n" +
                 "  DevStep* const step = &m->step;\n  (void)inputs;\n  (void)step;\n";
    for (const int segment : stretch.segments) {
      for (const int i : program.segments[static_cast<size_t>(segment)].instructions) {
        functions += blocks[static_cast<size_t>(i)];
      }
    }
    functions += "}\n\n";
    calls += stretch.every_micro_batch
                 ? "  for (m.step.micro_batch = 0; m.step.micro_batch < m.step.micro_batches;\n"
                   "       ++m.step.micro_batch) {\n    " +
                       name + "(&m, inputs);\n  }\n  m.step.micro_batch = 0;\n"
                 : "  " + name + "(&m, inputs);\n";
  }
  return functions;
}

// Statements for a step in which micro-batches note exponents, at an offset of the arena.
std::string needed_text(int64_t offset) {
  return "  const DevNeeded needed = {rules, needed_places, (int8_t*)training->arena.bytes + " +
         c_number(offset) + "};\n  m.step.needed = &needed;\n";
}

// The bytes of the state to begin with, as they lie in C: numbers of this machine, little-endian.
std::string state_table(const State& state, const StatePlaces& places) {
  std::vector<int64_t> bytes(static_cast<size_t>(places.bytes));
  for (size_t t = 0; t < places.offsets.size(); ++t) {
    if (places.offsets[t] < 0) continue;
    const auto tensor = state.bytes(static_cast<int>(t));
    for (size_t i = 0; i < tensor.size(); ++i) {
      bytes[static_cast<size_t>(places.offsets[t]) + i] = static_cast<int64_t>(tensor[i]);
    }
  }
  return c_table("uint8_t", "first_state", bytes);
}

// The widths of the state's numbers: runs of bytes per number, for machines of the other byte
// order.
std::string widths_table(const StateLayout& layout, const StatePlaces& places) {
  std::string text = "static const DevRun runs[] = {\n";
  for (size_t t = 0; t < layout.tensors.size(); ++t) {
    if (places.offsets[t] < 0) continue;
    const StateTensor& tensor = layout.tensors[t];
    text += "  {" + std::to_string(places.offsets[t]) + ", " +
            std::to_string(tensor.shape.count()) + ", " +
            std::to_string(element_bytes(tensor.type)) + "},  // " + tensor.name + "\n";
  }
  return text + "};\n";
}

// The parts of a batch: each input of the graph that the program reads.
struct BatchWords {
  std::string parameters, arguments, names, comments, buffers, reads;
};

std::string_view c_type_of(DataType type) {
  return type == DataType::kUint8 ? "uint8_t" : type == DataType::kInt16 ? "int16_t" : "int32_t";
}

BatchWords batch_words(const Graph& graph, const Program& program) {
  std::vector<bool> read(graph.inputs.size());
  for (const Instruction& instruction : program.instructions) {
    for (const Operand& operand : instruction.inputs()) {
      if (operand.space == Operand::Space::kInput) read[static_cast<size_t>(operand.index)] = true;
    }
  }
  const int64_t examples = program.options.micro_batch_size * program.options.micro_batches;
  BatchWords words;
  for (size_t k = 0; k < graph.inputs.size(); ++k) {
    const Value& value = graph.values[static_cast<size_t>(graph.inputs[k])];
    const std::string name = c_name(value.name), type(c_type_of(value.type));
    const std::string separator = k == 0 ? "" : ", ";
    words.arguments += separator + (read[k] ? name : "NULL");
    if (!read[k]) continue;
    const std::string comma = words.names.empty() ? "" : ", ";
    const std::string size = std::to_string(examples * value.shape.count());
    words.parameters += comma + "const " + type + "* " + name;
    words.names += comma + name;
    words.comments += "// " + name + ": " + type + " [" + size + "], " + to_string(value.shape) +
                      " of each example.\n";
    words.buffers += "  static " + type + " " + name + "[" + size + "];\n";
    words.reads += (words.reads.empty() ? "" : " && ") + std::string("fread(") + name +
                   ", sizeof(" + name + "), 1, stdin) == 1";
  }
  return words;
}

// 64 bits that name a program and the layout of its state.
uint64_t identity_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// The rows of all instructions, and an error for one that C lacks.
Result<std::vector<const TrainingRow*>> training_rows_of(const Program& program) {
  std::vector<const TrainingRow*> rows;
  for (const Instruction& instruction : program.instructions) {
    rows.push_back(find_training_row(instruction, program.options.format));
    if (rows.back() == nullptr) {
      return refuse_instruction(instruction, "C has no such instruction yet");
    }
    MANTISSA_RETURN_IF_ERROR(check_operands(instruction));
  }
  return rows;
}

}  // namespace

Result<Program> fitting_program(const Graph& graph, const ProgramOptions& options,
                                const StateLayout& layout, int64_t budget_bytes) {
  const kernels::KernelTable kernels = kernels::select_kernels(Isa::kScalar);
  const PlanningContext planning{&kernels, 1};
  MANTISSA_ASSIGN(Program program, compile(graph, options, planning));
  if (budget_bytes == 0) return program;
  const int64_t state = state_places(graph, layout).bytes, whole = program.arena_bytes;
  int64_t least = std::numeric_limits<int64_t>::max();
  // The planner knows the kernels' memory, not what C needs: smaller and smaller limits are tried.
  constexpr int kParts = 16;
  for (int part = kParts; part > 0; --part) {
    if (part < kParts) {
      MANTISSA_ASSIGN(
          const TrainingProgram planned,
          compile_training(graph, options, planning,
                           {.mode = RecomputeMode::kAuto, .limit_bytes = whole * part / kParts}));
      ProgramOptions keeping = options;
      keeping.retention = planned.program.options.retention;
      MANTISSA_ASSIGN(program, compile(graph, keeping, planning));
    }
    MANTISSA_ASSIGN(const auto rows, training_rows_of(program));
    Program packed = program;
    plan_work(graph, rows, packed);
    least = std::min(least, state + packed.arena_bytes);
    if (state + packed.arena_bytes <= budget_bytes) return program;
  }
  return invalid_input("the budget of " + std::to_string(budget_bytes) +
                       " bytes is too small: the state has " + std::to_string(state) +
                       " bytes, and with the arena at least " + std::to_string(least) +
                       " were found to be needed");
}

uint64_t saved_identity(const Graph& graph, const StateLayout& layout, const Format& format) {
  std::string text = graph.name + " " + to_string(format);
  const StatePlaces places = state_places(graph, layout);
  for (size_t t = 0; t < layout.tensors.size(); ++t) {
    if (places.offsets[t] < 0) continue;
    const StateTensor& tensor = layout.tensors[t];
    text += "\n" + tensor.name + " " + data_type_name(tensor.type) + " " + to_string(tensor.shape);
  }
  return identity_of(text);
}

Result<CProgram> c_of_training(const CTraining& t) {
  const Graph& graph = *t.graph;
  Program program = *t.program;
  const Format& format = program.options.format;
  const StateLayout& layout = t.state->layout();
  MANTISSA_RETURN_IF_ERROR(check_format(format));
  MANTISSA_RETURN_IF_ERROR(graph.check_no_blocks("C has weights of 8 bits"));
  MANTISSA_ASSIGN(const auto rows, training_rows_of(program));
  const std::vector<int64_t> work = plan_work(graph, rows, program);
  const StatePlaces places = state_places(graph, layout);
  TrainingWriter writer(graph, program, *t.state, places, t.scalars);
  std::vector<std::string> blocks;
  for (size_t i = 0; i < rows.size(); ++i) {
    writer.begin(program.instructions[i], work[i]);
    MANTISSA_RETURN_IF_ERROR(rows[i]->write(writer, program.instructions[i]));
    blocks.push_back(writer.end());
  }
  std::string calls, rates;
  const std::string functions = stretches(program, blocks, calls);
  for (const auto& [step, rate] : t.learning_rates) {
    rates += "    {" + std::to_string(step) + ", " + c_real(rate) + "},\n";
  }
  const bool is_dynamic = format.is_dynamic();
  const std::vector<int64_t> noted = needed_places(graph, program);
  const auto tensor_shape = [&](int tensor) {
    return tensor < 0 ? 0 : layout.tensors[static_cast<size_t>(tensor)].shape.count();
  };
  const auto place_of = [&](int tensor) {
    return c_number(tensor < 0 ? -1 : places.offsets[static_cast<size_t>(tensor)]);
  };
  const int64_t predictors = tensor_shape(layout.predictors);
  const int64_t measured = is_dynamic || predictors == 0 ? 0 : predictors;
  const int64_t guards = tensor_shape(layout.guards);
  const BatchWords batch = batch_words(graph, program);
  const StepScalars& s = t.scalars;
  const auto at_least_one = [](int64_t n) { return c_number(std::max<int64_t>(1, n)); };
  const Words words = {
      {"header", "#include \"" + t.prefix + "_training.h\"\n"},
      {"p", t.prefix},
      {"P", upper_case(t.prefix)},
      {"model", graph.name},
      {"format", to_string(format)},
      {"optimizer", optimizer(program.options.optimizer).name},
      {"loss_unit", "(nats, if it is a cross-entropy: times log 2)"},
      {"batch", c_number(program.options.micro_batch_size * program.options.micro_batches)},
      {"state_bytes", c_number(places.bytes)},
      {"arena_bytes", c_number(round_up<int64_t>(program.arena_bytes, 8))},
      {"counts", at_least_one(is_dynamic ? predictors : 0)},
      {"exponents", c_number(std::ssize(program.exponents))},
      {"measured", at_least_one(measured)},
      {"channels", at_least_one(writer.guarded_channels())},
      {"guards", at_least_one(guards)},
      {"step", c_number(s.step)},
      {"inputs", batch.comments},
      {"parameters", batch.parameters},
      {"arguments", batch.arguments},
      {"names", batch.names},
      {"buffers", batch.buffers},
      {"reads", batch.reads},
      {"dynamic", !is_dynamic     ? "NULL"
                  : noted.empty() ? "&dev_dynamic"
                                  : "&dev_dynamic_of_micro_batches"},
      {"needed", noted.empty() ? "" : needed_text(work.back())},
      {"rules", is_dynamic ? "rules" : "NULL"},
      {"predictors", c_number(predictors)},
      {"measured_slots", c_number(measured)},
      {"predicted", place_of(layout.predictors)},
      {"bit_counts", place_of(layout.bits)},
      {"guard_place", place_of(layout.guards)},
      {"guarded", c_number(guards)},
      {"deciding", c_number(format.deciding_steps())},
      {"decision", c_number(format.decision_steps)},
      {"identity", std::to_string(saved_identity(graph, layout, format))},
      {"functions", functions},
      {"rates", rates},
      {"micro_batches", c_number(program.options.micro_batches)},
      {"momentum", c_real(s.momentum)},
      {"decay", c_real(s.weight_decay)},
      {"beta1", c_real(s.beta1)},
      {"beta2", c_real(s.beta2)},
      {"epsilon", c_real(s.epsilon)},
      {"scale", c_real(s.gradient_scale)},
      {"statistics", c_real(s.statistics_momentum)},
      {"seed", std::to_string(s.seed)},
      {"calls", calls}};
  std::string tables = writer.tables();
  if (is_dynamic) tables += rules_of(graph, program, predictors);
  if (!noted.empty()) tables += c_table("int32_t", "needed_places", noted);
  tables += widths_table(layout, places) + state_table(*t.state, places);
  if (is_dynamic) writer.include("device/training/dynamic.h");
  std::vector<std::string> headers(writer.headers().begin(), writer.headers().end());
  CProgram result{.files = training_files(words, headers, tables),
                  .arena_bytes = program.arena_bytes,
                  .state_bytes = places.bytes,
                  .constant_bytes = places.bytes + writer.constant_bytes()};
  return result;
}

}  // namespace mantissa::device

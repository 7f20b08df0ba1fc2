#include "device/export_c.h"

#include "base/system/thread_pool.h"
#include "device/project_files.h"
#include "device/rows/frozen_rows.h"
#include "device/volumes.h"
#include "device/text/c_writer.h"
#include "kernels/kernel_table.h"
#include "runtime/executor.h"
#include "runtime/memory.h"

namespace mantissa::device {
namespace {

Error refuse(const Instruction& instruction, const std::string& why) {
  return invalid_input("node '" + instruction.name + "' (" + instruction.op->name + "): " + why);
}

// The C inputs and results of these types, with one exponent for a whole tensor.
Status check_tensors(const Instruction& instruction, const OpContext& c) {
  for (const Tensor& tensor : c.inputs) {
    const bool is_input = tensor.type == DataType::kUint8 || tensor.type == DataType::kInt16;
    const bool reads_input = instruction.inputs()[0].space == Operand::Space::kInput;
    if (tensor.type != DataType::kInt8 && !(is_input && reads_input)) {
      return refuse(instruction, "C takes values of up to 8 bits only");
    }
  }
  if (c.output().type != DataType::kInt8 && c.output().type != DataType::kInt32) {
    return refuse(instruction, "C gives values of up to 8 bits only");
  }
  if (c.output().row_exponents != nullptr || c.output().is_guarded()) {
    return refuse(instruction, "C wants one exponent for the whole tensor");
  }
  const bool has_words = !c.parameters.empty() && c.parameters[0].mantissa.type == DataType::kInt16;
  if (has_words) return refuse(instruction, "C takes weights of up to 8 bits only");
  return {};
}

// The rows of all instructions.
Result<std::vector<const FrozenRow*>> find_rows(const Program& program) {
  std::vector<const FrozenRow*> rows;
  for (const Instruction& instruction : program.instructions) {
    rows.push_back(find_frozen_row(instruction.op->name));
    if (has_volume(instruction)) return refuse(instruction, kNoVolumes);
    if (rows.back() == nullptr) return refuse(instruction, "C has no such operator yet");
  }
  return rows;
}

// The program with the memory that the C functions need in place of the kernels', packed anew.
// Returns the offsets of each instruction's own memory.
std::vector<int64_t> plan_memory(const Executor& executor, std::span<const FrozenRow* const> rows,
                                 Program& program) {
  for (Buffer& buffer : program.buffers) {
    if (buffer.kind == BufferKind::kWorkspace || buffer.kind == BufferKind::kScratch) {
      buffer.bytes = 0;
    }
  }
  const auto first_work = static_cast<int64_t>(program.buffers.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const int at = static_cast<int>(i);
    program.buffers.push_back(
        {.name = program.instructions[i].name,
         .kind = BufferKind::kWorkspace,
         .bytes = rows[i]->work_bytes == nullptr ? 0 : rows[i]->work_bytes(executor.context(at)),
         .first = at,
         .last = at});
  }
  // The results go to the caller.
  const Operand& result = program.outputs[0];
  if (result.type == DataType::kInt32) program.buffers[result.index].bytes = 0;
  std::vector<Buffer> packed;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.bytes > 0) packed.push_back(buffer);
  }
  program.arena_bytes = pack_arena(packed);
  size_t next = 0;
  for (Buffer& buffer : program.buffers) {
    buffer.offset = buffer.bytes > 0 ? packed[next++].offset : 0;
  }
  std::vector<int64_t> work;
  for (size_t i = 0; i < rows.size(); ++i) {
    work.push_back(program.buffers[static_cast<size_t>(first_work) + i].offset);
  }
  return work;
}

// Runs the program once, on zeros: every exponent is then in its slot.
Status settle_exponents(const Graph& graph, Executor& executor) {
  std::vector<std::vector<std::byte>> zeros;
  std::vector<const void*> batch;
  for (const int input : graph.inputs) {
    const Value& value = graph.values[static_cast<size_t>(input)];
    zeros.emplace_back(static_cast<size_t>(value.shape.count() * element_bytes(value.type)));
    batch.push_back(zeros.back().data());
  }
  MANTISSA_ASSIGN(const StepResult ignored, executor.infer(batch));
  (void)ignored;
  return {};
}

// The one input that the program reads.
Result<const Value*> input_of(const Graph& graph, const Program& program) {
  const Value* input = nullptr;
  for (const Instruction& instruction : program.instructions) {
    for (const Operand& operand : instruction.inputs()) {
      if (operand.space != Operand::Space::kInput) continue;
      const Value& value = graph.values[static_cast<size_t>(graph.inputs[operand.index])];
      if (input != nullptr && input != &value) {
        return invalid_input("the network has several inputs; C takes one");
      }
      input = &value;
    }
  }
  if (input == nullptr) return invalid_input("the network reads no input");
  return input;
}

}  // namespace

Result<CProgram> c_of_frozen(FrozenNetwork& network, const std::string& prefix) {
  const FrozenDescription& description = network.description;
  if (description.format.is_float()) {
    return invalid_input("the network computes in fp32; C is written for integers");
  }
  MANTISSA_RETURN_IF_ERROR(network.graph.check_no_blocks("C has weights of 8 bits"));
  const kernels::KernelTable kernels = kernels::select_kernels(Isa::kScalar);
  MANTISSA_ASSIGN(Program program,
                  compile_inference(network.graph, description.format, 1, false, {&kernels, 1}));
  MANTISSA_ASSIGN(const auto rows, find_rows(program));
  MANTISSA_ASSIGN(const Value* const input, input_of(network.graph, program));
  if (program.outputs.size() != 1) {
    return invalid_input("the network has several results; C gives one");
  }
  MANTISSA_ASSIGN(const AlignedMemory arena, AlignedMemory::create(program.arena_bytes));
  ThreadPool pool(1);
  // The executor keeps references to its program.
  const Program planned = program;
  Executor executor(network.graph, planned, network.state, arena.span(), pool, Isa::kScalar);
  MANTISSA_RETURN_IF_ERROR(settle_exponents(network.graph, executor));
  const std::vector<int64_t> work = plan_memory(executor, rows, program);
  CWriter writer(program, std::vector<std::string>(network.graph.inputs.size(), "input"));
  for (size_t i = 0; i < rows.size(); ++i) {
    const OpContext& context = executor.context(static_cast<int>(i));
    MANTISSA_RETURN_IF_ERROR(check_tensors(program.instructions[i], context));
    writer.begin(program.instructions[i], work[i]);
    MANTISSA_RETURN_IF_ERROR(rows[i]->write(writer, context));
  }
  const Tensor result = executor.output(0);
  const CNetwork written = {.prefix = prefix,
                            .description = &description,
                            .input = input,
                            .results = result.count(),
                            .exponent = *result.exponent,
                            .is_wide = result.type == DataType::kInt32,
                            .result = writer.at(program.outputs[0], "int8_t"),
                            .guess = guess_text(description, result.count(), *result.exponent),
                            .arena_bytes = program.arena_bytes,
                            .constant_bytes = writer.constant_bytes(),
                            .writer = &writer};
  return CProgram{.files = project_files(written),
                  .arena_bytes = program.arena_bytes,
                  .constant_bytes = writer.constant_bytes()};
}

}  // namespace mantissa::device

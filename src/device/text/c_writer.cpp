#include "device/text/c_writer.h"

namespace mantissa::device {
namespace {

int64_t bytes_of_type(std::string_view type) {
  if (type.find("64") != type.npos) return 8;
  if (type.find("32") != type.npos) return 4;
  return type.find("16") != type.npos ? 2 : 1;
}

std::string address(std::string_view type, int64_t offset) {
  return "(" + std::string(type) + "*)(arena + " + std::to_string(offset) + ")";
}

}  // namespace

void CWriter::begin(const Instruction& instruction, int64_t work) {
  if (instruction_ != nullptr) body_ += "  }\n";
  instruction_ = &instruction;
  work_ = work;
  name_ = c_name(instruction.name);
  // Different names may become one, and a node has several instructions.
  if (const int seen = names_[name_]++; seen > 0) name_ += "__" + std::to_string(seen);
  body_ += "  {  // " + instruction.name + ": " + instruction.op->name + "\n";
}

std::string CWriter::at(const Operand& operand, std::string_view type) const {
  if (operand.space == Operand::Space::kInput) return inputs_[static_cast<size_t>(operand.index)];
  const Operand& result = program_.outputs[0];
  if (operand.index == result.index && result.type == DataType::kInt32) return "results";
  return address(type, program_.buffers[static_cast<size_t>(operand.index)].offset);
}

std::string CWriter::work(std::string_view type, int64_t offset) const {
  return address(type, work_ + offset);
}

std::string CWriter::table(std::string_view type, std::string_view what,
                           std::span<const int64_t> numbers) {
  const std::string name = name_ + "_" + std::string(what);
  tables_ += c_table(type, name, numbers);
  constant_bytes_ += std::ssize(numbers) * bytes_of_type(type);
  return name;
}

std::string CWriter::structure(std::string_view type, std::string_view what,
                               const CMembers& members) {
  body_ += "    const " + std::string(type) + " " + std::string(what) + " = " +
           c_structure(members, 4) + ";\n";
  return "&" + std::string(what);
}

void CWriter::statement(std::string_view text) { body_ += "    " + std::string(text) + "\n"; }

}  // namespace mantissa::device

// The text of a program as C, as its rows write it: constants, and a call for each instruction.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/text/c_text.h"
#include "graph/op.h"
#include "plan/programs/program.h"

namespace mantissa::device {

class CWriter {
 public:
  // `inputs`: the C name of each input of the graph.
  CWriter(const Program& program, std::vector<std::string> inputs)
      : program_(program), inputs_(std::move(inputs)) {}

  // What follows belongs to this instruction. `work`: the offset of its own memory in the arena.
  void begin(const Instruction& instruction, int64_t work);

  // The address of an operand's data, in the arena or an input: "(int8_t*)(arena + 64)".
  std::string at(const Operand& operand, std::string_view type) const;
  // The addresses of the instruction's values, of 8 bits.
  std::string input(size_t which = 0) const { return at(instruction_->inputs()[which], "int8_t"); }
  std::string output() const { return at(instruction_->output(), "int8_t"); }
  // The address of the instruction's own memory.
  std::string work(std::string_view type, int64_t offset = 0) const;

  // A constant table of the instruction; returns its C name. The same numbers of one name are
  // written once.
  std::string table(std::string_view type, std::string_view what, std::span<const int64_t> numbers);
  // "const TYPE what = {...};" inside the instruction's block; returns "&what".
  std::string structure(std::string_view type, std::string_view what, const CMembers& members);
  // A statement inside the instruction's block.
  void statement(std::string_view text);
  // A header whose functions the program calls.
  void include(std::string_view header) { headers_.insert(std::string(header)); }

  const Instruction& instruction() const { return *instruction_; }
  const std::string& tables() const { return tables_; }
  // The blocks of all instructions, in order.
  std::string body() const { return body_ + (instruction_ == nullptr ? "" : "  }\n"); }
  const std::set<std::string>& headers() const { return headers_; }
  int64_t constant_bytes() const { return constant_bytes_; }

 private:
  const Program& program_;
  std::vector<std::string> inputs_;
  const Instruction* instruction_ = nullptr;
  int64_t work_ = 0;
  std::string name_;
  std::map<std::string, int> names_;
  std::string tables_, body_;
  std::set<std::string> headers_;
  int64_t constant_bytes_ = 0;
};

}  // namespace mantissa::device

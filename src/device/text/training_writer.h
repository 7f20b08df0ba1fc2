// The text of a training program as C: places of tensors and parameters as tables, and a call for
// each instruction.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/text/c_text.h"
#include "graph/graph.h"
#include "plan/programs/program.h"
#include "runtime/state.h"

namespace mantissa::device {

// Where the tensors of a state lie in C: one after the other, aligned to 8 bytes. Parameters that
// are not trained are constants of the program, and have no place.
struct StatePlaces {
  std::vector<int64_t> offsets;  // as the layout's tensors; -1: a constant
  int64_t bytes = 0;

  bool is_constant(int tensor) const { return offsets[static_cast<size_t>(tensor)] < 0; }
};
StatePlaces state_places(const Graph& graph, const StateLayout& layout);

inline constexpr const char* kNotKept = "{NULL, -1}";  // a DevKept that there is not

class TrainingWriter {
 public:
  TrainingWriter(const Graph& graph, const Program& program, const State& state,
                 const StatePlaces& places, const StepScalars& scalars)
      : graph_(graph),
        program_(program),
        layout_(state.layout()),
        numbers_(state),
        state_(places),
        scalars_(scalars) {}

  // What follows belongs to this instruction. `work`: its own memory in the arena.
  void begin(const Instruction& instruction, int64_t work);
  // The block of the instruction.
  std::string end();

  // Declares a tensor of the instruction; returns "&name".
  std::string tensor(const Operand& operand, std::string_view name);
  // The same for a parameter of an update, and for a parameter's sums.
  std::string parameter(const Operand& parameter, const Operand& sums, std::string_view name);
  // `clears`: sets them to zero first, in the first micro-batch, unless another use came before.
  std::string sums(const Operand& operand, std::string_view name, bool clears);
  // Offsets in the arena: of an operand, and of the instruction's own memory.
  int64_t offset(const Operand& operand) const;
  int64_t work() const { return work_; }
  // The batch's input, at the micro-batch: as many elements of `type` in each.
  std::string input(const Operand& operand, std::string_view type) const;
  // A parameter's data and exponents, as DevKept.
  std::string data(int parameter);
  std::string exponents(int parameter);

  // "static const TYPE name_what[N] = ...", or one structure.
  std::string table(std::string_view type, std::string_view what, std::span<const int64_t> numbers);
  std::string constant(std::string_view type, std::string_view what, const CMembers& members);
  // "const TYPE what = expression;" inside the block, and "... = {...};"; both return "&what".
  std::string declared(std::string_view type, std::string_view what, std::string_view expression);
  std::string structure(std::string_view type, std::string_view what, const CMembers& members);
  void statement(std::string_view text);
  void include(std::string_view header) { headers_.insert(std::string(header)); }

  const Instruction& instruction() const { return *instruction_; }
  const Graph& graph() const { return graph_; }
  const Program& program() const { return program_; }
  const StateLayout& layout() const { return layout_; }
  const StepScalars& scalars() const { return scalars_; }
  const std::set<std::string>& headers() const { return headers_; }
  // All tables, with the places.
  std::string tables() const;
  int64_t guarded_channels() const { return channels_; }
  int64_t constant_bytes() const { return constant_bytes_; }  // of the state's constants

 private:
  std::string kept(int tensor);
  std::string place(std::string_view table, const std::string& text);
  int64_t state_offset(int tensor) const {
    return tensor < 0 ? -1 : state_.offsets[static_cast<size_t>(tensor)];
  }
  int fixed_exponent(int parameter) const;

  const Graph& graph_;
  const Program& program_;
  const StateLayout& layout_;
  const State& numbers_;
  const StatePlaces& state_;
  const StepScalars& scalars_;
  const Instruction* instruction_ = nullptr;
  int64_t work_ = 0;
  std::string name_, block_, tables_;
  std::map<std::string, int> names_;
  std::map<std::string, std::string> named_;  // names of constants by their texts
  // By the name of a table of places: its entries, and where each is.
  std::map<std::string, std::vector<std::string>, std::less<>> places_;
  std::map<int, int64_t> channel_places_;  // of guarded values
  int64_t channels_ = 0;
  std::set<std::string> headers_;
  std::map<int, std::string> constants_;  // tables of the state's constants, by tensor
  int64_t constant_bytes_ = 0;
};

}  // namespace mantissa::device

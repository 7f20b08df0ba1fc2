#include "device/text/training_writer.h"

#include <algorithm>

#include "base/checked.h"

namespace mantissa::device {

namespace {

// Sums that are measured may have an exponent of their own if they fit 32 bits. C leaves them at
// 64: the update gets the same numbers.
bool has_fixed_exponent(const Operand& sums) { return sums.type == DataType::kInt64; }

}  // namespace

StatePlaces state_places(const Graph& graph, const StateLayout& layout) {
  constexpr int64_t kAlignment = 8;
  std::set<int> constants;
  for (size_t i = 0; i < layout.parameters.size(); ++i) {
    if (graph.parameters[i].trained) continue;
    const ParameterState& of = layout.parameters[i];
    for (const int tensor : {of.mantissa, of.exponent}) {
      if (tensor < 0) continue;
      // Running statistics change without being trained.
      const StateGroup group = layout.tensors[static_cast<size_t>(tensor)].group;
      if (group == StateGroup::kParameter) constants.insert(tensor);
    }
  }
  StatePlaces places;
  for (size_t t = 0; t < layout.tensors.size(); ++t) {
    if (constants.contains(static_cast<int>(t))) {
      places.offsets.push_back(-1);
      continue;
    }
    places.offsets.push_back(places.bytes);
    places.bytes = round_up<int64_t>(places.bytes + layout.tensors[t].bytes(), kAlignment);
  }
  return places;
}

void TrainingWriter::begin(const Instruction& instruction, int64_t work) {
  instruction_ = &instruction;
  work_ = work;
  name_ = c_name(instruction.name);
  if (const int seen = names_[name_]++; seen > 0) name_ += "__" + std::to_string(seen);
  block_ = "  {  // " + instruction.name + ": " + instruction.op->name + ", " +
           std::string(phase_name(instruction)) + "\n";
  if (instruction.again) statement("const int64_t clipped = dev_begin_again(m);");
}

std::string TrainingWriter::end() {
  if (instruction_->again) statement("dev_end_again(m, clipped);");
  return block_ + "  }\n";
}

// The index of an entry in a table of places.
std::string TrainingWriter::place(std::string_view table, const std::string& text) {
  auto& entries = places_[std::string(table)];
  auto found = std::ranges::find(entries, text);
  if (found == entries.end()) found = entries.insert(entries.end(), text);
  return "&" + std::string(table) + "[" + std::to_string(found - entries.begin()) + "]";
}

std::string TrainingWriter::tensor(const Operand& operand, std::string_view name) {
  const Exponent& exponent = program_.exponents[static_cast<size_t>(operand.exponent)];
  const bool is_value = exponent.owner == ExponentOwner::kValue;
  const int64_t channels =
      is_value ? program_.guarded_channels[static_cast<size_t>(operand.exponent)] : 0;
  int64_t channel_place = -1, guard = -1;
  if (channels > 0) {
    const auto [at, is_new] = channel_places_.emplace(operand.exponent, channels_);
    if (is_new) channels_ += channels;
    channel_place = at->second;
    guard = layout_.slots.of_value[static_cast<size_t>(operand.exponent)];
  }
  const int bits = operand.type == DataType::kInt32 ? 32 : exponent.bits;
  const std::string text =
      c_structure({{"data", c_number(program_.buffers[static_cast<size_t>(operand.index)].offset)},
                   {"count", c_number(operand.shape.count())},
                   {"channels", c_number(operand.shape.last())},
                   {"channel_exponents", c_number(channel_place)},
                   {"exponent", c_number(operand.exponent)},
                   {"predictor", c_number(exponent.predictor)},
                   {"guard", c_number(guard)},
                   {"bits", c_number(bits)},
                   {"limit", c_number(exponent.limit)}},
                  2);
  statement("const DevTensor " + std::string(name) + " = dev_tensor(m, " +
            place("tensor_places", text) + ");");
  return "&" + std::string(name);
}

int TrainingWriter::fixed_exponent(int parameter) const {
  return layout_.parameters[static_cast<size_t>(parameter)].gradient_exponent;
}

std::string TrainingWriter::sums(const Operand& operand, std::string_view name, bool clears) {
  const Exponent& exponent = program_.exponents[static_cast<size_t>(operand.exponent)];
  const bool is_fixed = has_fixed_exponent(operand);
  const std::string text =
      c_structure({{"data", c_number(program_.buffers[static_cast<size_t>(operand.index)].offset)},
                   {"fixed_exponent", c_number(state_offset(fixed_exponent(exponent.of)))},
                   {"count", c_number(operand.shape.count())},
                   {"exponent", c_number(is_fixed ? -1 : operand.exponent)},
                   {"bits", c_number(8 * element_bytes(operand.type))}},
                  2);
  const std::string at = place("sums_places", text);
  if (clears && operand.access == Access::kAccumulates) {
    statement("dev_clear_sums(m, " + at + ");");
  }
  statement("const DevSums " + std::string(name) + " = dev_sums(m, " + at + ");");
  return "&" + std::string(name);
}

std::string TrainingWriter::parameter(const Operand& operand, const Operand& sums,
                                      std::string_view name) {
  const Parameter& parameter = graph_.parameters[static_cast<size_t>(operand.index)];
  const ParameterState& of = layout_.parameters[static_cast<size_t>(operand.index)];
  const bool is_fixed = has_fixed_exponent(sums);
  const Format& format = program_.options.format;
  const int64_t velocity = format.is_dynamic() && of.moments[0].mantissa >= 0
                               ? layout_.slots.velocity_predictor(operand.index)
                               : -1;
  const std::string text = c_structure(
      {{"rate_factor", c_real(parameter.rate_factor)},
       {"weights", c_number(state_offset(of.mantissa))},
       {"exponents", c_number(state_offset(of.exponent))},
       {"accumulator", c_number(state_offset(of.accumulator))},
       {"first", c_number(state_offset(of.moments[0].mantissa))},
       {"first_exponent", c_number(state_offset(of.moments[0].exponent))},
       {"second", c_number(state_offset(of.moments[1].mantissa))},
       {"second_exponent", c_number(state_offset(of.moments[1].exponent))},
       {"fixed_exponent", c_number(state_offset(of.gradient_exponent))},
       {"sums", c_number(program_.buffers[static_cast<size_t>(sums.index)].offset)},
       {"sums_exponent", c_number(is_fixed ? -1 : sums.exponent)},
       {"velocity", c_number(velocity)},
       {"count", c_number(parameter.shape.count())},
       {"blocks", c_number(layout_.tensors[static_cast<size_t>(of.exponent)].shape.count())},
       {"sum_bits", c_number(8 * element_bytes(sums.type))},
       {"bits", c_number(program_.parameter_grids[static_cast<size_t>(operand.index)].bits)},
       {"shift", c_number(layout_.lazy_shift)},
       {"decays", parameter.decays ? "true" : "false"},
       {"stochastic", format.nearest_updates ? "false" : "true"},
       {"index", c_number(operand.index)}},
      2);
  statement("const DevParameter " + std::string(name) + " = dev_parameter(m, " +
            place("parameter_places", text) + ");");
  return "&" + std::string(name);
}

namespace {

// The numbers of a tensor of mantissas or exponents.
std::vector<int64_t> numbers_of(const State& state, int tensor) {
  const StateTensor& of = state.layout().tensors[static_cast<size_t>(tensor)];
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < of.shape.count(); ++i) {
    numbers.push_back(of.type == DataType::kInt8 ? state.data<int8_t>(tensor)[i]
                                                 : state.data<int16_t>(tensor)[i]);
  }
  return numbers;
}

}  // namespace

std::string TrainingWriter::kept(int tensor) {
  if (!state_.is_constant(tensor)) return "{NULL, " + c_number(state_offset(tensor)) + "}";
  std::string& name = constants_[tensor];
  const StateTensor& of = layout_.tensors[static_cast<size_t>(tensor)];
  if (name.empty()) {
    name = "kept_" + c_name(of.name) + "_" + c_number(tensor);
    tables_ += c_table(of.type == DataType::kInt8 ? "int8_t" : "int16_t", name,
                       numbers_of(numbers_, tensor));
    constant_bytes_ += of.bytes();
  }
  return "{" + name + ", -1}";
}

int64_t TrainingWriter::offset(const Operand& operand) const {
  return program_.buffers[static_cast<size_t>(operand.index)].offset;
}

std::string TrainingWriter::input(const Operand& operand, std::string_view type) const {
  return "(const " + std::string(type) + "*)inputs[" + c_number(operand.index) +
         "] + m->step.micro_batch * " + c_number(operand.shape.count());
}

std::string TrainingWriter::data(int parameter) {
  return kept(layout_.parameters[static_cast<size_t>(parameter)].mantissa);
}

std::string TrainingWriter::exponents(int parameter) {
  return kept(layout_.parameters[static_cast<size_t>(parameter)].exponent);
}

std::string TrainingWriter::table(std::string_view type, std::string_view what,
                                  std::span<const int64_t> numbers) {
  const std::string name = name_ + "_" + std::string(what);
  tables_ += c_table(type, name, numbers);
  return name;
}

std::string TrainingWriter::constant(std::string_view type, std::string_view what,
                                     const CMembers& members) {
  const std::string text = c_structure(members, 0);
  std::string& name = named_[std::string(type) + text];
  if (name.empty()) {
    name = name_ + "_" + std::string(what);
    tables_ += "static const " + std::string(type) + " " + name + " = " + text + ";\n";
  }
  return "&" + name;
}

std::string TrainingWriter::declared(std::string_view type, std::string_view what,
                                     std::string_view expression) {
  statement("const " + std::string(type) + " " + std::string(what) + " = " +
            std::string(expression) + ";");
  return "&" + std::string(what);
}

std::string TrainingWriter::structure(std::string_view type, std::string_view what,
                                      const CMembers& members) {
  return declared(type, what, c_structure(members, 4));
}

void TrainingWriter::statement(std::string_view text) {
  block_ += "    " + std::string(text) + "\n";
}

std::string TrainingWriter::tables() const {
  std::string text = tables_;
  for (const auto& [table, entries] : places_) {
    const std::string type = table == "tensor_places" ? "DevTensorPlace"
                             : table == "sums_places" ? "DevSumsPlace"
                                                      : "DevParameterPlace";
    text += "static const " + type + " " + table + "[" + c_number(std::ssize(entries)) + "] = {\n";
    for (const std::string& entry : entries) text += "  " + entry + ",\n";
    text += "};\n";
  }
  return text;
}

}  // namespace mantissa::device

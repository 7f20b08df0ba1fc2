#include "plan/programs/program_text.h"

#include <algorithm>
#include <cstdint>
#include <iomanip>
#include <limits>
#include <span>
#include <sstream>

namespace mantissa {
namespace {

template <typename Words, typename Enum>
std::string_view word_of(const Words& words, Enum value) {
  return words[static_cast<size_t>(value)];
}

// A name that readers take for one word.
std::string name_word(const std::string& name) {
  if (!name.empty() && name.find_first_of(" \t\n\"\\") == std::string::npos) return name;
  std::ostringstream quoted;
  quoted << std::quoted(name);
  return quoted.str();
}

std::string joined(std::string_view name) {
  std::string word(name);
  std::ranges::replace(word, ' ', '_');
  return word;
}

// "0..3,7": whole numbers, runs of consecutive ones by their ends; "-": none.
template <typename Number>
std::string list_word(const std::vector<Number>& numbers) {
  std::string text;
  for (size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    for (end = begin + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1;) ++end;
    text += (text.empty() ? "" : ",") + std::to_string(numbers[begin]);
    if (end - begin > 1) text += ".." + std::to_string(numbers[end - 1]);
  }
  return text.empty() ? "-" : text;
}

// A line of columns. Columns that are too narrow move those behind them.
class Line {
 public:
  explicit Line(size_t indent) : text_(indent, ' ') {}

  Line& word(std::string_view word, size_t width = 0) {
    text_ += word;
    text_.append(width > word.size() ? width - word.size() : 0, ' ');
    text_ += ' ';
    return *this;
  }
  Line& number(int64_t number, size_t width) { return right(std::to_string(number), width); }
  // "-" for the number that means none.
  Line& number_or_none(int64_t number, int64_t none, size_t width) {
    return right(number == none ? "-" : std::to_string(number), width);
  }
  std::string end() {
    text_.erase(text_.find_last_not_of(' ') + 1);
    return text_ + "\n";
  }

 private:
  Line& right(const std::string& word, size_t width) {
    text_.append(width > word.size() ? width - word.size() : 0, ' ');
    return this->word(word);
  }

  std::string text_;
};

std::string option(std::string_view name, std::string_view value) {
  return Line(2).word(name, 17).word(value).end();
}
std::string option(std::string_view name, int64_t value) {
  return option(name, std::to_string(value));
}

std::string head(std::string_view section, size_t count, std::string_view titles) {
  std::string text = "\n" + std::string(section) + " " + std::to_string(count) + "\n";
  return titles.empty() ? text : text + std::string(titles) + "\n";
}

// A letter per value; "-": none.
template <typename Value>
std::string letters_of(const std::vector<Value>& values, std::string_view letters) {
  std::string word;
  for (const Value value : values) word += letters[static_cast<size_t>(value)];
  return word.empty() ? "-" : word;
}

std::string options_text(const Program& program) {
  const ProgramOptions& o = program.options;
  const bool is_limited = o.arena_limit_bytes != std::numeric_limits<int64_t>::max();
  return option("kind", word_of(program_words::kKinds, o.kind)) +
         option("format", to_string(o.format)) + option("micro_batch_size", o.micro_batch_size) +
         option("micro_batches", o.micro_batches) +
         option("optimizer", optimizer_name(o.optimizer)) + option("with_loss", o.with_loss) +
         option("exponents", word_of(program_words::kExponentModes, o.exponents)) +
         option("clips", o.clips) +
         option("retention", letters_of(o.retention, program_words::kRetention)) +
         option("by_rows", letters_of(o.by_rows, "01")) + option("results", list_word(o.results)) +
         option("given", list_word(o.given)) + option("cached_positions", o.cached_positions) +
         option("logit_rows", o.logit_rows) +
         option("arena_limit", is_limited ? std::to_string(o.arena_limit_bytes) : "-") +
         option("arena_bytes", program.arena_bytes) + option("live_bytes", program.live_bytes) +
         option("cache_bytes", program.cache_bytes) + option("caches", list_word(program.caches));
}

std::string grid_word(const WeightGrid& grid) {
  if (grid == WeightGrid{}) return "-";
  return std::to_string(grid.bits) + (grid.is_full ? ",full" : "") + (grid.stops ? ",stops" : "");
}

std::string parameters_text(const Graph& graph, const Program& program) {
  std::string text = head("parameters", program.parameter_grids.size(),
                          "     # scaling  bits blocks  limit grid  name");
  for (size_t i = 0; i < program.parameter_grids.size(); ++i) {
    const Grid& grid = program.parameter_grids[i];
    text += Line(2)
                .number(static_cast<int64_t>(i), 4)
                .word(word_of(program_words::kScalings, grid.scaling), 8)
                .number(grid.bits, 4)
                .word(word_of(program_words::kBlocks, grid.blocks), 7)
                .number_or_none(grid.exponent_limit, kExponentMax, 5)
                .word(grid_word(grid.weights), 5)
                .word(graph.parameters[i].name)
                .end();
  }
  return text;
}

std::string buffers_text(const Program& program) {
  std::string text = head("buffers", program.buffers.size(),
                          "     # kind                  bytes     offset first  last name");
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    text += Line(2)
                .number(static_cast<int64_t>(i), 4)
                .word(joined(buffer_kind_name(buffer.kind)), 16)
                .number(buffer.bytes, 10)
                .number(buffer.offset, 10)
                .number(buffer.first, 5)
                .number(buffer.last, 5)
                .word(name_word(buffer.name))
                .end();
  }
  return text;
}

std::string exponents_text(const Graph& graph, const Program& program) {
  std::string text = head(
      "exponents", program.exponents.size(),
      "     # owner                of input rule        bits limit predictor   key channels name");
  for (size_t i = 0; i < program.exponents.size(); ++i) {
    const Exponent& exponent = program.exponents[i];
    const bool has_channels = i < program.guarded_channels.size();
    text += Line(2)
                .number(static_cast<int64_t>(i), 4)
                .word(word_of(program_words::kOwners, exponent.owner), 18)
                .number(exponent.of, 4)
                .number(exponent.input, 5)
                .word(joined(exponent_rule_name(exponent.rule)), 11)
                .number(exponent.bits, 4)
                .number_or_none(exponent.limit, kExponentMax, 5)
                .number_or_none(exponent.predictor, -1, 9)
                .number_or_none(exponent.key, -1, 5)
                .number_or_none(has_channels ? program.guarded_channels[i] : -1, -1, 8)
                .word(exponent_name(graph, exponent))
                .end();
  }
  return text;
}

std::string shape_word(const Shape& shape) {
  std::string word = to_string(shape);
  std::erase(word, ' ');
  return word;
}

std::string label_of(const Graph& graph, const Program& program, const Operand& operand) {
  switch (operand.space) {
    case Operand::Space::kArena:
      return program.buffers[operand.index].name;
    case Operand::Space::kState:
      return graph.parameters[operand.index].name;
    case Operand::Space::kInput: {
      const auto inputs = std::ssize(graph.inputs);
      const int value = operand.index < inputs ? graph.inputs[operand.index]
                                               : program.options.given[operand.index - inputs];
      return graph.values[value].name;
    }
    case Operand::Space::kCache:
    case Operand::Space::kNone:
      break;
  }
  return "";
}

constexpr std::string_view kOperandTitles =
    "       role       access      space    # type  exponent   rows shape                name";

std::string operand_text(const Graph& graph, const Program& program, const Operand& operand) {
  return Line(7)
      .word(role_name(operand.role), 10)
      .word(access_name(operand.access), 11)
      .word(word_of(program_words::kSpaces, operand.space), 5)
      .number_or_none(operand.index, -1, 4)
      .word(data_type_name(operand.type) + std::string(operand.is_measured ? "?" : ""), 5)
      .number_or_none(operand.exponent, -1, 8)
      .number_or_none(operand.row_exponents, -1, 6)
      .word(shape_word(operand.shape), 20)
      .word(label_of(graph, program, operand))
      .end();
}

std::string_view row_word(const Instruction& instruction) {
  const Op& op = *instruction.op;
  const auto is_its = [&](const OpRows* rows, const program_words::NamedRow& named) {
    return rows != nullptr && &(rows->*named.row) == instruction.row;
  };
  const auto found = std::ranges::find_if(program_words::kRows, [&](const auto& named) {
    return is_its(&op.integer, named) || is_its(op.fp32, named);
  });
  return found == program_words::kRows.end() ? "?" : found->name;
}

bool is_default(const Op& op, const Attributes::Item& item) {
  const auto spec = std::ranges::find_if(
      op.attributes.specs, [&](const AttributeSpec& known) { return item.first == known.name; });
  return spec != op.attributes.specs.end() && !spec->is_required &&
         item.second == default_of(*spec);
}

// The attributes of the node, without those that have their defaults.
std::string attributes_word(const Graph& graph, const Instruction& instruction) {
  if (instruction.node < 0) return "";
  const Node& node = graph.nodes[instruction.node];
  std::string text;
  for (const Attributes::Item& item : node.attributes.items()) {
    if (is_default(*node.op, item)) continue;
    text += (text.empty() ? "{" : ", ") + item.first + "=" + to_string(item.second);
  }
  return text.empty() ? "" : text + "}";
}

std::string instruction_text(const Graph& graph, const Program& program, int number) {
  const Instruction& i = program.instructions[number];
  Line line(2);
  line.number(number, 4).word(i.op->name, 21).word(row_word(i), 12);
  line.word(name_word(i.name), 20);
  const auto value = [&](std::string_view key, int64_t number_of, int64_t none) {
    if (number_of != none) line.word(std::string(key) + "=" + std::to_string(number_of));
  };
  const auto flag = [&](std::string_view key, bool is_set) {
    if (is_set) line.word(key);
  };
  value("node", i.node, -1);
  value("layer", i.layer, -1);
  flag("relu", i.relu);
  flag("again", i.again);
  flag("once_per_step", i.once_per_step);
  const bool has_rows = i.gradient_rows != nullptr || i.rows_at_once > 0;
  if (has_rows) value("rows_at_once", i.rows_at_once, -1);
  value("multiply_adds", i.multiply_adds, 0);
  std::string text = line.word(attributes_word(graph, i)).end();
  for (const Operand& operand : i.operands) text += operand_text(graph, program, operand);
  return text;
}

std::string instructions_text(const Graph& graph, const Program& program) {
  std::string text =
      head("instructions", program.instructions.size(),
           "     # op                    row          name                 facts {attributes}");
  text += std::string(kOperandTitles) + "\n";
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    text += instruction_text(graph, program, i);
  }
  return text;
}

std::string order_text(const Graph& graph, const Program& program) {
  std::string text =
      head("segments", program.segments.size(), "     # kind         layer instructions name");
  for (size_t s = 0; s < program.segments.size(); ++s) {
    const Segment& segment = program.segments[s];
    text += Line(2)
                .number(static_cast<int64_t>(s), 4)
                .word(segment_kind_name(segment.kind), 12)
                .number_or_none(segment.layer, -1, 5)
                .word(list_word(segment.instructions), 12)
                .word(segment.layer < 0 ? "" : graph.nodes[segment.layer].name)
                .end();
  }
  text += head("schedule", program.schedule.size(), "");
  for (const Stretch& stretch : program.schedule) {
    text += Line(2)
                .word(stretch.every_micro_batch ? "every_micro_batch" : "once_per_step", 17)
                .word(list_word(stretch.segments))
                .end();
  }
  return text;
}

}  // namespace

std::string to_string(const Graph& graph, const Program& program) {
  std::string text = "program of " + name_word(graph.name) + "\n" + options_text(program) +
                     parameters_text(graph, program) + buffers_text(program) +
                     exponents_text(graph, program) + instructions_text(graph, program) +
                     head("outputs", program.outputs.size(), "");
  for (const Operand& output : program.outputs) text += operand_text(graph, program, output);
  return text + order_text(graph, program);
}

}  // namespace mantissa

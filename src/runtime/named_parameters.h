// Parameters by name: taken from a file or another network into this network's state.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "numerics/block_kind.h"
#include "numerics/format.h"
#include "runtime/state.h"
#include "tensor/tensor.h"

namespace mantissa {

// A trained parameter or a running statistic. A view of little-endian bytes, aligned or not.
struct NamedParameter {
  std::string name;  // "conv1.weights"
  DataType type = DataType::kInt8;
  Shape shape;
  std::span<const std::byte> numbers;
  // If `numbers` are mantissas: an int16 exponent, or one per index of the first dimension.
  std::span<const std::byte> exponents = {};
  // In training, weights have an int16 accumulator (numerics/lazy_update.h), and its shift. Empty:
  // none.
  std::span<const std::byte> accumulator = {};
  int lazy_shift = 0;
  BlockKind blocks = BlockKind::kNone;  // of `numbers`, which then have the type uint8
};

// The shape in which files hold `numbers`: of blocks block_dims.
std::vector<int64_t> dims_in_file(const NamedParameter& parameter);
// A parameter of a tensor in a file that has a type of parameters, or blocks; without exponents and
// accumulator.
NamedParameter parameter_in_file(std::string name, DataType type, std::span<const int64_t> dims,
                                 std::span<const std::byte> numbers);

// Parameters as "conv1.weights [16, 3, 3, 1]".
struct TakenParameters {
  std::vector<std::string> taken;      // from the source
  std::vector<std::string> initial;    // of the network: the source lacks them, or they differ
  std::vector<std::string> left_over;  // of the source: the network has no use for them
};

// "taken: 20 of 22 parameters from SOURCE; initial: ...; left over: ...". Long lists are cut short.
std::string to_string(const TakenParameters& parameters, const std::string& source);

// The numbers of a parameter, with the accumulator; its sizes agree (check_parameter).
std::vector<double> real_numbers(const NamedParameter& parameter);

// An error for sizes that do not agree, and for numbers that no training writes.
Status check_parameter(const NamedParameter& parameter);

// The graph's parameters as a state has them. The state outlives the result.
std::vector<NamedParameter> named_parameters(const Graph& graph, const State& state);

// The parameters that take_named_parameters would take. Reads only names, types and shapes.
TakenParameters match_parameters(const Graph& graph, std::span<const NamedParameter> source);

// Takes all parameters and statistics whose names and shapes match. All else of the state stays,
// the optimiser's and predictors too.
//
// If the mantissas fit the parameter's bits and both have as many exponents, mantissas and
// exponents are copied. The accumulator is copied too, rounded to the shift of the format.
// Otherwise the value, with the accumulator, is rounded to the parameter's grid: with the smallest
// exponent that holds its largest number, or to float. Blocks are copied to blocks of their kind;
// other numbers are packed (packed_blocks).
//
// Errors: numbers that no training writes (a mantissa that is not symmetric, an exponent outside
// -128..127, a float that is not finite), or that the format cannot hold. Then `state` may have
// some of the parameters and should not be used.
Result<TakenParameters> take_named_parameters(const Graph& graph, const Format& format,
                                              std::span<const NamedParameter> source, State& state);

// The same of parameters that are not all in memory at once: of `source` only names, types and
// shapes are read, and load(i) gives one with its numbers, valid until the next call.
using LoadParameter = std::function<Result<NamedParameter>(size_t i)>;
Result<TakenParameters> take_named_parameters(const Graph& graph, const Format& format,
                                              std::span<const NamedParameter> source,
                                              const LoadParameter& load, State& state);

// By parameter of the graph: whether take_named_parameters would set it.
std::vector<bool> taken_parameters(const Graph& graph, std::span<const NamedParameter> source);

}  // namespace mantissa

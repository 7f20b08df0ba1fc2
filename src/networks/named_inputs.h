// Inputs of networks that arrays fill by name: any number of pictures, numbers, tokens and lengths.
#pragma once

#include <optional>
#include <vector>

#include "data/tables/table_schema.h"
#include "graph/graph.h"

namespace mantissa {

// Whether an input is compared with the network's results, not read: it has the name of labels,
// targets or weights, or, in a network with several losses, nothing but losses reads it.
bool is_target(const Graph& network, int input);

// What an array has to be for an input: pictures (uint8 [H, W, C]), numbers (int16 of the exponent
// of features, [F] to [D, H, W, C]), tokens (indices [T]) or lengths (indices [], unless an
// embedding reads them). Nothing: none of these, or a target.
std::optional<ArrayKind> array_kind(const Value& input);

// Whether the network takes other data than named arrays, too: its inputs are pixels, numbers, or
// tokens with lengths and perhaps segments, and its labels are in no order.
bool has_usual_inputs(const Graph& network);

// Whether only named arrays can fill the inputs of this network, which `train` can train, or several
// targets belong to it, which arrays have by name, too.
bool takes_named_arrays(const Graph& network);

// Whether the inputs are 'pixels' and 'numbers' [F], which a table with a column of pictures fills.
bool reads_rows_and_pictures(const Graph& network);

// The inputs but for targets, in the network's order; tokens with the number of rows of their
// embedding, sequences with the input of their lengths: which attention or a recurrent layer reads
// behind them.
std::vector<ArrayInput> array_inputs(const Graph& network);

// Whether a schema's named arrays, or its rows and pictures, are the inputs of the network.
bool fits_inputs(const TableSchema& schema, const Graph& network);

}  // namespace mantissa

// The forms of imported networks: pictures and sequences. They differ in the input, in the results
// of operators, and in the labels.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "onnx/import/context.h"
#include "onnx/import/operators.h"

namespace mantissa::onnx {

struct ImportForm {
  // Adds the model's inputs to the graph and defines them.
  Status (*add_inputs)(ImportContext& context, std::span<const ValueData* const> inputs);
  const ImportRow* (*find_row)(std::string_view op_type);
  // The reason that an operator has no row.
  std::string (*reason_against)(std::string_view op_type);
  // The graph with a loss between the model's result, which is not defined by all means, and
  // labels.
  Result<Graph> (*finish)(ImportContext& context, const std::string& result);
};

extern const ImportForm kPictures;   // pictures.cpp
extern const ImportForm kSequences;  // sequences/sequences.cpp

// Sets open sizes of an input of that form to the sizes in the options, and its batch to one, so
// that all shapes are known.
void choose_picture_size(const ImportOptions& options, ValueData& input);
void choose_sequence_size(const ImportOptions& options, int batch_axis, ValueData& input);
// Whether an input is of tokens, [N, T], or of numbers, [N, T, C]; or with these first dimensions
// in the opposite order.
bool is_sequence(const ValueData& input);

// The finished graph. Training does not change the import's own parameters.
Result<Graph> finished(ImportContext& context, int result);

// Whether it says how long each example's sequence is, [N].
bool is_lengths(const ValueData& input);
// That the output depends on other inputs than are possible.
Error other_inputs(std::span<const ValueData* const> inputs);

// sequences/mask.cpp: if an input of the model is a mask of padding, makes it a constant. It hides
// the last positions of every second example; with `other`, fewer of them. Returns how many
// positions each example has; empty: there is no mask. All sizes are known.
std::vector<int64_t> take_mask(GraphData& graph, int batch_axis, bool other);
// Whether two imports gave the same network, with the same numbers.
bool same_network(const ImportedNetwork& a, const ImportedNetwork& b);

// A name of the model's, which is arbitrary bytes, as text of one line.
std::string readable(const std::string& name);
// "[?, 3, 64]".
std::string dims_text(const std::vector<Dimension>& dims);

// The value. If no layer makes it, the result of a linear layer that is added after it and changes
// nothing yet: the loss reads the wide sums of a layer.
// `factors`: factors of its channels that must still be applied, or none.
Result<int> made_by_layer(ImportContext& context, int value,
                          const std::vector<double>& factors = {});

}  // namespace mantissa::onnx

// Two classes out of several: one class against all others.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/datasets/dataset.h"

namespace mantissa {

// The class of that name, or else of that number; nothing if there is neither.
std::optional<Label> positive_class(const std::vector<std::string>& names,
                                    const std::string& positive);

// "not 7", "7"
std::vector<std::string> two_classes(const std::string& positive);

// Makes the classes of a data set two if the options name one. An error says which there are.
Status take_positive(const DataOptions& options, DatasetInfo& info);

// Labels become 1 if they were the class, else 0.
// Gives each example the number that its label has in the list.
void renumber(const std::vector<Label>& numbers, ExampleSet& set);

void relabel(Label positive, ExampleSet& set);

}  // namespace mantissa

// Arrays of pictures: uint8 [N, H, W] or [N, H, W, C], with a class, labels, or a class of each
// pixel.
#pragma once

#include "base/result.h"
#include "data/datasets/readers.h"
#include "formats/arrays/npy.h"

namespace mantissa {

bool are_pictures(const NpyArray& x);

// Takes sizes, labels and counts of all splits. Without test pictures one in five is kept for
// testing. Errors: arrays of other shapes, or labels that are no whole numbers.
Status inspect_array_pictures(FoundData& found);

// Reads the pictures of a split, brought to the form that the options say.
Result<ExampleSet> read_array_pictures(const FoundData& found, const FoundSplit& split,
                                       const ReadOptions& options);

// Reads the pictures of a file for predictions, brought to the form. Their labels are 0.
Result<ExampleSet> read_new_pictures(const std::filesystem::path& path, const PictureForm& form);

}  // namespace mantissa

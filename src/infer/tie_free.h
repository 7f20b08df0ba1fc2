// The numbers of a frozen network in the tie-free form
// (docs/decisions/0138-a-form-without-ties.md).
#pragma once

#include "base/result.h"
#include "infer/frozen_network.h"

namespace mantissa {

// Fills a network of FrozenForm::kTieFree from the same one of kRescaled: chooses exponents by the
// form's rules, and brings each channel's weights to 7 bits with a power of two. Its state is
// zero-filled. `result_exponent`: of the mantissas of 8 bits of its result. An error names the node
// whose numbers do not fit the form.
Status fill_tie_free(const FrozenNetwork& rescaled, int result_exponent, FrozenNetwork& frozen);

}  // namespace mantissa

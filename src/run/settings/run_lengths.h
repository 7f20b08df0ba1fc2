// The lengths that a run's batches are padded to (docs/translation.md).
#pragma once

#include <cstdint>

#include "base/result.h"
#include "data/batches/length_buckets.h"
#include "run/settings/run_config.h"

namespace mantissa {

// The tokens that a run's pairs of sentences, conversations or texts with labels are padded to; 0
// of other data.
int64_t padded_sequence(const RunConfig& config);

// The lengths that a run's batches have; one: the whole sequence, always.
BatchLengths batch_lengths(const RunConfig& config);

// The same for its frozen network's programs, if padding changes no bit of their results. With an
// exponent for each token, attention that is not causal brings all keys to one exponent, and the
// keys of padding count too.
BatchLengths evaluation_lengths(const RunConfig& config);

// Refuses buckets of data whose examples are all as long, of a network that takes no other length
// or gives texts labels that depend on padding, of several stages or replicas.
Status check_buckets(const RunConfig& config);

}  // namespace mantissa

#include "networks/label_sequences.h"

#include <algorithm>
#include <vector>

#include "data/batches/no_label.h"
#include "networks/network.h"
#include "ops/losses/ctc.h"

namespace mantissa {

Status check_label_sequences(const Graph& network, const ExampleSet& set,
                             const std::string& subject) {
  const Node* const loss = loss_of_sequences(network);
  const StoredTensor* const stored = set.find(kLabelTensor);
  if (loss == nullptr || stored == nullptr) return {};
  const std::vector<Label>& all = set.labels();
  const int64_t most = stored->shape.count();
  const std::vector<int32_t> whole;
  const std::vector<int32_t>& lengths =
      loss->inputs.size() > 2 ? set.numbers<int32_t>(network.values[loss->inputs[2]].name) : whole;
  const int64_t positions = network.values[loss->inputs[0]].shape[0];
  std::vector<int32_t> labels(static_cast<size_t>(most));
  for (int64_t n = 0; n < set.count; ++n) {
    std::copy_n(all.begin() + n * most, most, labels.begin());
    std::replace(labels.begin(), labels.end(), int32_t{kNoLabel}, -1);
    const Status fits =
        ops::check_ctc_example(network, *loss, labels.data(),
                               lengths.empty() ? positions : lengths[static_cast<size_t>(n)]);
    if (fits.ok()) continue;
    return invalid_input(subject + " example " + std::to_string(n) + " " + fits.error().message);
  }
  return {};
}

}  // namespace mantissa

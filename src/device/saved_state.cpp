#include "device/saved_state.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "device/export_training.h"
#include "device/text/training_writer.h"
#include "device/training/saved.h"

namespace mantissa::device {

Result<int64_t> read_saved_state(std::span<const std::byte> block, const Graph& graph,
                                 const Format& format, State& state) {
  const StateLayout& layout = state.layout();
  const StatePlaces places = state_places(graph, layout);
  std::vector<DevRun> runs;
  for (size_t t = 0; t < layout.tensors.size(); ++t) {
    if (places.offsets[t] < 0) continue;
    const StateTensor& tensor = layout.tensors[t];
    runs.push_back({static_cast<int32_t>(places.offsets[t]),
                    static_cast<int32_t>(tensor.shape.count()),
                    static_cast<int8_t>(element_bytes(tensor.type))});
  }
  const DevSavedForm form = {runs.data(), static_cast<int32_t>(runs.size()),
                             static_cast<int32_t>(places.bytes),
                             saved_identity(graph, layout, format)};
  const int64_t wanted = places.bytes + DEV_SAVED_HEADER_BYTES;
  if (std::ssize(block) < wanted) {
    return invalid_input("has " + std::to_string(block.size()) +
                         " bytes; a state of this run has " + std::to_string(wanted));
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(places.bytes));
  int64_t step = 0;
  switch (dev_load(&form, reinterpret_cast<const uint8_t*>(block.data()), bytes.data(), &step)) {
    case DEV_NO_STATE:
      return invalid_input("is no saved state");
    case DEV_OTHER_VERSION:
      return invalid_input("was saved by another version");
    case DEV_OTHER_PROGRAM:
      return invalid_input("was saved by a program of another network, format or optimiser");
    case DEV_DAMAGED:
      return invalid_input("is damaged: its checksum is another");
    case DEV_LOADED:
      break;
  }
  if (step < 0) return invalid_input("is damaged: it has a negative step");
  for (size_t t = 0; t < places.offsets.size(); ++t) {
    if (places.offsets[t] < 0) continue;
    const auto to = state.bytes(static_cast<int>(t));
    std::memcpy(to.data(), bytes.data() + places.offsets[t], to.size());
  }
  return step;
}

}  // namespace mantissa::device

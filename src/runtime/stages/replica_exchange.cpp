#include "runtime/stages/replica_exchange.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

namespace mantissa {
namespace {

constexpr int64_t kGroupBytes = int64_t{1} << 18;  // of gradients; more if one is larger
constexpr int kMostWidth = 16;                     // half-bytes of a packed number

int64_t size_of(DataType type) { return type == DataType::kFloat ? 4 : 8; }

// How many half-bytes hold all of these as signed numbers.
int width_of(std::span<const int64_t> numbers) {
  uint64_t used = 0;
  for (const int64_t x : numbers) used |= static_cast<uint64_t>(x ^ (x >> 63));
  return static_cast<int>(std::bit_width(used)) / 4 + 1;
}

// Two numbers take as many bytes as one number has half-bytes; a last one is paired with 0.
size_t packed_bytes(size_t numbers, int width) {
  return (numbers + 1) / 2 * static_cast<size_t>(width);
}

void append(std::span<const std::byte> bytes, Message& message) {
  message.insert(message.end(), bytes.begin(), bytes.end());
}

__extension__ typedef unsigned __int128 Pair;

// The lowest half-bytes of each number.
void append_packed(std::span<const int64_t> numbers, Message& message) {
  const int width = width_of(numbers);
  message.push_back(static_cast<std::byte>(width));
  const size_t begin = message.size();
  message.resize(begin + packed_bytes(numbers.size(), width));
  std::byte* to = message.data() + begin;
  const uint64_t mask = ~uint64_t{0} >> (64 - 4 * width);
  for (size_t i = 0; i < numbers.size(); i += 2) {
    const auto first = static_cast<uint64_t>(numbers[i]) & mask;
    const uint64_t second =
        i + 1 < numbers.size() ? static_cast<uint64_t>(numbers[i + 1]) & mask : 0;
    const Pair pair = Pair{second} << (4 * width) | first;
    std::memcpy(to, &pair, static_cast<size_t>(width));
    to += width;
  }
}

// The first or second number of a pair.
int64_t unpacked(const std::byte* from, int width, bool second) {
  Pair pair = 0;
  std::memcpy(&pair, from, static_cast<size_t>(width));
  const auto bits = static_cast<uint64_t>(second ? pair >> (4 * width) : pair);
  const int shift = 64 - 4 * width;
  return static_cast<int64_t>(bits << shift) >> shift;
}

template <typename T>
std::span<T> numbers_of(std::span<std::byte> bytes, int64_t begin, int64_t end) {
  return std::span(reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T))
      .subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

// Takes packed numbers from the front of a message; false: it is too short.
bool take_packed(bool adds, std::span<const std::byte>& message, std::span<int64_t> numbers) {
  if (message.empty()) return false;
  const int width = std::to_integer<int>(message[0]);
  if (width < 1 || width > kMostWidth) return false;
  const size_t bytes = packed_bytes(numbers.size(), width);
  if (message.size() - 1 < bytes) return false;
  const std::byte* from = message.data() + 1;
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = unpacked(from, width, i % 2 == 1) + (adds ? numbers[i] : 0);
    if (i % 2 == 1) from += width;
  }
  message = message.subspan(1 + bytes);
  return true;
}

bool take_floats(bool adds, std::span<const std::byte>& message, std::span<float> numbers) {
  if (message.size() < numbers.size_bytes()) return false;
  const std::byte* from = message.data();
  for (float& x : numbers) {
    float other = 0;
    std::memcpy(&other, from, sizeof other);
    x = adds ? x + other : other;
    from += sizeof other;
  }
  message = message.subspan(numbers.size_bytes());
  return true;
}

Status does_not_fit() { return failed("a replica sent what does not belong to this network"); }

}  // namespace

ReplicaExchange::ReplicaExchange(const Program& program, const StagePlan& plan, ReplicaPlace place,
                                 Transport& transport, int tag)
    : program_(program), plan_(plan), place_(std::move(place)), transport_(transport), tag_(tag) {
  find_gradients(program);
  find_groups();
  for (int b = 0; b < static_cast<int>(program.buffers.size()); ++b) {
    if (program.buffers[b].kind == BufferKind::kStatistics && plan.offsets[b] >= 0) {
      statistics_.push_back(b);
    }
  }
  for (int r = 0; r < place_.replicas(); ++r) {
    if (r == place_.replica) continue;
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (int phase = 0; phase < 2; ++phase) {
        transport.expect({place_.processes[r], tag + 2 * static_cast<int>(g) + phase,
                          most_bytes(groups_[g]), 1});
      }
    }
  }
}

void ReplicaExchange::find_gradients(const Program& program) {
  std::map<int, Gradient> found;  // by buffer
  int position = 0;
  std::map<int, int> positions;  // of the last instructions
  for (const auto* list : {&plan_.grad_input, &plan_.grad_weights}) {
    for (const int i : *list) {
      ++position;
      for (const Operand& sums : program.instructions[i].sums()) {
        const Buffer& buffer = program.buffers[sums.index];
        if (buffer.kind != BufferKind::kWeightGradient) continue;
        Gradient& gradient = found[sums.index];
        gradient.buffer = sums.index;
        gradient.type = sums.type;
        gradient.count = buffer.bytes / size_of(sums.type);
        gradient.last = i;
        positions[gradient.buffer] = position;
      }
    }
  }
  for (const auto& [buffer, gradient] : found) gradients_.push_back(gradient);
  std::ranges::sort(gradients_, {}, [&](const Gradient& g) { return positions[g.buffer]; });
}

void ReplicaExchange::find_groups() {
  int64_t bytes = kGroupBytes;
  for (const Gradient& gradient : gradients_) {
    const bool is_full = bytes >= kGroupBytes && groups_.size() < kMostGroups;
    if (is_full) {
      groups_.emplace_back();
      bytes = 0;
    }
    groups_.back().push_back(gradient);
    bytes += gradient.count * size_of(gradient.type);
  }
}

std::vector<ReplicaExchange::Piece> ReplicaExchange::pieces(
    std::span<const int> instructions) const {
  std::vector<Piece> pieces;
  size_t begin = 0;
  for (size_t i = 0; i < instructions.size(); ++i) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].back().last != instructions[i]) continue;
      pieces.push_back({instructions.subspan(begin, i + 1 - begin), static_cast<int>(g)});
      begin = i + 1;
    }
  }
  pieces.push_back({instructions.subspan(begin), -1});
  return pieces;
}

ReplicaExchange::Part ReplicaExchange::part_of(const Gradient& gradient, int replica) const {
  const int64_t replicas = place_.replicas();
  return {gradient.count * replica / replicas, gradient.count * (replica + 1) / replicas};
}

int64_t ReplicaExchange::most_bytes(const std::vector<Gradient>& group) const {
  int64_t bytes = 0;
  for (const Gradient& gradient : group) {
    bytes += 1 + (gradient.count / place_.replicas() + 2) * size_of(gradient.type);
  }
  return bytes;
}

Message ReplicaExchange::pack(const Executor& executor, const std::vector<Gradient>& group,
                              int replica) const {
  Message message;
  message.reserve(static_cast<size_t>(most_bytes(group)));
  for (const Gradient& gradient : group) {
    const Part part = part_of(gradient, replica);
    const std::span<std::byte> bytes = executor.buffer(gradient.buffer);
    if (gradient.type == DataType::kFloat) {
      append(std::as_bytes(numbers_of<float>(bytes, part.begin, part.end)), message);
    } else {
      append_packed(numbers_of<int64_t>(bytes, part.begin, part.end), message);
    }
  }
  return message;
}

Status ReplicaExchange::unpack(Executor& executor, const std::vector<Gradient>& group, int replica,
                               bool adds, std::span<const std::byte> message) const {
  for (const Gradient& gradient : group) {
    const Part part = part_of(gradient, replica);
    const std::span<std::byte> bytes = executor.buffer(gradient.buffer);
    const bool fits =
        gradient.type == DataType::kFloat
            ? take_floats(adds, message, numbers_of<float>(bytes, part.begin, part.end))
            : take_packed(adds, message, numbers_of<int64_t>(bytes, part.begin, part.end));
    if (!fits) return does_not_fit();
  }
  return message.empty() ? Status() : does_not_fit();
}

void ReplicaExchange::send_group(const Executor& executor, int group) {
  for (int r = 0; r < place_.replicas(); ++r) {
    if (r == place_.replica) continue;
    transport_.send(place_.processes[r], tag_ + 2 * group, pack(executor, groups_[group], r));
  }
}

ReplicaExchange::Part ReplicaExchange::records_of(int buffer, int replica) const {
  const int64_t micro_batches = program_.options.micro_batches / place_.replicas();
  const int64_t record = program_.buffers[buffer].bytes / program_.options.micro_batches;
  return {replica * micro_batches * record, (replica + 1) * micro_batches * record};
}

Message ReplicaExchange::own_counts(const Executor& executor, int64_t shift) const {
  Message message = executor.counts();
  for (const int b : statistics_) {
    const Part part = records_of(b, place_.replica);
    append(executor.buffer(b, shift).subspan(static_cast<size_t>(part.begin),
                                             static_cast<size_t>(part.end - part.begin)),
           message);
  }
  return message;
}

Status ReplicaExchange::take_counts(Executor& executor, int64_t shift, int replica,
                                    std::span<const std::byte> message) const {
  size_t records = 0;
  for (const int b : statistics_) {
    const Part part = records_of(b, replica);
    records += static_cast<size_t>(part.end - part.begin);
  }
  if (message.size() < records) return does_not_fit();
  MANTISSA_RETURN_IF_ERROR(executor.add_counts(message.first(message.size() - records)));
  message = message.last(records);
  for (const int b : statistics_) {
    const Part part = records_of(b, replica);
    const auto bytes = static_cast<size_t>(part.end - part.begin);
    std::ranges::copy(
        message.first(bytes),
        executor.buffer(b, shift).subspan(static_cast<size_t>(part.begin), bytes).begin());
    message = message.subspan(bytes);
  }
  return {};
}

Status ReplicaExchange::combine(Executor& executor, int64_t shift) {
  const int counts_tag = tag_ + 2 * kMostGroups;
  const Message counts = own_counts(executor, shift);
  const auto for_each_other = [&](const auto& visit) -> Status {
    for (int r = 0; r < place_.replicas(); ++r) {
      if (r != place_.replica) MANTISSA_RETURN_IF_ERROR(visit(r));
    }
    return {};
  };
  MANTISSA_RETURN_IF_ERROR(for_each_other([&](int r) -> Status {
    if (!expects_counts_) {
      transport_.expect({place_.processes[r], counts_tag, static_cast<int64_t>(counts.size()), 1});
    }
    transport_.send(place_.processes[r], counts_tag, counts);
    return {};
  }));
  expects_counts_ = true;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int tag = tag_ + 2 * static_cast<int>(g);
    MANTISSA_RETURN_IF_ERROR(for_each_other([&](int r) -> Status {
      MANTISSA_ASSIGN(const Message message, transport_.receive(place_.processes[r], tag));
      return unpack(executor, groups_[g], place_.replica, true, message);
    }));
    const Message sums = pack(executor, groups_[g], place_.replica);
    MANTISSA_RETURN_IF_ERROR(for_each_other([&](int r) -> Status {
      transport_.send(place_.processes[r], tag + 1, sums);
      return {};
    }));
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int tag = tag_ + 2 * static_cast<int>(g) + 1;
    MANTISSA_RETURN_IF_ERROR(for_each_other([&](int r) -> Status {
      MANTISSA_ASSIGN(const Message message, transport_.receive(place_.processes[r], tag));
      return unpack(executor, groups_[g], r, false, message);
    }));
  }
  return for_each_other([&](int r) -> Status {
    MANTISSA_ASSIGN(const Message message, transport_.receive(place_.processes[r], counts_tag));
    return take_counts(executor, shift, r, message);
  });
}

void ReplicaExchange::clear(Executor& executor) const {
  if (place_.replica == 0) return;
  for (const Gradient& gradient : gradients_) {
    std::ranges::fill(executor.buffer(gradient.buffer), std::byte{});
  }
}

}  // namespace mantissa

#include "runtime/stages/stage_messages.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

namespace mantissa::stage_messages {
namespace {

void append_bytes(std::span<const std::byte> bytes, Message& message) {
  const size_t begin = message.size();
  message.resize(begin + bytes.size());
  if (!bytes.empty()) std::memcpy(message.data() + begin, bytes.data(), bytes.size());
}

template <typename T>
void append(const T& value, Message& message) {
  static_assert(std::is_trivially_copyable_v<T>);
  append_bytes(std::as_bytes(std::span(&value, 1)), message);
}

// False: the message is too short.
template <typename T>
bool take(std::span<const std::byte>& message, T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (message.size() < sizeof value) return false;
  std::memcpy(&value, message.data(), sizeof value);
  message = message.subspan(sizeof value);
  return true;
}

Error damaged() { return failed("a process sent a message that does not belong to this run"); }

}  // namespace

void send_command(Transport& transport, int to, const Command& command) {
  Message message;
  append(command, message);
  transport.send(to, kCommand, std::move(message));
}

Result<Command> receive_command(Transport& transport) {
  MANTISSA_ASSIGN(const Message message, transport.receive(0, kCommand));
  std::span<const std::byte> rest = message;
  Command command;
  if (!take(rest, command)) return damaged();
  return command;
}

Message write_result(const Result<StepResult>& result, const Counters& counters) {
  Message message;
  append(static_cast<uint8_t>(result.ok()), message);
  if (result.ok()) {
    append(Part{counters, *result}, message);
    return message;
  }
  append(result.error().code, message);
  const std::string_view text =
      std::string_view(result.error().message).substr(0, kMostResultBytes / 2);
  append_bytes(std::as_bytes(std::span(text)), message);
  return message;
}

Result<Part> read_result(std::span<const std::byte> message) {
  uint8_t ok = 0;
  if (!take(message, ok)) return damaged();
  if (ok != 0) {
    Part part;
    if (!take(message, part)) return damaged();
    return part;
  }
  ErrorCode code{};
  if (!take(message, code)) return damaged();
  return make_error(code,
                    std::string(reinterpret_cast<const char*>(message.data()), message.size()));
}

Message write_input(const StepScalars& scalars,
                    std::span<const std::span<const std::byte>> inputs) {
  Message message;
  append(scalars, message);
  for (const std::span<const std::byte> input : inputs) {
    append(static_cast<int64_t>(input.size()), message);
  }
  for (const std::span<const std::byte> input : inputs) {
    message.resize((message.size() + 7) / 8 * 8);  // executors read whole numbers
    append_bytes(input, message);
  }
  return message;
}

Result<Input> read_input(std::span<const std::byte> message, size_t inputs) {
  Input input;
  const std::span<const std::byte> all = message;
  if (!take(message, input.scalars)) return damaged();
  std::vector<int64_t> sizes(inputs);
  for (int64_t& size : sizes) {
    if (!take(message, size) || size < 0) return damaged();
  }
  for (const int64_t size : sizes) {
    const size_t begin = (all.size() - message.size() + 7) / 8 * 8;
    if (begin > all.size() || all.size() - begin < static_cast<size_t>(size)) return damaged();
    input.inputs.push_back(all.subspan(begin, static_cast<size_t>(size)));
    message = all.subspan(begin + static_cast<size_t>(size));
  }
  return input;
}

Message write_end() { return Message(1); }

bool is_end(std::span<const std::byte> message) { return message.size() == 1; }

int64_t bytes_of(std::span<const StateRange> ranges) {
  int64_t bytes = 0;
  for (const StateRange& range : ranges) bytes += range.bytes;
  return bytes;
}

Message write_state(const State& state, std::span<const StateRange> ranges) {
  Message message;
  message.reserve(static_cast<size_t>(bytes_of(ranges)));
  for (const StateRange& range : ranges) {
    const auto bytes = state.all_bytes().subspan(static_cast<size_t>(range.offset),
                                                 static_cast<size_t>(range.bytes));
    append_bytes(bytes, message);
  }
  return message;
}

Status read_state(std::span<const std::byte> message, std::span<const StateRange> ranges,
                  State& state) {
  if (static_cast<int64_t>(message.size()) != bytes_of(ranges)) return damaged();
  for (const StateRange& range : ranges) {
    const auto bytes = static_cast<size_t>(range.bytes);
    std::ranges::copy(message.first(bytes),
                      state.all_bytes().subspan(static_cast<size_t>(range.offset), bytes).begin());
    message = message.subspan(bytes);
  }
  return {};
}

}  // namespace mantissa::stage_messages

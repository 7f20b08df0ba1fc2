#include "runtime/stages/channel.h"

namespace mantissa {

ThreadChannel::ThreadChannel(const Transfer& transfer, const Executor& sender, int capacity)
    : Channel(transfer), passed_(static_cast<size_t>(capacity)) {
  for (auto& passed : passed_) passed.resize(static_cast<size_t>(sender.passed_bytes(transfer)));
}

void ThreadChannel::send(const Executor& sender, int micro_batch) {
  sender.pass_on(transfer(), passed_[static_cast<size_t>(micro_batch) % passed_.size()]);
  const std::lock_guard lock(mutex_);
  sent_ = micro_batch + 1;
  changed_.notify_all();
}

Status ThreadChannel::receive(Executor& receiver, int micro_batch) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return sent_ > micro_batch || closed_; });
    if (sent_ <= micro_batch) return failed("the pipeline has been stopped");
  }
  receiver.receive(transfer(), passed_[static_cast<size_t>(micro_batch) % passed_.size()]);
  return {};
}

void ThreadChannel::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

ProcessChannel::ProcessChannel(const Transfer& transfer, const Executor& own, Transport& transport,
                               int process, int tag, bool receives, int capacity)
    : Channel(transfer),
      transport_(transport),
      process_(process),
      tag_(tag),
      bytes_(static_cast<size_t>(own.passed_bytes(transfer))) {
  if (receives) transport.expect({process, tag, static_cast<int64_t>(bytes_), capacity});
}

void ProcessChannel::send(const Executor& sender, int) {
  Message message(bytes_);
  sender.pass_on(transfer(), message);
  transport_.send(process_, tag_, std::move(message));
}

Status ProcessChannel::receive(Executor& receiver, int) {
  MANTISSA_ASSIGN(const Message message, transport_.receive(process_, tag_));
  if (message.size() != bytes_) return failed("a stage sent values of another network");
  receiver.receive(transfer(), message);
  return {};
}

}  // namespace mantissa

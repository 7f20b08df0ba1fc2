// Processes that are threads of a test.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "transport/inbox.h"
#include "transport/transport.h"

namespace mantissa::testing {

class LocalTransport : public Transport {
 public:
  // As many as there are processes, connected.
  static std::vector<std::unique_ptr<LocalTransport>> connect(int processes) {
    auto inboxes = std::make_shared<std::vector<Inbox>>(static_cast<size_t>(processes));
    std::vector<std::unique_ptr<LocalTransport>> made;
    for (int p = 0; p < processes; ++p) {
      made.push_back(std::unique_ptr<LocalTransport>(new LocalTransport(p, inboxes)));
    }
    return made;
  }

  int process() const override { return process_; }
  int processes() const override { return static_cast<int>(inboxes_->size()); }
  void expect(const Stream&) override {}
  void send(int to, int tag, Message message) override {
    bytes_sent_ += static_cast<int64_t>(message.size());
    (*inboxes_)[to].deliver(process_, tag, std::move(message));
  }
  Result<Message> receive(int from, int tag) override {
    return (*inboxes_)[process_].take(from, tag);
  }
  void close() override {
    for (Inbox& inbox : *inboxes_) inbox.close("the run was stopped");
  }
  int64_t bytes_sent() const override { return bytes_sent_; }

 private:
  LocalTransport(int process, std::shared_ptr<std::vector<Inbox>> inboxes)
      : process_(process), inboxes_(std::move(inboxes)) {}

  int process_;
  std::shared_ptr<std::vector<Inbox>> inboxes_;
  std::atomic<int64_t> bytes_sent_ = 0;
};

}  // namespace mantissa::testing

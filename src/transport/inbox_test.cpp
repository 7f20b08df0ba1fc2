#include "transport/inbox.h"

#include <gtest/gtest.h>

#include <thread>

namespace mantissa {
namespace {

Message message(int value) { return {static_cast<std::byte>(value)}; }

TEST(Inbox, KeepsTheOrderOfEachStream) {
  Inbox inbox;
  inbox.deliver(1, 7, message(1));
  inbox.deliver(2, 7, message(2));
  inbox.deliver(1, 7, message(3));
  inbox.deliver(1, 8, message(4));
  EXPECT_EQ(*inbox.take(1, 8), message(4));
  EXPECT_EQ(*inbox.take(1, 7), message(1));
  EXPECT_EQ(*inbox.take(1, 7), message(3));
  EXPECT_EQ(*inbox.take(2, 7), message(2));
}

TEST(Inbox, WaitsForMessages) {
  Inbox inbox;
  std::thread sender([&] {
    while (!inbox.is_awaited()) std::this_thread::yield();
    inbox.deliver(0, 1, message(5));
  });
  EXPECT_EQ(*inbox.take(0, 1), message(5));
  EXPECT_FALSE(inbox.is_awaited());
  sender.join();
}

// A waiting thread learns why nothing more will come.
TEST(Inbox, CloseWakesWhoWaits) {
  Inbox inbox;
  std::thread closer([&] {
    while (!inbox.is_awaited()) std::this_thread::yield();
    inbox.close("process 3 is gone");
    inbox.close("another reason");
  });
  const Result<Message> taken = inbox.take(3, 1);
  closer.join();
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().message, "process 3 is gone");
  inbox.deliver(3, 1, message(1));
  EXPECT_FALSE(inbox.take(3, 1).ok());
}

}  // namespace
}  // namespace mantissa

#include "cli/interrupt.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>

namespace mantissa::cli {
namespace {

// What a signal handler may touch.
volatile sig_atomic_t g_requested = 0;
const char* volatile g_message = "";
volatile sig_atomic_t g_over_a_bar = 0;

struct sigaction g_previous_interrupt = {};
struct sigaction g_previous_terminate = {};

void put(const char* text) {
  // The result is of no use in a handler.
  if (::write(STDERR_FILENO, text, strlen(text)) < 0) return;
}

// One Ctrl-C may arrive twice: `timeout` signals its child, and then the child's process group.
constexpr int64_t kSameSignalNs = 300'000'000;
volatile int64_t g_requested_at_ns = 0;

int64_t now_ns() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void handle(int number) {
  const int saved_errno = errno;
  if (!g_requested) {
    g_requested_at_ns = now_ns();
    g_requested = 1;
    if (g_over_a_bar) put("\r\033[K");
    put(g_message);
    put("\n");
  } else if (now_ns() - g_requested_at_ns > kSameSignalNs) {
    // Delivered as soon as this handler returns.
    signal(number, SIG_DFL);
    raise(number);
  }
  errno = saved_errno;
}

}  // namespace

Interrupt::Interrupt(const char* message, bool over_a_bar) {
  g_requested = 0;
  g_message = message;
  g_over_a_bar = over_a_bar;
  struct sigaction action = {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaddset(&action.sa_mask, SIGINT);
  sigaddset(&action.sa_mask, SIGTERM);
  sigaction(SIGINT, &action, &g_previous_interrupt);
  sigaction(SIGTERM, &action, &g_previous_terminate);
}

Interrupt::~Interrupt() {
  sigaction(SIGINT, &g_previous_interrupt, nullptr);
  sigaction(SIGTERM, &g_previous_terminate, nullptr);
}

bool Interrupt::requested() const { return g_requested != 0; }

}  // namespace mantissa::cli

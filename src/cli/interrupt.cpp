#include "cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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

void handle(int) {
  const int saved_errno = errno;
  g_requested = 1;
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  if (g_over_a_bar) put("\r\033[K");
  put(g_message);
  put("\n");
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

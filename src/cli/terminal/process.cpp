#include "cli/terminal/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>

namespace mantissa::cli {
namespace {

constexpr std::array kStopSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kStopSignals) sigaddset(&set, number);
  return set;
}

void hold_stop_signals() {
  const sigset_t set = stop_signals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

// The only data that a signal handler may touch.
volatile sig_atomic_t g_requested = 0;
const char* volatile g_message = "";
volatile sig_atomic_t g_over_a_bar = 0;

volatile sig_atomic_t g_begun = 0;

constexpr size_t kMostPaths = 4;
std::array<std::array<char, PATH_MAX>, kMostPaths> g_paths = {};

std::array<struct sigaction, kStopSignals.size()> g_previous = {};
struct sigaction g_previous_alarm = {};

void put(const char* text) {
  // Unread output is dropped: nothing may wait for it. The result is of no use in a handler.
  pollfd one = {STDERR_FILENO, POLLOUT, 0};
  if (poll(&one, 1, 0) <= 0) return;
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

void remove_paths() {
  for (const auto& path : g_paths) {
    if (path[0] != '\0' && unlink(path.data()) != 0) rmdir(path.data());
  }
}

// Long enough for whoever asks now and then.
constexpr itimerval kPatience = {.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = 600'000}};

void end_waiting(int) {
  if (g_begun) return;
  constexpr int kInterrupted = 130;
  put("mantissa: interrupted before there was anything to save\n");
  remove_paths();
  _exit(kInterrupted);
}

void handle(int number) {
  const int saved_errno = errno;
  if (!g_requested) {
    g_requested_at_ns = now_ns();
    g_requested = 1;
    if (g_over_a_bar) put("\r\033[K");
    put(g_message);
    put("\n");
    if (!g_begun) setitimer(ITIMER_REAL, &kPatience, nullptr);
  } else if (now_ns() - g_requested_at_ns > kSameSignalNs) {
    // Delivered as soon as this handler returns.
    signal(number, SIG_DFL);
    remove_paths();
    raise(number);
  }
  errno = saved_errno;
}

}  // namespace

namespace {

void end_without_stack(int) {
  put("mantissa: out of memory: the system gave none for the stack\n");
  _exit(1);
}

// Only the far end is touched, so the rest uses no memory. This file is compiled without
// -fstack-clash-protection, which would touch all of it.
[[gnu::noinline]] void touch_stack(size_t bytes) {
  volatile auto* far_end = static_cast<char*>(__builtin_alloca(bytes));
  far_end[0] = 0;
}

// The stack grows as it is used. If a limit on address space leaves no room, the process would end
// by SIGSEGV at any moment. So it grows now, with a message if it cannot.
void grow_stack() {
  constexpr size_t kWanted = size_t{1} << 20;
  alignas(64) static std::array<char, 1 << 16> other_stack;
  rlimit limit = {};
  if (getrlimit(RLIMIT_STACK, &limit) != 0) return;
  const stack_t other = {.ss_sp = other_stack.data(), .ss_flags = 0, .ss_size = other_stack.size()};
  const stack_t none = {.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
  struct sigaction action = {}, previous = {};
  action.sa_handler = end_without_stack;
  action.sa_flags = SA_ONSTACK;
  sigaltstack(&other, nullptr);
  sigaction(SIGSEGV, &action, &previous);
  touch_stack(std::min<size_t>(kWanted, limit.rlim_cur / 4));
  sigaction(SIGSEGV, &previous, nullptr);
  sigaltstack(&none, nullptr);
}

}  // namespace

void prepare_process() {
  grow_stack();
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // open() returns the lowest free number, which is this one.
    if (fcntl(descriptor, F_GETFD) < 0) (void)!open("/dev/null", O_RDWR);
  }
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  hold_stop_signals();
}

StopSignalsHeld::~StopSignalsHeld() { hold_stop_signals(); }

void ignore_requests_to_stop() {
  for (const int number : kStopSignals) {
    if (number != SIGTERM) signal(number, SIG_IGN);
  }
  release_stop_signals();
}

void release_stop_signals() {
  const sigset_t set = stop_signals();
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

Interrupt::Interrupt(const char* message, bool over_a_bar) {
  g_requested = 0;
  g_begun = 0;
  g_message = message;
  g_over_a_bar = over_a_bar;
  struct sigaction action = {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  action.sa_mask = stop_signals();
  for (size_t i = 0; i < kStopSignals.size(); ++i) {
    sigaction(kStopSignals[i], nullptr, &g_previous[i]);
    if (g_previous[i].sa_handler != SIG_IGN) sigaction(kStopSignals[i], &action, nullptr);
  }
  struct sigaction alarm = {};
  alarm.sa_handler = end_waiting;
  alarm.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &alarm, &g_previous_alarm);
  release_stop_signals();
}

Interrupt::~Interrupt() {
  constexpr itimerval kNever = {};
  setitimer(ITIMER_REAL, &kNever, nullptr);
  sigaction(SIGALRM, &g_previous_alarm, nullptr);
  for (size_t i = 0; i < kStopSignals.size(); ++i) {
    sigaction(kStopSignals[i], &g_previous[i], nullptr);
  }
}

bool Interrupt::requested() const { return stop_is_requested(); }

void Interrupt::begun() { g_begun = 1; }

bool stop_is_requested() { return g_requested != 0; }

void remove_when_ended(std::span<const std::string> paths) {
  for (size_t i = 0; i < g_paths.size(); ++i) {
    const std::string path = i < paths.size() && paths[i].size() < PATH_MAX ? paths[i] : "";
    std::memcpy(g_paths[i].data(), path.c_str(), path.size() + 1);
  }
}

}  // namespace mantissa::cli

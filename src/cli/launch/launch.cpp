#include "cli/launch/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "cli/command_line/output.h"
#include "cli/launch/folder.h"
#include "cli/launch/host_file.h"
#include "cli/launch/mpirun_messages.h"
#include "cli/launch/status.h"
#include "cli/terminal/terminal.h"
#include "cli/terminal/text.h"

namespace mantissa::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

constexpr int kFailed = static_cast<int>(Exit::kFailed);
constexpr seconds kGrace{5}, kLastWords{2};
constexpr std::chrono::milliseconds kAnswer{500};

int refuse(const std::string& problem) {
  say("mantissa launch: " + printable(problem) + " (mantissa launch --help)");
  return static_cast<int>(Exit::kInvalidInput);
}

// A whole number of at least 1, or 0.
int positive(const std::string& text) {
  const bool digits =
      !text.empty() && text.size() < 7 && text.find_first_not_of("0123456789") == std::string::npos;
  return digits ? std::atoi(text.c_str()) : 0;
}

std::vector<std::string> mpirun_words(const CommandLine& line, const std::string& processes,
                                      const std::string& hosts, const StatusFile& status,
                                      const std::string& memory) {
  std::vector<std::string> words = {"mpirun",          "-n",        processes,
                                    "--oversubscribe", "--bind-to", "none"};
  if (!hosts.empty()) words.insert(words.end(), {"--hostfile", hosts});
  // Without these, mpirun never notices a host that is cut off.
  for (const auto& [name, value] : {std::pair{"oob_tcp_keepalive_time", "5"},
                                    {"oob_tcp_keepalive_intvl", "1"},
                                    {"oob_tcp_keepalive_probes", "3"}}) {
    words.insert(words.end(), {"--mca", name, value});
  }
  // Processes of one machine share files. They are put into a folder that goes with the launch,
  // because they would stay if mpirun is killed. This does not hold for other machines: nothing is
  // known about them. Versions of Open MPI differ in the parameter's name, and ignore names that
  // they do not know.
  for (const char* const name : {"btl_vader_backing_directory", "btl_sm_backing_directory"}) {
    if (hosts.empty() && !memory.empty()) words.insert(words.end(), {"--mca", name, memory});
  }
  // mpirun gives the first process a terminal of its own, whatever standard output is.
  const Terminal terminal = describe_terminal(1);
  for (const std::string& variable :
       {"MANTISSA_DEADLINE=" + line.setting("deadline"), "MANTISSA_STATUS_FILE=" + status.path(),
        terminal.redraws ? "COLUMNS=" + std::to_string(terminal.width()) : "TERM=dumb"}) {
    words.insert(words.end(), {"-x", variable});
  }
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  words.push_back(error ? line.program : program.string());
  words.insert(words.end(), line.paths.begin(), line.paths.end());
  return words;
}

// Starts a program in a process group of its own, so that Ctrl-C reaches launch alone. Its standard
// error goes into a pipe. Gives 0 or an error number.
int start(const std::vector<std::string>& words, pid_t& child, int& errors) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return errno;
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  const int error =
      posix_spawnp(&child, arguments[0], &files, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  close(ends[1]);
  errors = ends[0];
  return error;
}

// mpirun while it runs.
class Job {
 public:
  Job(pid_t child, int errors, StatusFile& status, seconds deadline)
      : child_(child), errors_(errors), status_(status), deadline_(deadline) {
    sigset_t asked;
    sigemptyset(&asked);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) sigaddset(&asked, number);
    sigprocmask(SIG_BLOCK, &asked, nullptr);
    signals_ = signalfd(-1, &asked, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~Job() {
    close(errors_);
    if (signals_ >= 0) close(signals_);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Until it ends; its status as waitpid() gives it.
  int watch() {
    int status = 0;
    while (waitpid(child_, &status, WNOHANG) == 0) {
      std::array<pollfd, 2> waits = {pollfd{errors_open_ ? errors_ : -1, POLLIN, 0},
                                     pollfd{signals_, POLLIN, 0}};
      poll(waits.data(), waits.size(), 100);
      if (waits[0].revents != 0) pass_on_errors();
      if (waits[1].revents != 0) take_signal();
      check_status_file();
      check_answer();
      check_frozen();
    }
    // Processes on another host may hold the pipe open.
    pollfd left = {errors_, POLLIN, 0};
    while (poll(&left, 1, 300) > 0 && pass_on_errors()) continue;
    write_message(2, messages_.rest());
    return status;
  }

  const MpirunMessages& messages() const { return messages_; }
  bool was_stopped() const { return requests_ > 0; }
  // Stopped while a process was frozen: all were ended.
  bool found_frozen() const { return found_frozen_; }
  // Stopped before a process was there.
  bool ended_early() const { return requests_ > 0 && !was_written_ && !was_heard_; }

 private:
  // False: nothing is left.
  bool pass_on_errors() {
    std::array<char, 4096> text{};
    const ssize_t count = read(errors_, text.data(), text.size());
    if (count <= 0) errors_open_ = false;
    if (count <= 0) return false;
    const std::string words(text.data(), static_cast<size_t>(count));
    was_heard_ = was_heard_ || words.find("stopping after") != std::string::npos;
    write_message(2, messages_.take(words));
    return true;
  }

  // mpirun hands SIGUSR1 on to the processes: the first one ends its step and writes a checkpoint.
  // The second request ends them.
  void take_signal() {
    signalfd_siginfo info = {};
    if (read(signals_, &info, sizeof info) != sizeof info) return;
    ++requests_;
    if (requests_ == 1) asked_ = Clock::now();
    if (requests_ == 1) was_heard_ = false;
    kill(child_, requests_ == 1 ? SIGUSR1 : SIGTERM);
    if (requests_ > 2) kill(-child_, SIGKILL);
  }

  // A process that is asked to stop says so. If no process does, and none has shown itself before,
  // mpirun waits for a host, possibly for long.
  void check_answer() {
    if (requests_ == 0 || was_written_ || was_heard_) return;
    const auto waited = Clock::now() - asked_;
    if (waited > kAnswer) kill(child_, SIGTERM);
    if (waited > kAnswer + kAnswer / 2) kill(-child_, SIGKILL);
  }

  // A step does not end if one of its processes is frozen. A request to stop would then wait until
  // the deadline.
  void check_frozen() {
    if (requests_ == 0 || found_frozen_ || Clock::now() - asked_ < kAnswer) return;
    const std::vector<pid_t> processes = children_of(child_);
    found_frozen_ = std::ranges::any_of(processes, is_frozen);
    if (!found_frozen_) return;
    for (const pid_t process : processes) kill(process, SIGKILL);
  }

  // The first process writes it every second, if it is on this machine. mpirun may hang where a
  // host is gone.
  void check_status_file() {
    const timespec changed = status_.changed();
    const bool is_new = changed.tv_sec != changed_.tv_sec || changed.tv_nsec != changed_.tv_nsec;
    const auto now = Clock::now();
    was_written_ = was_written_ || status_.is_written();
    const bool gave_up = was_written_ && !status_.is_there();
    if (is_new) status_.read();
    if ((is_new && !gave_up) || !was_written_) {
      changed_ = changed;
      alive_ = now;
    }
    const auto patience = gave_up ? kLastWords : deadline_ + kGrace;
    if (now - alive_ > patience) kill(child_, SIGTERM);
    if (now - alive_ > patience + kLastWords) kill(-child_, SIGKILL);
  }

  pid_t child_;
  int errors_, signals_ = -1;
  bool errors_open_ = true;
  StatusFile& status_;
  seconds deadline_;
  MpirunMessages messages_;
  int requests_ = 0;
  bool found_frozen_ = false;
  Clock::time_point asked_;
  bool was_heard_ = false;  // since then
  timespec changed_ = {};
  bool was_written_ = false;
  Clock::time_point alive_ = Clock::now();
};

// Open MPI wants to be asked twice whether root may run it; whoever is root in a container is.
void allow_root() {
  if (geteuid() != 0) return;
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
}

// The exit code of train, which mpirun hands on; another end of mpirun is told.
int code_of(int ended, bool was_stopped) {
  constexpr int kShells = 128, kSignals = 64;
  const int code = WIFEXITED(ended) ? WEXITSTATUS(ended) : kShells + WTERMSIG(ended);
  if (code <= static_cast<int>(Exit::kOverBudget)) return code;
  if (code == static_cast<int>(Exit::kInterrupted) || was_stopped) {
    return static_cast<int>(Exit::kInterrupted);
  }
  say("mantissa launch: mpirun " +
      (code > kShells && code <= kShells + kSignals
           ? "was ended by signal " + std::to_string(code - kShells)
           : "ended with code " + std::to_string(code)) +
      ", and so the processes; what was saved is there, and --resume goes on from it");
  return kFailed;
}

}  // namespace

int run_launch(const CommandLine& line) {
  if (line.paths.empty() || line.paths[0] != "train") {
    return refuse("behind -- stands the command that is started, train with its options");
  }
  const int processes = positive(line.setting("processes"));
  if (processes == 0) return refuse("-n: how many processes? a whole number from 1 on");
  const int deadline = positive(line.setting("deadline"));
  if (deadline == 0) return refuse("--deadline: seconds, a whole number from 1 on");
  const std::string hosts = line.setting("hosts");
  std::error_code error;
  if (!hosts.empty() && access(hosts.c_str(), R_OK) != 0) {
    return refuse(hosts + ": " + std::strerror(errno));
  }
  if (!hosts.empty() && !std::filesystem::is_regular_file(hosts, error)) {
    return refuse(hosts + ": is no regular file");
  }
  allow_root();
  const HostFile host_file(hosts);
  const LaunchFolder folder;
  if (folder.path().empty()) {
    say("mantissa launch: no temporary folder can be made: " + std::string(std::strerror(errno)));
    return kFailed;
  }
  const LaunchGuard guard(folder);
  StatusFile status(folder.path() + "/status");
  setenv("TMPDIR", folder.path().c_str(), 1);  // files of mpirun
  pid_t child = 0;
  int errors = -1;
  const int fault = start(
      mpirun_words(line, std::to_string(processes), host_file.path(), status, folder.memory()),
      child, errors);
  if (fault != 0) {
    say("mantissa launch: mpirun cannot be started: " + std::string(std::strerror(fault)) +
        " (it is part of Open MPI: on Debian, apt-get install openmpi-bin)");
    return kFailed;
  }
  guard.guards(child);
  Job job(child, errors, status, seconds(deadline));
  const int ended = job.watch();
  status.read();
  if (job.ended_early() || job.found_frozen()) {
    say(job.found_frozen() ? "mantissa launch: interrupted while a process was frozen: all were "
                             "ended; what was saved is there, and --resume goes on from it"
                           : "mantissa launch: interrupted before the processes were there");
    return static_cast<int>(Exit::kInterrupted);
  }
  if (const auto& process = job.messages().ended()) {
    say("mantissa launch: " + printable(status.line_of(process->process)) +
        ": its last sign of life before signal " + std::to_string(process->signal) +
        " ended it; what was saved is there, and --resume goes on from it");
    return kFailed;
  }
  return code_of(ended, job.was_stopped());
}

}  // namespace mantissa::cli

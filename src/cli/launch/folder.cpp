#include "cli/launch/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace mantissa::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "mantissa-launch-";
constexpr const char* kLock = "lock";
const fs::path kMemory = "/dev/shm";

fs::path temporary_folder() {
  const char* const folder = std::getenv("TMPDIR");
  return folder == nullptr || *folder == '\0' ? "/tmp" : folder;
}

void remove_tree(const fs::path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

// The lock goes last: whoever is killed in between leaves a folder that the next launch removes.
void remove_folder(const fs::path& path) {
  std::error_code error;
  fs::directory_iterator entries(path, error), end;
  for (; !error && entries != end; entries.increment(error)) {
    if (entries->path().filename() != kLock) remove_tree(entries->path());
  }
  remove_tree(path);
}

// Whether it is this user's, and the launch that made it is gone: its lock can be had.
bool is_dead(const fs::path& path) {
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return false;
  if (status.st_uid != geteuid()) return false;
  const int lock = open((path / kLock).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (lock < 0) return false;  // it is being made, or removed
  const bool is_free = flock(lock, LOCK_EX | LOCK_NB) == 0;
  close(lock);
  return is_free;
}

void remove_dead() {
  std::error_code error;
  fs::directory_iterator entries(temporary_folder(), error), end;
  for (; !error && entries != end; entries.increment(error)) {
    const fs::path path = entries->path();
    if (!path.filename().native().starts_with(kPrefix) || !is_dead(path)) continue;
    remove_tree(kMemory / path.filename());
    remove_folder(path);
  }
}

// The system may reuse a process id, but not while it is the id of a child's process group.
bool lives(pid_t group) { return kill(-group, 0) == 0; }

void end_group(pid_t leader) {
  constexpr int kWaits = 100;
  constexpr useconds_t kWaitUs = 100'000;
  kill(leader, SIGTERM);
  for (int i = 0; i < kWaits && lives(leader); ++i) usleep(kWaitUs);
  if (lives(leader)) kill(-leader, SIGKILL);
}

// Keeps nothing open of the launch except the pipe: readers of the launch's output must not wait
// for the guard.
[[noreturn]] void stand_guard(int pipe, const LaunchFolder& folder) {
  setsid();
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) signal(number, SIG_IGN);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    dup2(nothing, descriptor);
  }
  pid_t child = 0, told = 0;
  ssize_t count = 0;
  do {
    count = read(pipe, &told, sizeof told);
    if (count == sizeof told) child = told;
    if (count == sizeof told && told == 0) _exit(0);  // ended in good order
  } while (count > 0 || (count < 0 && errno == EINTR));
  if (child > 0) end_group(child);
  folder.remove();
  _exit(0);
}

}  // namespace

LaunchFolder::LaunchFolder() {
  remove_dead();
  std::string name = (temporary_folder() / kPrefix).string() + "XXXXXX";
  if (mkdtemp(name.data()) == nullptr) return;
  lock_ = open((fs::path(name) / kLock).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ >= 0) flock(lock_, LOCK_EX | LOCK_NB);
  path_ = name;
  const fs::path memory = kMemory / fs::path(name).filename();
  if (mkdir(memory.c_str(), 0700) == 0) memory_ = memory;
}

void LaunchFolder::remove() const {
  if (!memory_.empty()) remove_tree(memory_);
  if (!path_.empty()) remove_folder(path_);
}

LaunchGuard::LaunchGuard(const LaunchFolder& folder) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return;
  guard_ = fork();
  if (guard_ == 0) {
    close(ends[1]);
    stand_guard(ends[0], folder);
  }
  close(ends[0]);
  pipe_ = ends[1];
}

LaunchGuard::~LaunchGuard() {
  guards(0);
  if (pipe_ >= 0) close(pipe_);
  if (guard_ > 0) waitpid(guard_, nullptr, 0);
}

void LaunchGuard::guards(pid_t child) const { (void)!write(pipe_, &child, sizeof child); }

}  // namespace mantissa::cli

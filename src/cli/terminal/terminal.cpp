#include "cli/terminal/terminal.h"

#include <langinfo.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <clocale>
#include <cstdlib>

#include "cli/terminal/process.h"

namespace mantissa::cli {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool names_utf8(std::string_view text) {
  for (const auto* name : {"UTF-8", "utf-8", "UTF8", "utf8"}) {
    if (text.find(name) != std::string_view::npos) return true;
  }
  return false;
}

// The global locale stays "C": numbers must not change with the user's language.
bool locale_is_utf8() {
  if (const locale_t locale = newlocale(LC_CTYPE_MASK, "", nullptr)) {
    const bool utf8 = names_utf8(nl_langinfo_l(CODESET, locale));
    freelocale(locale);
    return utf8;
  }
  // Named, but not installed on this machine: the terminal understands it all the same.
  for (const auto* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (const std::string value = environment(name); !value.empty()) return names_utf8(value);
  }
  return false;
}

}  // namespace

int Terminal::width() const {
  winsize size = {};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const int columns = std::atoi(environment("COLUMNS").c_str());
  return columns >= 20 && columns <= 1000 ? columns : 80;
}

std::string Terminal::paint(std::string_view style, std::string_view text) const {
  if (!colour) return std::string(text);
  return "\033[" + std::string(style) + "m" + std::string(text) + "\033[0m";
}

Terminal describe_terminal(int descriptor) {
  Terminal terminal;
  terminal.descriptor = descriptor;
  const std::string type = environment("TERM");
  terminal.redraws = isatty(descriptor) && !type.empty() && type != "dumb";
  terminal.colour = terminal.redraws && environment("NO_COLOR").empty();
  terminal.utf8 = locale_is_utf8();
  return terminal;
}

void write_message(int descriptor, std::string_view text) {
  // A pipe whose reader hangs must not block a process that is asked to stop.
  constexpr int kAskMs = 100;
  while (!text.empty()) {
    pollfd one = {descriptor, POLLOUT, 0};
    const int ready = poll(&one, 1, kAskMs);
    if (ready <= 0 && stop_is_requested()) return;
    if (ready <= 0) continue;
    // A pipe that is ready takes this many bytes without blocking.
    const ssize_t written =
        ::write(descriptor, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace mantissa::cli

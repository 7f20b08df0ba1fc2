#include "cli/http/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace mantissa::cli {
namespace {

int port_of(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// No SO_REUSEPORT: it would share a port that another process has, instead of refusing it.
int listen_at(const addrinfo& address) {
  const int found = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (found < 0) return -1;
  const int yes = 1;  // of connections that have just ended
  setsockopt(found, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(found, address.ai_addr, address.ai_addrlen) == 0 && listen(found, SOMAXCONN) == 0) {
    return found;
  }
  close(found);
  return -1;
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool is_address(const std::string& text) {
  in6_addr ignored = {};
  return inet_pton(AF_INET, text.c_str(), &ignored) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &ignored) == 1;
}

// "[::1]:8080" gives "::1", "box:8080" gives "box".
std::string without_port(const std::string& header) {
  if (header.starts_with('[')) return header.substr(1, header.find(']') - 1);
  return header.substr(0, header.rfind(':'));
}

}  // namespace

int listen_on(const std::string& host, int& port) {
  addrinfo hints = {};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return -1;
  int socket = -1;
  for (const addrinfo* one = found; one != nullptr && socket < 0; one = one->ai_next) {
    socket = listen_at(*one);
  }
  freeaddrinfo(found);
  if (socket >= 0) port = port_of(socket);
  return socket;
}

bool names_this_machine(const std::string& header, const std::vector<std::string>& names) {
  std::string name = lower(without_port(header));
  if (name.ends_with('.')) name.pop_back();
  if (is_address(name) || name == "localhost" || name.ends_with(".localhost")) return true;
  return std::ranges::any_of(names, [&](const std::string& known) { return lower(known) == name; });
}

std::vector<std::string> machine_names() {
  std::array<char, 256> text{};
  if (gethostname(text.data(), text.size() - 1) != 0 || text[0] == '\0') return {};
  const std::string name = text.data();
  return {name, name.substr(0, name.find('.'))};
}

}  // namespace mantissa::cli

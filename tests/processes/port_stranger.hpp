#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace strata::testing {

/// Connects to ports on which child processes of this one listen, as soon as it finds them, and holds the connections.
class PortStranger {
 public:
  /// `spared`: a port that it leaves alone. It ends after `most` connections.
  PortStranger(int spared, std::size_t most) : thread_([this, spared, most] { run(spared, most); }) {}
  ~PortStranger() {
    over_ = true;
    thread_.join();
    for (const int socket : sockets_) ::close(socket);
  }
  PortStranger(const PortStranger&) = delete;
  PortStranger& operator=(const PortStranger&) = delete;

 private:
  void run(int spared, std::size_t most) {
    std::set<std::string> known;
    while (!over_ && sockets_.size() < most) {
      const std::set<std::string> own = sockets_of_children();
      std::ifstream table("/proc/net/tcp");
      std::string line;
      std::getline(table, line);
      while (std::getline(table, line) && sockets_.size() < most) {
        std::istringstream row(line);
        const std::vector<std::string> words{std::istream_iterator<std::string>(row), {}};
        constexpr const char* kListens = "0A";
        if (words.at(3) != kListens || !own.contains(words.at(9)) || !known.insert(words.at(9)).second) continue;
        const int port = std::stoi(words.at(1).substr(words.at(1).find(':') + 1), nullptr, 16);
        if (port != spared) connect_to(port);
      }
    }
  }

  /// The inodes of their sockets.
  static std::set<std::string> sockets_of_children() {
    namespace fs = std::filesystem;
    std::set<std::string> inodes;
    std::error_code ignored;
    for (const auto& thread : fs::directory_iterator("/proc/self/task", ignored)) {
      std::ifstream children(thread.path() / "children");
      for (std::string id; children >> id;) {
        for (const auto& entry : fs::directory_iterator("/proc/" + id + "/fd", ignored)) {
          const std::string target = fs::read_symlink(entry.path(), ignored).string();
          if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
        }
      }
    }
    return inodes;
  }

  void connect_to(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      sockets_.push_back(socket);
    } else {
      ::close(socket);
    }
  }

  std::vector<int> sockets_;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace strata::testing

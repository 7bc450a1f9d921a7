#pragma once

#include <utility>
#include <vector>

namespace sockets {

/// A file descriptor, closed when it is destroyed.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();

  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }

 private:
  int number_;
};

/// One rank's sockets: the one at index i is connected to rank i. The rank's own is closed.
using Endpoints = std::vector<Descriptor>;

/// Connects ranks of one process. \return the sockets of each rank. \throws RuntimeError.
[[nodiscard]] std::vector<Endpoints> connect_threads(int rank_count);

/// Connects this process with the processes of all other ranks on this machine. `run` is a number that tells runs
/// apart. \throws RuntimeError if a rank is missing after `timeout` seconds, or belongs to another user.
[[nodiscard]] Endpoints connect_processes(int rank, int rank_count, int run, double timeout);

}  // namespace sockets

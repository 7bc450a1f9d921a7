#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "rendezvous/store.hpp"

namespace strata::gloo {

using rendezvous::Clock;

/// Transfers between the ranks of one process, each on its own thread. The end that is posted last copies the memory,
/// so that data is copied once and passes no socket. Transfers of one slot are matched in the order in which they are
/// posted, as gloo does. Thread-safe.
class ProcessMail {
 public:
  /// One end of a transfer, which is posted and then waited for.
  class Post;
  using Ticket = std::shared_ptr<Post>;
  /// Sender and receiver, by world rank.
  struct Route {
    int from = 0;
    int to = 0;
  };

  ProcessMail(int first_rank, int ranks);
  ~ProcessMail();

  /// True for the ranks of this process.
  [[nodiscard]] bool has(int rank) const { return rank >= first_rank_ && rank < first_rank_ + ranks_; }

  [[nodiscard]] Ticket send(const Route& route, std::uint64_t slot, const std::byte* data, std::size_t bytes);
  /// \throws RuntimeError if the sender's end has another size. So does send().
  [[nodiscard]] Ticket receive(const Route& route, std::uint64_t slot, std::byte* data, std::size_t bytes);
  /// Waits until the data has been copied. \return false if that has not happened until `deadline`.
  [[nodiscard]] bool await(const Ticket& ticket, Clock::time_point deadline);
  /// Takes back an end that is not waited for any more. Its memory is not accessed afterwards.
  void withdraw(const Ticket& ticket) noexcept;
  /// Ends all transfers of a rank. Its memory is not accessed afterwards.
  void close(int rank) noexcept;

 private:
  /// The transfers from one rank to another that wait for their other end.
  struct Channel;

  [[nodiscard]] Channel& channel(const Route& route);
  [[nodiscard]] Ticket post(const Route& route, std::uint64_t slot, std::size_t side, std::byte* data,
                            std::size_t bytes);

  int first_rank_;
  int ranks_;
  /// By sender, then by receiver.
  std::vector<std::unique_ptr<Channel>> channels_;
};

}  // namespace strata::gloo

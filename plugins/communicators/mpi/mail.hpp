#pragma once

#include <mpi.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "control.hpp"
#include "transfers.hpp"

namespace strata::mpi {

/// Control messages of one rank. Those of one sender arrive in the order in which they were sent.
class Mail {
 public:
  using Handler = std::function<void(int from, Control control)>;

  /// Expects messages over `communicator`, on which nothing else is sent.
  Mail(MPI_Comm communicator, int rank);
  Mail(const Mail&) = delete;
  Mail& operator=(const Mail&) = delete;

  void send(int peer, const Control& control);
  /// Calls `handler` for each message that has arrived. \return true if there was one. \throws RuntimeError if a
  /// message cannot be sent.
  bool progress(const Handler& handler);
  /// True if all messages that were sent have left.
  [[nodiscard]] bool idle() const { return sends_.idle(); }
  /// Ends the receives. No message arrives from then on.
  void close();

 private:
  struct Slot {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void expect(Slot& slot);

  MPI_Comm communicator_;
  int rank_;
  Transfers sends_;
  TicketPointer ticket_ = std::make_shared<Ticket>();
  /// Receives in the order in which MPI matches messages with them, from `next_`.
  std::vector<Slot> slots_;
  std::size_t next_ = 0;
  /// Messages of the rank to itself.
  std::deque<Control> own_;
};

}  // namespace strata::mpi

#pragma once

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace strata::mpi {

/// The transfers of one communication.
struct Ticket {
  /// Number of transfers in flight, by peer (world rank). Peers without any have no entry.
  std::map<int, int> in_flight = {};
  /// True if no further transfer may start, and the ends of those in flight are not reported any more.
  bool stopped = false;
  /// Why a transfer failed. Empty if none did.
  std::string fault = {};
  /// Memory of transfers, kept until the last of them has ended.
  std::shared_ptr<void> memory = nullptr;
};

using TicketPointer = std::shared_ptr<Ticket>;

/// Sends and receives in flight over one MPI communicator. One thread uses it.
class Transfers {
 public:
  /// Called once a transfer has ended without a fault.
  using Ended = std::function<void()>;

  explicit Transfers(MPI_Comm communicator) : communicator_(communicator) {}

  /// Start a transfer of any number of bytes. A ticket that is stopped starts nothing.
  void send(const TicketPointer& ticket, const void* data, std::int64_t bytes, int peer, int tag, Ended ended);
  void receive(const TicketPointer& ticket, void* data, std::int64_t bytes, int peer, int tag, Ended ended);

  /// Stops the ticket and cancels its receives. Its sends end when their receivers have taken or dropped the data.
  void stop(const TicketPointer& ticket);

  /// Lets MPI work, and reports what has ended. \return true if something has.
  bool progress();
  /// Takes one message that no receive expects, and drops it. Its sender stopped too late. \return true if there was
  /// one.
  bool drop_message();

  [[nodiscard]] bool idle() const { return requests_.empty(); }
  /// Number of sends in flight.
  [[nodiscard]] int sends() const { return sends_; }

 private:
  struct Entry {
    TicketPointer ticket;
    int peer = 0;
    bool is_send = false;
    Ended ended;
  };

  /// Starts transfers of at most 1 GiB each, because MPI counts bytes in an int.
  template <class Start>
  void split(const Entry& entry, std::int64_t bytes, const Start& start);
  void end(Entry& entry, MPI_Status& status);

  MPI_Comm communicator_;
  // Parallel arrays, as MPI_Testsome wants them.
  std::vector<MPI_Request> requests_;
  std::vector<Entry> entries_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  int sends_ = 0;
};

}  // namespace strata::mpi

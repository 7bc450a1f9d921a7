#pragma once

#include <mpi.h>

namespace strata::mpi {

/// An MPI communicator of all processes. Its messages meet no others.
class Connection {
 public:
  /// Returns when all processes have called it. \throws RuntimeError after `timeout` seconds.
  explicit Connection(double timeout);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] MPI_Comm get() const { return communicator_; }
  /// Leaves the communicator to MPI, because not all processes can end it together.
  void abandon() { communicator_ = MPI_COMM_NULL; }

 private:
  MPI_Comm communicator_ = MPI_COMM_NULL;
};

/// Place of this process among the processes of its machine.
struct HostPlace {
  int ranks_on_host = 1;
  int index_on_host = 0;
};

/// All processes call it together, and it waits for all.
[[nodiscard]] HostPlace find_host_place(const Connection& connection);

}  // namespace strata::mpi

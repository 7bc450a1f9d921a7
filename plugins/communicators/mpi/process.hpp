#pragma once

#include <mpi.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace strata::mpi {

/// MPI's own text of an error code.
[[nodiscard]] std::string error_text(int code);

/// \throws RuntimeError that names `call` and MPI's reason unless `code` is MPI_SUCCESS.
void check(int code, const char* call);

/// The name and the version of this MPI, such as "Open MPI v4.1.4".
[[nodiscard]] std::string library_version();

/// Why this MPI cannot read and write the memory of a GPU. Empty if it can.
[[nodiscard]] std::string no_device_memory();

class Stay;

/// MPI in this process. MPI can be initialised only once, so all worlds of the process share it, one at a time. It is
/// initialised by the first world, and finalised when the process exits.
class Process {
 public:
  /// Initialises MPI at the first call. \throws ConfigurationError if this MPI cannot be called from two threads in
  /// turn.
  static Process& get();

  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int rank_count() const { return rank_count_; }

 private:
  friend class Stay;

  Process();
  ~Process();

  /// A forked process has this object, too, but not MPI.
  [[nodiscard]] bool is_forked() const;

  int process_id_;
  int rank_ = 0;
  int rank_count_ = 1;
  bool finalises_ = false;
  bool occupied_ = false;
  bool complete_ = true;
  std::vector<std::shared_ptr<void>> kept_;
};

/// A world's use of MPI. If it ends without end(), the ranks have not ended the world together. Then MPI_Finalize could
/// wait for ever, and the process ends with MPI_Abort, which also ends ranks that no message reaches.
class Stay {
 public:
  /// \throws RuntimeError if another world exists, or if an earlier one was not ended by all ranks together.
  explicit Stay(Process& process);
  ~Stay() { process_.occupied_ = false; }
  Stay(const Stay&) = delete;
  Stay& operator=(const Stay&) = delete;

  void end() { process_.complete_ = true; }
  /// Keeps memory to which MPI may write until the process ends.
  void keep(std::shared_ptr<void> memory) { process_.kept_.push_back(std::move(memory)); }

 private:
  Process& process_;
};

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

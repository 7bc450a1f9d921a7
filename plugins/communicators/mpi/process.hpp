#pragma once

#include <memory>
#include <utility>
#include <vector>

namespace strata::mpi {

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

}  // namespace strata::mpi

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend.hpp"
#include "rendezvous/store.hpp"

namespace strata::nccl {

/// This rank's end of an NCCL communicator. It is created in steps, so that a rank need not wait for the others. The
/// first rank makes an id and puts it into the store. All ranks start with that id. NCCL connects them in the
/// background.
class Link {
 public:
  /// `key`: identifies the link. It is equal on all ranks of the link.
  Link(std::shared_ptr<NcclLibrary> nccl, std::shared_ptr<rendezvous::Store> store, std::vector<int> ranks, int rank,
       std::string key);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  [[nodiscard]] const std::vector<int>& ranks() const { return ranks_; }
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] int index() const { return index_; }
  [[nodiscard]] const std::string& key() const { return key_; }

  // The functions below are called by the progress thread only.

  /// Performs the next step of the creation if possible. `blocks`: upper limit of the blocks of NCCL's kernels on the
  /// link. \return true when the link is ready.
  [[nodiscard]] bool advance(int blocks);
  /// True if the last call on the link has returned. \throws RuntimeError if communication on it has failed.
  [[nodiscard]] bool is_idle() const { return nccl_->is_ready(handle_); }
  [[nodiscard]] void* handle() const { return handle_; }

  /// Starts to end the communicator after its work. The other ranks must do so as well.
  void begin_close() noexcept;
  /// Ends the communicator. Aborts work that has not ended at `deadline`.
  void close(rendezvous::Clock::time_point deadline) noexcept;
  void abort() noexcept;

 private:
  std::shared_ptr<NcclLibrary> nccl_;
  std::shared_ptr<rendezvous::Store> store_;
  std::vector<int> ranks_;
  int index_ = 0;
  std::string key_;
  void* handle_ = nullptr;
  bool ready_ = false;
};

}  // namespace strata::nccl

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nccl_library.hpp"
#include "rendezvous/store.hpp"

namespace strata::nccl {

/// This rank's end of the NCCL communicator of some ranks. It is made step by step, so that a rank need not wait for
/// the others to come: the first of the ranks makes an id and leaves it in the store, all of them begin with it, and
/// NCCL brings them together beside other work.
class Link {
 public:
  /// `key`: the same on all ranks and for no other link.
  Link(std::shared_ptr<NcclLibrary> nccl, std::shared_ptr<rendezvous::Store> store, std::vector<int> ranks, int rank,
       std::string key);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  [[nodiscard]] const std::vector<int>& ranks() const { return ranks_; }
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] int index() const { return index_; }

  // What follows is the progress thread's.

  /// Takes the next step if it can. \return true when the link is ready.
  [[nodiscard]] bool advance();
  /// Whether the last call on it has returned. \throws RuntimeError if communication on it has failed.
  [[nodiscard]] bool is_idle() const { return nccl_->is_ready(handle_); }
  [[nodiscard]] void* handle() const { return handle_; }

  /// Ends it after its work, aborting what is not over until `deadline`.
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

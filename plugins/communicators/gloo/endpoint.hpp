#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "mesh.hpp"
#include "process_mail.hpp"
#include "shared/operation.hpp"
#include "watch.hpp"

namespace strata::gloo {

// The exceptions below never leave the communicator. Endpoint::perform() turns them into errors of the SDK.

/// The run has ended. The watch knows why.
struct Stopped {};

/// A peer has sent or received nothing until the deadline.
struct Late {
  int peer = 0;
};

/// A communication failed on this rank, with the reason.
struct Trouble {
  std::string why;
};

/// The connections of one rank, with the watch that ends its waits.
class Endpoint {
 public:
  /// `mesh`: null if no other process has ranks. `mail`: of the ranks of this process.
  Endpoint(std::unique_ptr<Mesh> mesh, std::shared_ptr<ProcessMail> mail, std::shared_ptr<rendezvous::Store> store,
           int rank, std::chrono::duration<double> timeout);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  /// The connections to ranks of other processes.
  [[nodiscard]] Mesh& mesh() { return *mesh_; }
  /// The way to `peer` through memory. Null if it is a rank of another process.
  [[nodiscard]] ProcessMail* mail_for(int peer) { return mail_->has(peer) ? mail_.get() : nullptr; }
  [[nodiscard]] Watch& watch() { return watch_; }
  [[nodiscard]] Clock::time_point deadline() const;
  /// The timeout in words: "300 s".
  [[nodiscard]] std::string timeout_text() const;

  /// Runs `work` for an operation. \throws AbortedError if another rank has ended the run. \throws RuntimeError if the
  /// operation fails; the run then ends on all ranks.
  void perform(const communicators::Operation& operation, const std::function<void()>& work);
  /// Calls gloo for a transfer between this rank and `peer`. \throws Stopped or Trouble if the connection is lost.
  void transfer(int peer, const std::function<void()>& call);

 private:
  [[noreturn]] void raise_end(const communicators::Operation& operation);

  int rank_;
  std::unique_ptr<Mesh> mesh_;
  std::shared_ptr<ProcessMail> mail_;
  std::chrono::duration<double> timeout_;
  Watch watch_;
};

}  // namespace strata::gloo

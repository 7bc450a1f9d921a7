#pragma once

#include <cstdint>
#include <optional>

#include "operation.hpp"
#include "transfer.hpp"

namespace strata::gloo {

/// One end of a message to or from another rank. A head with the number of bytes travels beside the data, so that ends
/// of different sizes are an error.
class Message {
 public:
  Message(Endpoint& endpoint, const Operation& operation);

  /// Posts the transfers. Does not wait for the peer.
  void post();
  /// Waits for the peer. \throws Late, Stopped or Trouble.
  void await();

 private:
  Endpoint& endpoint_;
  const Operation& operation_;
  std::int64_t head_ = 0;
  std::optional<Transfer> head_transfer_;
  std::optional<Transfer> data_transfer_;
};

}  // namespace strata::gloo

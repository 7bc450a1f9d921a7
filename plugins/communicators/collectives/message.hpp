#pragma once

#include <memory>

#include "collectives/card.hpp"
#include "collectives/device_stream.hpp"
#include "collectives/endpoint.hpp"

namespace strata::communicators {

/// One end of a message. Each end sends the other a card with its length, so that both learn if the lengths differ. A
/// short message travels with the card of the sender.
class Message {
 public:
  Message(Endpoint& endpoint, DeviceStream& stream, const TransportOperation& operation);

  /// Posts the transfers. Does not wait for the peer.
  void post();
  /// Waits for the peer.
  void await();

 private:
  Endpoint& endpoint_;
  DeviceStream& stream_;
  const TransportOperation& operation_;
  bool is_short_;
  std::unique_ptr<Envelope> sent_ = std::make_unique<Envelope>();
  std::unique_ptr<Envelope> received_ = std::make_unique<Envelope>();
  std::unique_ptr<Transfer> own_card_;
  std::unique_ptr<Transfer> card_of_peer_;
  std::unique_ptr<Transfer> data_;
};

}  // namespace strata::communicators

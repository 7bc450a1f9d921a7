#include "collectives/message.hpp"

#include "strata/error.hpp"

namespace strata::communicators {
namespace {

constexpr Slot kFromSender = 1;
constexpr Slot kFromReceiver = 2;
constexpr Slot kData = 3;
constexpr auto kCardBytes = static_cast<std::int64_t>(sizeof(Card));

}  // namespace

Message::Message(Endpoint& endpoint, DeviceStream& stream, const TransportOperation& operation)
    : endpoint_(endpoint),
      stream_(stream),
      operation_(operation),
      is_short_(stream.is_host_memory() && operation.message.bytes <= Envelope::kPayload) {}

void Message::post() {
  const MessageCall& call = operation_.message;
  Transport& transport = endpoint_.transport();
  const Slot data = mix(mix(kData, call.id), static_cast<std::uint64_t>(call.bytes));
  const Parcel parcel{call.peer, data, call.data, call.bytes};
  sent_->card.elements = call.bytes;
  if (operation_.kind == Operation::Kind::send) {
    if (is_short_) stream_.copy(sent_->payload, call.data, call.bytes);
    card_of_peer_ = transport.receive({call.peer, mix(kFromReceiver, call.id), received_.get(), kCardBytes});
    const std::int64_t unused = Envelope::kPayload - (is_short_ ? call.bytes : 0);
    own_card_ = transport.send({call.peer, mix(kFromSender, call.id), sent_.get(), kEnvelopeBytes, unused});
    if (!is_short_) data_ = transport.send(parcel);
  } else {
    card_of_peer_ = transport.receive({call.peer, mix(kFromSender, call.id), received_.get(), kEnvelopeBytes});
    own_card_ = transport.send({call.peer, mix(kFromReceiver, call.id), sent_.get(), kCardBytes});
    if (!is_short_) data_ = transport.receive(parcel);
  }
}

void Message::await() {
  const MessageCall& call = operation_.message;
  const auto await = [&](Transfer& transfer) {
    endpoint_.await(operation_, transfer, call.peer, endpoint_.deadline());
  };
  await(*card_of_peer_);
  // The peer has this rank's card before this rank may fail, so that it fails for the same reason.
  await(*own_card_);
  const std::int64_t bytes_of_peer = received_->card.elements;
  const bool sends = operation_.kind == Operation::Kind::send;
  if (bytes_of_peer != call.bytes) {
    const std::string own = std::to_string(operation_.rank) + (sends ? " sends " : " receives ");
    const std::string other = std::to_string(call.peer) + (sends ? " receives " : " sends ");
    const std::string own_text = "rank " + own + std::to_string(call.bytes);
    const std::string text_of_peer = "rank " + other + std::to_string(bytes_of_peer);
    throw RuntimeError(sends ? own_text + " bytes, " + text_of_peer : text_of_peer + " bytes, " + own_text);
  }
  if (data_) await(*data_);
  if (is_short_ && !sends) stream_.copy(call.data, received_->payload, call.bytes);
}

}  // namespace strata::communicators

#include "message.hpp"

namespace strata::gloo {
namespace {

constexpr Slot kHeads = 3;
constexpr Slot kContents = 4;
constexpr auto kHeadBytes = static_cast<std::int64_t>(sizeof(std::int64_t));

}  // namespace

Message::Message(Endpoint& endpoint, const Operation& operation) : endpoint_(endpoint), operation_(operation) {}

void Message::post() {
  const MessageCall& call = operation_.message;
  const Slot head_slot = mix(kHeads, call.id);
  const Slot data_slot = mix(mix(kContents, call.id), static_cast<std::uint64_t>(call.bytes));
  head_transfer_.emplace(endpoint_, call.peer, &head_, kHeadBytes);
  if (call.bytes > 0) data_transfer_.emplace(endpoint_, call.peer, call.data, call.bytes);
  if (operation_.kind == Operation::Kind::send) {
    head_ = call.bytes;
    head_transfer_->send(head_slot, 0, kHeadBytes);
    if (data_transfer_) data_transfer_->send(data_slot, 0, call.bytes);
  } else {
    head_transfer_->receive(head_slot, 0, kHeadBytes);
    if (data_transfer_) data_transfer_->receive(data_slot, 0, call.bytes);
  }
}

void Message::await() {
  const MessageCall& call = operation_.message;
  if (operation_.kind == Operation::Kind::send) {
    head_transfer_->await_sent(endpoint_.deadline());
    if (data_transfer_) data_transfer_->await_sent(endpoint_.deadline());
    return;
  }
  head_transfer_->await_received(endpoint_.deadline());
  if (head_ != call.bytes) {
    throw Trouble{"rank " + std::to_string(call.peer) + " sends " + std::to_string(head_) + " bytes, rank " +
                  std::to_string(operation_.rank) + " receives " + std::to_string(call.bytes)};
  }
  if (data_transfer_) data_transfer_->await_received(endpoint_.deadline());
}

}  // namespace strata::gloo

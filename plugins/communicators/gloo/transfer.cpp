#include "transfer.hpp"

#include <gloo/transport/unbound_buffer.h>

#include <algorithm>

namespace strata::gloo {
namespace {

/// Time between two looks at whether the run has ended.
constexpr std::chrono::milliseconds kMailPause{20};

}  // namespace

/// The finalizer of SplitMix64.
Slot mix(Slot slot, std::uint64_t value) {
  std::uint64_t mixed = slot + 0x9e3779b97f4a7c15U + value;
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31U);
}

Transfer::Transfer(Endpoint& endpoint, int peer, const void* data, std::int64_t bytes)
    : endpoint_(&endpoint),
      peer_(peer),
      // Memory that is only sent is not written.
      data_(const_cast<void*>(data)),
      bytes_(static_cast<std::size_t>(bytes)),
      mail_(endpoint.mail_for(peer)) {}

Transfer::Transfer(Transfer&&) noexcept = default;

Transfer::~Transfer() {
  for (const auto* tickets : {&sent_mail_, &received_mail_}) {
    for (const ProcessMail::Ticket& ticket : *tickets) mail_->withdraw(ticket);
  }
}

void Transfer::send(Slot slot, std::int64_t offset, std::int64_t bytes) {
  if (mail_ != nullptr) {
    return endpoint_->transfer(peer_, [&] {
      sent_mail_.push_back(
          mail_->send({endpoint_->rank(), peer_}, slot, data_at(offset), static_cast<std::size_t>(bytes)));
    });
  }
  endpoint_->transfer(peer_, [&] {
    buffer(Direction::send).send(peer_, slot, static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes));
  });
  ++sends_;
}

void Transfer::receive(Slot slot, std::int64_t offset, std::int64_t bytes) {
  if (mail_ != nullptr) {
    return endpoint_->transfer(peer_, [&] {
      received_mail_.push_back(
          mail_->receive({peer_, endpoint_->rank()}, slot, data_at(offset), static_cast<std::size_t>(bytes)));
    });
  }
  endpoint_->transfer(peer_, [&] {
    buffer(Direction::receive).recv(peer_, slot, static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes));
  });
  ++receives_;
}

void Transfer::await_sent(Clock::time_point deadline) {
  while (!sent_mail_.empty()) await_mail(sent_mail_, deadline);
  for (; sends_ > 0; --sends_) await(Direction::send, deadline);
}

void Transfer::await_one_received(Clock::time_point deadline) {
  if (mail_ != nullptr) return await_mail(received_mail_, deadline);
  await(Direction::receive, deadline);
  --receives_;
}

void Transfer::await_received(Clock::time_point deadline) {
  while (receives()) await_one_received(deadline);
}

void Transfer::await_mail(std::deque<ProcessMail::Ticket>& tickets, Clock::time_point deadline) {
  while (!mail_->await(tickets.front(), std::min(deadline, Clock::now() + kMailPause))) {
    if (endpoint_->watch().end()) throw Stopped{};
    if (Clock::now() >= deadline) throw Late{peer_};
  }
  tickets.pop_front();
}

::gloo::transport::UnboundBuffer& Transfer::buffer(Direction direction) {
  auto& buffer = direction == Direction::send ? outgoing_ : incoming_;
  if (!buffer) buffer = endpoint_->mesh().buffer(direction, peer_, data_, bytes_);
  return *buffer;
}

void Transfer::await(Direction direction, Clock::time_point deadline) {
  endpoint_->transfer(peer_, [&] {
    const WaitEnd end = endpoint_->watch().await(buffer(direction), direction, deadline);
    if (end == WaitEnd::stopped) throw Stopped{};
    if (end == WaitEnd::late) throw Late{peer_};
  });
}

}  // namespace strata::gloo

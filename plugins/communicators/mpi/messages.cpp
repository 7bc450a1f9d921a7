#include "messages.hpp"

#include <algorithm>
#include <exception>
#include <string>

namespace strata::mpi {
namespace {

constexpr const char* kHasLeft = ", which has left";

std::string peer_text(const Operation& operation) { return "rank " + std::to_string(operation.message.peer); }

bool is_send(const Operation& operation) { return operation.kind == Operation::Kind::send; }

/// An answer to an announcement.
Control answer(ControlKind kind, const Control& announcement) {
  Control control{.kind = kind, .key = announcement.key};
  control.call.id = announcement.call.id;
  return control;
}

}  // namespace

void Messages::add(const OperationPointer& operation) {
  Active& active = active_.emplace_back(fabric_, operation);
  active.since = Clock::now();
  try {
    fabric_.await(operation->ready);
    if (is_send(*operation)) return begin_send(active);
    const auto found = announcements_.find({operation->message.peer, operation->message.id});
    if (found == announcements_.end()) return;
    const Control announcement = std::move(found->second.front());
    found->second.pop_front();
    if (found->second.empty()) announcements_.erase(found);
    match(active, announcement);
  } catch (const std::exception& error) {
    active.fail(error.what());
  }
}

void Messages::begin_send(Active& active) {
  const Operation& operation = active.operation();
  const MessageCall& message = operation.message;
  active.number = ++sends_;
  Control announcement{.kind = ControlKind::announcement, .key = active.number, .bytes = message.bytes};
  announcement.call.id = message.id;
  announcement.text = operation.name;
  if (message.bytes <= (fabric_.carries_payload() ? kPayloadBytes : 0)) {
    const auto* data = static_cast<const std::byte*>(message.data);
    if (message.bytes > 0) announcement.payload.assign(data, data + message.bytes);
    active.is_short = true;
  }
  if (!left_.contains(message.peer)) fabric_.mail.send(message.peer, announcement);
}

void Messages::announced(int from, Control control) {
  const Key key{from, control.call.id};
  Active* receive = announcements_.contains(key) ? nullptr : find_receive(key);
  if (receive == nullptr) {
    announcements_[key].push_back(std::move(control));
    return;
  }
  match(*receive, control);
}

void Messages::match(Active& active, const Control& announcement) {
  const MessageCall& message = active.operation().message;
  active.matched = true;
  if (announcement.bytes != message.bytes) {
    Control refusal = answer(ControlKind::refusal, announcement);
    refusal.text = peer_text(active.operation()) + " sends " + std::to_string(announcement.bytes) + " bytes, rank " +
                   std::to_string(active.operation().rank) + " receives " + std::to_string(message.bytes);
    active.fail(refusal.text);
    return fabric_.mail.send(message.peer, refusal);
  }
  Control grant = answer(ControlKind::grant, announcement);
  if (announcement.payload.size() == static_cast<std::size_t>(message.bytes)) {
    fabric_.copy(message.data, announcement.payload.data(), message.bytes);
    active.complete = true;
    return fabric_.mail.send(message.peer, grant);
  }
  grant.tag = fabric_.new_tags();
  fabric_.transfers.receive(active.ticket(), message.data, message.bytes, message.peer, grant.tag,
                            [&active] { active.complete = true; });
  fabric_.mail.send(message.peer, grant);
}

void Messages::granted(const Control& control) {
  Active* send = find_send(control.key);
  if (send == nullptr) return;  // it has failed in the meantime
  send->matched = true;
  if (send->is_short) {
    send->complete = true;
    return;
  }
  const MessageCall& message = send->operation().message;
  fabric_.transfers.send(send->ticket(), message.data, message.bytes, message.peer, control.tag,
                         [send] { send->complete = true; });
}

void Messages::refused(const Control& control) {
  if (Active* send = find_send(control.key)) send->fail(control.text);
}

void Messages::peer_left(int rank, bool broken) {
  left_.insert(rank);
  for (Active& active : active_) {
    if (active.operation().message.peer != rank || active.complete || (active.matched && !broken)) continue;
    active.fail("waits for rank " + std::to_string(rank) + kHasLeft);
  }
}

bool Messages::advance(Clock::time_point now) {
  bool any = false;
  for (auto place = active_.begin(); place != active_.end();) {
    Active& active = *place;
    if (!active.ticket()->fault.empty()) active.fail(active.ticket()->fault);
    if (!active.complete && !active.has_failed()) check_time(active, now);
    const bool is_complete = active.complete && !active.has_failed();
    if (!is_complete && !active.has_stopped(now)) {
      ++place;
      continue;
    }
    finish_(active.pointer(), active.fault());
    place = active_.erase(place);
    any = true;
  }
  return any;
}

void Messages::check_time(Active& active, Clock::time_point now) {
  const Operation& operation = active.operation();
  const std::string peer = peer_text(operation);
  if (!active.matched && left_.contains(operation.message.peer)) return active.fail("waits for " + peer + kHasLeft);
  Clock::time_point since = active.since;
  if (is_send(operation)) {
    since = operation.waited_since.load();
    if (since == Clock::time_point()) return;  // nobody waits for it yet
  }
  if (now - since >= timeout_) active.fail("waited " + seconds_text(timeout_) + " for " + peer);
}

void Messages::fail_all(const FaultOf& fault) {
  for (Active& active : active_) active.fail(fault(active.operation()));
}

void Messages::abandon_all(const FaultOf& fault) {
  for (Active& active : active_) finish_(active.pointer(), active.abandon(fault(active.operation())));
  active_.clear();
}

Messages::Active* Messages::find_receive(const Key& key) {
  const auto place = std::find_if(active_.begin(), active_.end(), [&](const Active& active) {
    const Operation& operation = active.operation();
    return !is_send(operation) && !active.matched && !active.has_failed() && operation.message.peer == key.first &&
           operation.message.id == key.second;
  });
  return place == active_.end() ? nullptr : &*place;
}

Messages::Active* Messages::find_send(std::uint64_t number) {
  const auto place = std::find_if(active_.begin(), active_.end(), [&](const Active& active) {
    return is_send(active.operation()) && active.number == number && !active.has_failed();
  });
  return place == active_.end() ? nullptr : &*place;
}

}  // namespace strata::mpi

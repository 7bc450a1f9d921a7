#include "collectives.hpp"

#include <algorithm>
#include <exception>
#include <iterator>

#include "shared/calls.hpp"
#include "strata/error.hpp"

namespace strata::mpi {
namespace {

std::string rank_text(int rank) { return "rank " + std::to_string(rank); }

/// A member's call in words.
std::string describe_call(int rank, const Control& control) {
  CollectiveCall call = control.call;
  call.name = &control.text;
  return describe(communicators::Operation(rank, call));
}

}  // namespace

Collectives::Key Collectives::key_of(const Operation& operation) { return {operation.group->key, operation.sequence}; }

void Collectives::add(OperationPointer operation) {
  active_.emplace_back(fabric_, std::move(operation));
  changed_ = true;
}

bool Collectives::may_begin(std::list<Active>::const_iterator place) const {
  const Operation& operation = place->operation();
  return std::none_of(active_.begin(), place, [&](const Active& earlier) {
    const Operation& other = earlier.operation();
    return other.group->key == operation.group->key ||
           communicators::conflict(other.call, other.group->size(), operation.call, operation.group->size());
  });
}

void Collectives::begin(Active& active) {
  const Operation& operation = active.operation();
  active.begun = true;
  active.since = Clock::now();
  fabric_.await(operation.ready);
  active.work = make_work({fabric_, operation, active.ticket()});
  Control arrival{.kind = ControlKind::arrival, .call = operation.call, .text = operation.name};
  arrival.key = operation.group->key;
  arrival.sequence = operation.sequence;
  arrival.tag = fabric_.new_tags();
  active.work->expect(arrival.tag);
  for (int i = 0; i < operation.group->size(); ++i) {
    const int member = operation.group->ranks[static_cast<std::size_t>(i)];
    if (member == operation.rank || left_.contains(member)) continue;
    arrival.payload = active.work->payload(i);
    fabric_.mail.send(member, arrival);
  }
  arrival.payload.clear();
  active.arrivals.emplace(operation.group->index_of(operation.rank), std::move(arrival));
  if (const auto early = early_.find(key_of(operation)); early != early_.end()) {
    auto arrivals = std::move(early->second);
    early_.erase(early);
    for (auto& [from, control] : arrivals) take(active, from, std::move(control));
  }
  run_if_all_arrived(active);
}

void Collectives::arrived(int from, Control control) {
  const Key key{control.key, control.sequence};
  const auto place = std::find_if(active_.begin(), active_.end(), [&](const Active& active) {
    return active.begun && key_of(active.operation()) == key;
  });
  if (place == active_.end()) {
    early_[key].emplace_back(from, std::move(control));
    return;
  }
  take(*place, from, std::move(control));
  run_if_all_arrived(*place);
}

void Collectives::take(Active& active, int from, Control control) {
  const Operation& operation = active.operation();
  const CollectiveCall& own = operation.call;
  if (control.call.id != own.id) {
    active.fail(rank_text(operation.rank) + " is in " + describe(operation) + ", and " + rank_text(from) + " in " +
                describe_call(from, control) + ": the ranks communicate in different orders");
  } else if (!communicators::agree(control.call, own)) {
    active.fail("ranks " + std::to_string(from) + " and " + std::to_string(operation.rank) + " do not mean the same: " +
                communicators::describe_contents(control.call) + " (" + describe_call(from, control) + ") against " +
                communicators::describe_contents(own) + " (" + describe(operation) + ")");
  } else {
    active.arrivals.insert_or_assign(operation.group->index_of(from), std::move(control));
  }
  changed_ = true;
}

void Collectives::run_if_all_arrived(Active& active) {
  if (active.has_failed() || active.runs || std::ssize(active.arrivals) < active.operation().group->size()) return;
  std::vector<Control> arrivals;
  for (auto& [index, control] : active.arrivals) arrivals.push_back(std::move(control));
  active.runs = true;
  ++moving_;
  changed_ = true;
  try {
    active.work->run(std::move(arrivals));
  } catch (const std::exception& error) {
    active.fail(error.what());
  }
}

void Collectives::peer_left(int rank, bool broken) {
  left_.insert(rank);
  for (Active& active : active_) {
    const int index = active.operation().group->index_of(rank);
    if (index < 0 || (active.arrivals.contains(index) && !broken)) continue;
    if (active.begun) active.fail("waits for " + rank_text(rank) + ", which has left");
  }
  changed_ = true;
}

bool Collectives::advance(Clock::time_point now) {
  bool any = false;
  if (changed_) {
    changed_ = false;
    for (auto place = active_.begin(); place != active_.end(); ++place) {
      if (place->begun || place->has_failed() || !may_begin(place)) continue;
      try {
        begin(*place);
      } catch (const std::exception& error) {
        place->fail(error.what());
      }
    }
  }
  for (auto place = active_.begin(); place != active_.end();) {
    Active& active = *place;
    if (!active.ticket()->fault.empty()) active.fail(active.ticket()->fault);
    const bool is_complete = active.runs && !active.has_failed() && active.work->is_complete();
    if (!is_complete) check_time(active, now);
    if (!is_complete && !active.has_stopped(now)) {
      ++place;
      continue;
    }
    if (active.runs) --moving_;
    finish_(active.pointer(), active.fault());
    place = active_.erase(place);
    changed_ = any = true;
  }
  return any;
}

void Collectives::check_time(Active& active, Clock::time_point now) {
  if (!active.begun || active.has_failed()) return;
  if (!active.runs) {
    for (const int member : active.operation().group->ranks) {
      if (!left_.contains(member) || active.arrivals.contains(active.operation().group->index_of(member))) continue;
      return active.fail("waits for " + rank_text(member) + ", which has left");
    }
  }
  if (now - active.since >= timeout_)
    active.fail("waited " + seconds_text(timeout_) + " for " + describe_missing(active));
}

std::string Collectives::describe_missing(const Active& active) const {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  const communicators::Group& group = *active.operation().group;
  if (active.runs) {
    for (const auto& [peer, transfers] : active.ticket()->in_flight)
      add(rank_text(peer) + ", whose data does not move");
    return text;
  }
  for (int i = 0; i < group.size(); ++i) {
    if (active.arrivals.contains(i)) continue;
    const int member = group.ranks[static_cast<std::size_t>(i)];
    const std::string place = awaited_by(member);
    add(rank_text(member) + (place.empty() ? ", which has not come" : ", which waits in " + place));
  }
  return text;
}

std::string Collectives::awaited_by(int rank) const {
  for (const auto& [key, arrivals] : early_) {
    for (const auto& [from, control] : arrivals) {
      if (from == rank) return describe_call(from, control);
    }
  }
  return {};
}

void Collectives::fail_all(const FaultOf& fault) {
  for (Active& active : active_) active.fail(fault(active.operation()));
}

void Collectives::abandon_all(const FaultOf& fault) {
  for (Active& active : active_) finish_(active.pointer(), active.abandon(fault(active.operation())));
  active_.clear();
}

}  // namespace strata::mpi

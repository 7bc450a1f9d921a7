#include "shared_state.hpp"

#include <algorithm>
#include <sstream>

namespace strata::local {

Meeting::Meeting(std::shared_ptr<const Group> members)
    : group(std::move(members)),
      seats(static_cast<std::size_t>(group->size())),
      arrived(static_cast<std::size_t>(group->size()), 0) {}

bool Meeting::all_at(int stage) const {
  return std::all_of(arrived.begin(), arrived.end(), [stage](int reached) { return reached >= stage; });
}

SharedState::SharedState(int rank_count, std::chrono::duration<double> timeout) : timeout_(timeout) {
  for (int i = 0; i < rank_count; ++i) ranks_.push_back(std::make_unique<RankState>());
}

Clock::time_point SharedState::deadline() const {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout_);
}

std::string SharedState::timeout_text() const {
  std::ostringstream text;
  text << timeout_.count() << " s";
  return text.str();
}

std::shared_ptr<const Group> SharedState::group(const std::vector<int>& ranks) {
  std::shared_ptr<const Group>& group = groups_[ranks];
  if (!group) group = std::make_shared<const Group>(Group{static_cast<int>(groups_.size()), ranks});
  return group;
}

std::shared_ptr<Meeting> SharedState::arrive(const OperationPointer& operation) {
  std::shared_ptr<Meeting>& place = meetings_[{operation->group->number, operation->call.id}];
  if (!place) place = std::make_shared<Meeting>(operation->group);
  const std::shared_ptr<Meeting> meeting = place;
  const auto index = static_cast<std::size_t>(operation->group->index_of(operation->rank));
  for (const OperationPointer& other : meeting->seats) {
    if (!other || agree(other->call, operation->call)) continue;
    fail(*meeting, "ranks " + std::to_string(other->rank) + " and " + std::to_string(operation->rank) +
                       " do not mean the same: " + describe_contents(other->call) + " (" + describe(*other) +
                       ") against " + describe_contents(operation->call) + " (" + describe(*operation) + ")");
    return meeting;
  }
  meeting->seats[index] = operation;
  meeting->arrived[index] = 1;
  if (meeting->all_at(1)) wake_members(*meeting);
  return meeting;
}

void SharedState::advance(Meeting& meeting, int index, int last_stage) {
  const int stage = ++meeting.arrived[static_cast<std::size_t>(index)];
  if (!meeting.all_at(stage)) return;
  if (stage == last_stage && meeting.fault.empty()) {
    meetings_.erase({meeting.group->number, meeting.seats.front()->call.id});
  }
  wake_members(meeting);
}

void SharedState::fail(Meeting& meeting, const std::string& fault) {
  if (meeting.fault.empty()) meeting.fault = fault;
  wake_members(meeting);
}

void SharedState::wake_members(const Meeting& meeting) {
  for (const int member : meeting.group->ranks) rank(member).worker_changed.notify_all();
}

void SharedState::post(const OperationPointer& send) {
  sends_[{send->rank, send->message.peer, send->message.id}].push_back(send);
  rank(send->message.peer).worker_changed.notify_all();
}

OperationPointer SharedState::take(const Operation& receive) {
  const auto found = sends_.find({receive.message.peer, receive.rank, receive.message.id});
  if (found == sends_.end()) return nullptr;
  OperationPointer send = found->second.front();
  found->second.pop_front();
  if (found->second.empty()) sends_.erase(found);
  send->taken = true;
  ++rank(send->rank).readers;
  return send;
}

void SharedState::withdraw(int rank, const Operation* only) {
  for (auto place = sends_.begin(); place != sends_.end();) {
    auto& [key, waiting] = *place;
    if (std::get<0>(key) == rank) {
      std::erase_if(waiting, [&](const OperationPointer& send) { return only == nullptr || send.get() == only; });
    }
    place = waiting.empty() ? sends_.erase(place) : std::next(place);
  }
}

void SharedState::finish(const OperationPointer& operation, std::optional<Fault> fault) {
  if (operation->done) return;
  operation->done = true;
  operation->fault = std::move(fault);
  RankState& owner = rank(operation->rank);
  if (operation->taken) {
    operation->taken = false;
    --owner.readers;
    owner.worker_changed.notify_all();
  }
  owner.request_changed.notify_all();
}

void SharedState::abort(const std::string& reason) {
  if (!abort_reason_) abort_reason_ = reason;
  for (const auto& rank : ranks_) {
    rank->worker_changed.notify_all();
    rank->request_changed.notify_all();
  }
}

Fault SharedState::aborted(const Operation& operation) const {
  return {fault_text(operation, "stopped because a rank failed: " + abort_reason_.value_or("")), true};
}

std::string SharedState::describe_rank(int rank) const {
  const RankState& state = *ranks_[static_cast<std::size_t>(rank)];
  std::vector<std::string> places;
  if (state.left) return "rank " + std::to_string(rank) + ", which has left";
  if (!state.connected) return "rank " + std::to_string(rank) + ", which has not connected";
  if (state.collective) places.push_back("waits in " + describe(*state.collective));
  for (const OperationPointer& receive : state.receives) places.push_back("waits in " + describe(*receive));
  if (state.awaited_send) places.push_back("waits in " + describe(*state.awaited_send));
  if (places.empty()) places.emplace_back("waits in no communication");
  return "rank " + std::to_string(rank) + ", which " + join(places, " and ");
}

std::string SharedState::find_dead_end(const Operation& operation, const Meeting& meeting, int stage) {
  for (std::size_t i = 0; i < meeting.arrived.size(); ++i) {
    if (meeting.arrived[i] >= stage) continue;
    const int peer = meeting.group->ranks[i];
    RankState& state = rank(peer);
    if (state.left) return "waits for " + describe_rank(peer);
    // Collectives run in order, so a peer that waits for this rank in another collective will never arrive here.
    if (!state.meeting || state.meeting.get() == &meeting) continue;
    const int here = state.meeting->group->index_of(operation.rank);
    if (here < 0 || state.meeting->arrived[static_cast<std::size_t>(here)] > 0) continue;
    const std::string text = "rank " + std::to_string(operation.rank) + " is in " + describe(operation) +
                             " and waits for " + describe_rank(peer) + " and waits there for rank " +
                             std::to_string(operation.rank) + ": the ranks communicate in different orders";
    fail(*state.meeting, text);
    return text;
  }
  return {};
}

}  // namespace strata::local

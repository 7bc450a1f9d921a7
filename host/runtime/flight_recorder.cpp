#include "runtime/flight_recorder.hpp"

#include <unistd.h>

#include <algorithm>

#include "files/host_name.hpp"
#include "files/text_format.hpp"
#include "strata/error.hpp"

namespace strata::host {

FlightRecorder::FlightRecorder(int rank, int rank_count)
    : record_{.rank = rank, .rank_count = rank_count, .host = own_host_name(), .process = ::getpid()} {
  for (Entry& entry : entries_) entry.noted.name.reserve(kNameBytes);
}

bool FlightRecorder::accept(bool is_move) {
  if (!failed_ && is_move) ++moves_;
  return !failed_;
}

void FlightRecorder::begin(Activity activity, std::uint64_t step) {
  const std::lock_guard lock(mutex_);
  // An activity that begins again, such as every wait for the same checkpoint, is no progress.
  if (!accept(activity != record_.activity || step != record_.step)) return;
  has_moved_on_ = has_moved_on_ || activity != record_.activity || step != record_.step;
  record_.activity = activity;
  record_.step = step;
  place_.program = nullptr;
  record_.ends_step = false;
}

void FlightRecorder::begin_run() {
  const std::lock_guard lock(mutex_);
  if (!accept()) return;
  ++record_.run;
}

void FlightRecorder::begin(const Program& program, const TaskInstance& at, std::size_t index, std::size_t count) {
  const std::lock_guard lock(mutex_);
  if (!accept()) return;
  place_ = {&program, at, index, count};
  has_moved_on_ = true;
}

void FlightRecorder::begin_end() {
  const std::lock_guard lock(mutex_);
  if (!accept()) return;
  place_.program = nullptr;
  record_.ends_step = true;
}

void FlightRecorder::end_run() {
  const std::lock_guard lock(mutex_);
  if (accept()) record_.ends_step = false;
}

void FlightRecorder::add_group(int number, const std::vector<int>& ranks) {
  const std::lock_guard lock(mutex_);
  if (!accept() || number < 0) return;
  const auto at = static_cast<std::size_t>(number);
  if (groups_.size() <= at) groups_.resize(at + 1);
  if (groups_[at].ranks == ranks) return;
  const auto same = std::ranges::count(groups_, ranks, &Group::ranks);
  groups_[at] = {ranks, static_cast<int>(same), 0};
}

std::uint64_t& FlightRecorder::messages(const Issue& issue) {
  const auto peer = static_cast<std::size_t>(std::max(issue.peer, 0));
  if (messages_.size() <= peer) messages_.resize(peer + 1);
  return issue.kind == "send" ? messages_[peer].first : messages_[peer].second;
}

bool FlightRecorder::repeats(const Entry& last, const Issue& issue) const {
  return issued_ > 0 && !has_moved_on_ && issue.group >= 0 && last.group == issue.group &&
         last.noted.state == CommunicationState::complete && last.noted.kind == issue.kind &&
         last.noted.bytes == issue.bytes && issue.name != nullptr && *issue.name == last.noted.name;
}

std::uint64_t FlightRecorder::issue(const Issue& issue) {
  const std::lock_guard lock(mutex_);
  Entry* entry = &entries_[issued_ % kCommunications];
  const bool is_repeated = repeats(*entry, issue);
  // Ranks that ask each other again and again, such as whether a file is written, do not get on.
  if (!accept(!is_repeated)) return 0;
  if (!is_repeated) entry = &entries_[++issued_ % kCommunications];
  RecordedCommunication& noted = entry->noted;
  if (!is_repeated) {
    noted.number = issued_;
    noted.kind = issue.kind;
    noted.name.clear();
    if (issue.name != nullptr) noted.name.assign(*issue.name, 0, kNameBytes);
    noted.bytes = issue.bytes;
    noted.ordinal = 0;
    noted.repeats = 0;
    entry->group = issue.group;
    entry->peer = issue.peer;
  }
  ++noted.repeats;
  noted.id = issue.id;
  noted.run = record_.run;
  noted.step = record_.step;
  noted.micro_batch = place_.program == nullptr ? -1 : place_.at.micro_batch;
  const bool has_group = issue.group >= 0 && static_cast<std::size_t>(issue.group) < groups_.size();
  if (has_group) noted.ordinal = ++groups_[static_cast<std::size_t>(issue.group)].collectives;
  if (issue.peer >= 0) noted.ordinal = ++messages(issue);
  noted.state = CommunicationState::issued;
  entry->issued = Clock::now();
  entry->ended = {};
  has_moved_on_ = false;
  return noted.number;
}

FlightRecorder::Entry* FlightRecorder::find(std::uint64_t communication) {
  Entry& entry = entries_[communication % kCommunications];
  return communication > 0 && entry.noted.number == communication ? &entry : nullptr;
}

void FlightRecorder::begin_wait(std::uint64_t communication) {
  const std::lock_guard lock(mutex_);
  const Entry* entry = find(communication);
  if (!accept(entry == nullptr || entry->noted.repeats == 1)) return;
  record_.awaited = communication;
}

void FlightRecorder::end_wait(std::uint64_t communication, CommunicationState state) {
  const std::lock_guard lock(mutex_);
  Entry* entry = find(communication);
  // A rank that failed while it waited has not got on, and keeps what it waited for.
  const bool failed = state == CommunicationState::failed;
  if (!accept(!failed && (entry == nullptr || entry->noted.repeats == 1))) return;
  if (!failed) record_.awaited.reset();
  if (entry == nullptr) return;
  entry->noted.state = state;
  entry->ended = Clock::now();
}

void FlightRecorder::complete_enqueued() {
  const std::lock_guard lock(mutex_);
  if (!accept(false)) return;
  for (Entry& entry : entries_) {
    if (entry.noted.state != CommunicationState::enqueued) continue;
    entry.noted.state = CommunicationState::complete;
    entry.ended = Clock::now();
  }
}

void FlightRecorder::fail(const std::string& error, bool is_echo) {
  const std::lock_guard lock(mutex_);
  if (failed_) return;
  failed_ = true;
  record_.error = error;
  record_.is_echo = is_echo;
}

void FlightRecorder::fail_with_current_exception() {
  try {
    throw;
  } catch (const AbortedError& error) {
    fail(error.what(), true);
  } catch (...) {
    fail(current_exception_text(), false);
  }
}

FlightRecorder::Movement FlightRecorder::movement() const {
  const std::lock_guard lock(mutex_);
  return {moves_, failed_ || record_.activity == Activity::ended, record_.activity};
}

void FlightRecorder::observe(double now) {
  const std::lock_guard lock(mutex_);
  if (observed_moves_ != moves_ || observed_at_ == 0) moved_at_ = now;
  observed_moves_ = moves_;
  observed_at_ = now;
}

RecordedInstruction FlightRecorder::read_instruction() const {
  const Task& task = place_.program->tasks.at(static_cast<std::size_t>(place_.at.task));
  const Instruction& instruction = task.instructions.at(place_.index);
  return {.task = task.name,
          .phase = std::string(to_string(task.kind)),
          .micro_batch = place_.at.micro_batch,
          .index = place_.index,
          .kind = std::string(kind_name(instruction)),
          .work = work_name(instruction),
          .name = instruction.name,
          .count = place_.count};
}

RecordedCommunication FlightRecorder::read(const Entry& entry, double now) const {
  const Clock::time_point steady = Clock::now();
  const auto unix_time = [&](Clock::time_point at) { return now - std::chrono::duration<double>(steady - at).count(); };
  RecordedCommunication result = entry.noted;
  result.issued_at = unix_time(entry.issued);
  if (entry.ended != Clock::time_point{}) result.completed_at = unix_time(entry.ended);
  if (entry.peer >= 0) result.ranks = {entry.peer};
  if (entry.group >= 0 && static_cast<std::size_t>(entry.group) < groups_.size()) {
    result.ranks = groups_[static_cast<std::size_t>(entry.group)].ranks;
    result.group = groups_[static_cast<std::size_t>(entry.group)].index;
  }
  return result;
}

FlightRecord FlightRecorder::read() const {
  const std::lock_guard lock(mutex_);
  FlightRecord record = record_;
  record.time = seconds_since_1970();
  if (place_.program != nullptr) record.instruction = read_instruction();
  if (observed_moves_ == moves_) record.seconds = observed_at_ - moved_at_;
  const std::uint64_t first = issued_ < kCommunications ? 1 : issued_ - kCommunications + 1;
  for (std::uint64_t number = first; number <= issued_; ++number) {
    record.communications.push_back(read(entries_[number % kCommunications], record.time));
  }
  return record;
}

FlightRecorders::FlightRecorders(const World& world) {
  for (const int rank : world.local_ranks()) {
    all_.emplace_back(rank, std::make_unique<FlightRecorder>(rank, world.rank_count()));
  }
  std::ranges::sort(all_, [](const auto& a, const auto& b) { return a.first < b.first; });
}

FlightRecorder& FlightRecorders::of(int rank) const {
  const auto found = std::ranges::find_if(all_, [&](const auto& each) { return each.first == rank; });
  if (found == all_.end()) throw VerificationError("rank " + std::to_string(rank) + " has no recorder");
  return *found->second;
}

}  // namespace strata::host

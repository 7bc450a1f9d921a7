#include <algorithm>
#include <exception>
#include <sstream>
#include <thread>
#include <utility>

#include "collectives/collective.hpp"
#include "strata/error.hpp"

namespace strata::communicators {
namespace {

/// Time between two looks at the notices of other ranks.
constexpr std::chrono::milliseconds kPause{20};
/// A lost connection usually follows from another rank's failure, which becomes known within this time.
constexpr std::chrono::seconds kTimeForTheCause{3};
/// The last messages of a rank that has left arrive within this time.
constexpr std::chrono::milliseconds kTimeForTheLast{200};

/// The run has ended. The endpoint knows why.
struct Stopped {};

}  // namespace

Slot mix(Slot slot, std::uint64_t value) {
  // The finalizer of SplitMix64. The factor makes mix(1, 2) another slot than mix(2, 1).
  std::uint64_t mixed = (slot + 1) * 0x9e3779b97f4a7c15U + value;
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31U);
}

Clock::time_point Endpoint::deadline() const {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout_);
}

void Endpoint::perform(const TransportOperation& operation, const std::function<void()>& work) {
  std::string why;
  try {
    look();
    require_hope(operation);
    return work();
  } catch (const Stopped&) {
    check(&operation);
  } catch (const Late& late) {
    why = describe_missing({late.peer}, "did not take part");
  } catch (const Lost& lost) {
    wait_for_the_cause();
    check(&operation);
    why = lost.reason;
  } catch (const std::exception& error) {
    why = error.what();
  }
  const std::string text = fault_text(operation, why);
  bool is_news = false;
  {
    const std::lock_guard lock(mutex_);
    is_news = !faults_.contains(operation.slot);
    if (!own_error_) own_error_ = text;
  }
  if (is_news) transport_->tell({Notice::Kind::fault, rank_, operation.slot, describe(operation), why});
  throw RuntimeError(text);
}

void Endpoint::await(const TransportOperation& operation, Transfer& transfer, int peer, Clock::time_point deadline) {
  const Clock::time_point concern = Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout_ / 2);
  bool has_told = false;
  while (!move(transfer, peer, std::min(deadline, Clock::now() + kPause))) {
    look();
    require_hope(operation);
    if (has_left(peer) && !move(transfer, peer, Clock::now() + kTimeForTheLast)) {
      throw RuntimeError("waits for rank " + std::to_string(peer) + ", which has left");
    }
    if (Clock::now() >= deadline) throw Late{peer};
    if (has_told || Clock::now() < concern) continue;
    transport_->tell({Notice::Kind::waiting, rank_, operation.slot, describe(operation)});
    has_told = true;
  }
}

void Endpoint::wait_for_the_cause() {
  const Clock::time_point end = Clock::now() + kTimeForTheCause;
  while (!has_ended() && Clock::now() < end) std::this_thread::sleep_for(kPause);
}

bool Endpoint::move(Transfer& transfer, int peer, Clock::time_point deadline) {
  try {
    return transfer.await(deadline);
  } catch (const Lost& lost) {
    wait_for_the_cause();
    if (has_ended()) throw Stopped();
    throw RuntimeError("the connection to rank " + std::to_string(peer) + " is lost: " + lost.reason);
  }
}

std::string Endpoint::describe_missing(const std::vector<int>& peers, const std::string& fault) {
  look();
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const int peer : peers) {
    const auto place = waiting_.find(peer);
    const std::string state = place == waiting_.end() ? fault : "waits in " + place->second;
    text += (text.empty() ? "rank " : "; rank ") + std::to_string(peer) + ", which " + state;
  }
  std::ostringstream seconds;
  seconds << timeout_.count();
  return "waited " + seconds.str() + " s for " + text;
}

void Endpoint::look() {
  const std::vector<Notice> notices = transport_->notices();
  const std::lock_guard lock(mutex_);
  for (const Notice& notice : notices) {
    switch (notice.kind) {
      case Notice::Kind::failure:
        if (!failure_) failure_ = notice;
        break;
      case Notice::Kind::fault:
        faults_.emplace(notice.slot, notice);
        break;
      case Notice::Kind::waiting:
        waiting_[notice.rank] = notice.operation;
        break;
      case Notice::Kind::leaving:
        left_.insert(notice.rank);
        break;
    }
  }
}

void Endpoint::require_hope(const TransportOperation& operation) {
  const std::lock_guard lock(mutex_);
  if (failure_) throw Stopped();
  // The rank's thread may be unwinding, and with it the memory of operations that it has not waited for.
  if (own_error_) throw RuntimeError("an earlier communication of this rank has failed: " + *own_error_);
  const auto fault = faults_.find(operation.slot);
  if (operation.kind == Operation::Kind::collective && fault != faults_.end()) {
    throw RuntimeError("rank " + std::to_string(fault->second.rank) + ": " + fault->second.operation + ": " +
                       fault->second.text);
  }
}

void Endpoint::abort(const std::string& reason) noexcept {
  const Notice failure{Notice::Kind::failure, rank_, 0, "", reason};
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = failure;
  }
  transport_->tell(failure);
}

void Endpoint::leave(bool is_unfinished) noexcept {
  Notice notice{Notice::Kind::leaving, rank_};
  if (is_unfinished) {
    notice.text = "this rank closed its communicator";
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = notice;
  }
  transport_->tell(notice);
}

bool Endpoint::has_ended() {
  look();
  const std::lock_guard lock(mutex_);
  return failure_.has_value();
}

bool Endpoint::has_left(int peer) {
  const std::lock_guard lock(mutex_);
  return left_.contains(peer);
}

void Endpoint::check(const TransportOperation* operation) {
  look();
  const std::lock_guard lock(mutex_);
  if (!failure_) return;
  if (own_error_ && failure_->rank == rank_) throw RuntimeError(*own_error_);
  const std::string why = "stopped because rank " + std::to_string(failure_->rank) + " failed: " + failure_->text;
  throw AbortedError(operation == nullptr ? "rank " + std::to_string(rank_) + ": " + why : fault_text(*operation, why));
}

}  // namespace strata::communicators

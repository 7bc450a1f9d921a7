#include "engine.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "strata/error.hpp"

namespace strata::mpi {
namespace {

/// Seconds after a failure in which peers that run have heard of it and left.
constexpr std::chrono::duration<double> kGrace{5};

}  // namespace

Engine::Engine(MPI_Comm control, MPI_Comm data, int rank, int rank_count, std::chrono::duration<double> timeout)
    : rank_(rank),
      rank_count_(rank_count),
      timeout_(timeout),
      fabric_(control, data, rank),
      collectives_(fabric_, timeout,
                   [this](const auto& each, auto fault) { finish_operation(each, std::move(fault)); }),
      messages_(fabric_, timeout, [this](const auto& each, auto fault) { finish_operation(each, std::move(fault)); }),
      thread_([this] { run(); }) {}

Engine::~Engine() { finish(); }

void Engine::open(Device& device) {
  const std::lock_guard lock(mutex_);
  fabric_.set_device(device);
}

void Engine::close() {
  std::unique_lock lock(mutex_);
  orders_.closes = true;
  ordered_.notify_one();
  ended_.wait(lock, [this] { return closed_; });
}

bool Engine::finish() {
  if (!thread_.joinable()) return complete_;
  {
    const std::lock_guard lock(mutex_);
    orders_.closes = orders_.finishes = true;
    ordered_.notify_one();
  }
  thread_.join();
  return complete_;
}

void Engine::hand_over(const OperationPointer& operation) {
  const std::lock_guard lock(mutex_);
  if (abort_reason_) {
    communicators::raise({fault_text(*operation, "stopped because a rank failed: " + *abort_reason_), true});
  }
  orders_.operations.push_back(operation);
  ordered_.notify_one();
}

void Engine::wait(Operation& operation) {
  std::unique_lock lock(mutex_);
  if (!operation.done) {
    operation.waited_since = Clock::now();
    ++waiting_;
    ordered_.notify_one();
    ended_.wait(lock, [&] { return operation.done; });
    --waiting_;
  }
  if (operation.fault) communicators::raise(*operation.fault);
}

void Engine::abort(const std::string& reason) noexcept {
  const std::lock_guard lock(mutex_);
  if (abort_reason_) return;
  abort_reason_ = reason;
  orders_.aborts = true;
  ordered_.notify_one();
}

void Engine::run() {
  try {
    Pause pause;
    while (round(pause)) {
      // Nothing here.
    }
  } catch (const std::exception& error) {
    fail_at_once(std::string("MPI failed: ") + error.what());
  }
}

Engine::Orders Engine::take_orders() {
  const std::lock_guard lock(mutex_);
  return std::exchange(orders_, Orders{.operations = {}, .closes = orders_.closes, .finishes = orders_.finishes});
}

bool Engine::round(Pause& pause) {
  const Orders orders = take_orders();
  execute(orders);
  bool progressed = fabric_.mail.progress([this](int from, Control control) { receive(from, std::move(control)); });
  progressed |= fabric_.transfers.progress();
  // Peers may send what a stopped operation does not receive any more. Their sends end once the data is taken.
  if (stopped_by_ || has_left_) progressed |= fabric_.transfers.drop_message();
  const Clock::time_point now = Clock::now();
  progressed |= collectives_.advance(now);
  progressed |= messages_.advance(now);
  if (orders.closes && !has_left_) leave();
  if (has_left_ && collectives_.idle() && messages_.idle()) {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ended_.notify_all();
    if (!is_done_ && fabric_.transfers.idle()) {
      is_done_ = true;
      broadcast({.kind = ControlKind::done});
    }
  }
  if (orders.finishes && may_end(now)) return false;
  rest(pause, progressed);
  return true;
}

void Engine::execute(const Orders& orders) {
  if (orders.aborts && !stopped_by_) {
    std::string reason;
    {
      const std::lock_guard lock(mutex_);
      reason = *abort_reason_;
    }
    stop(reason);
    broadcast({.kind = ControlKind::abort, .text = reason});
  }
  for (const OperationPointer& operation : orders.operations) {
    if (stopped_by_ || has_left_) {
      finish_operation(operation, fault_of_all()(*operation));
    } else if (operation->kind == Operation::Kind::collective) {
      collectives_.add(operation);
    } else {
      messages_.add(operation);
    }
  }
}

void Engine::receive(int from, Control control) {
  switch (control.kind) {
    case ControlKind::arrival:
      return collectives_.arrived(from, std::move(control));
    case ControlKind::announcement:
      return messages_.announced(from, std::move(control));
    case ControlKind::grant:
      return messages_.granted(control);
    case ControlKind::refusal:
      return messages_.refused(control);
    case ControlKind::abort:
      return stop(control.text);
    case ControlKind::leave:
      broken_ |= control.broken;
      if (!control.text.empty()) stop(control.text);
      collectives_.peer_left(from, control.broken);
      return messages_.peer_left(from, control.broken);
    case ControlKind::done:
      done_peers_.insert(from);
      return;
  }
}

void Engine::broadcast(const Control& control) {
  for (int peer = 0; peer < rank_count_; ++peer) {
    if (peer != rank_) fabric_.mail.send(peer, control);
  }
}

void Engine::stop(const std::string& reason) {
  if (stopped_by_) return;
  stopped_by_ = reason;
  broken_ = true;
  {
    const std::lock_guard lock(mutex_);
    if (!abort_reason_) abort_reason_ = reason;
  }
  collectives_.fail_all(fault_of_all());
  messages_.fail_all(fault_of_all());
}

void Engine::leave() {
  has_left_ = true;
  const bool unfinished = !collectives_.idle() || !messages_.idle();
  broken_ |= unfinished;
  collectives_.fail_all(fault_of_all());
  messages_.fail_all(fault_of_all());
  broadcast({.kind = ControlKind::leave, .broken = unfinished, .text = stopped_by_.value_or("")});
}

FaultOf Engine::fault_of_all() const {
  return [reason = stopped_by_](const Operation& operation) -> Fault {
    if (!reason) return {fault_text(operation, "this rank closed its communicator"), false};
    return {fault_text(operation, "stopped because a rank failed: " + *reason), true};
  };
}

bool Engine::may_end(Clock::time_point now) {
  if (!finishing_since_) finishing_since_ = now;
  const bool all_done = is_done_ && static_cast<int>(done_peers_.size()) == rank_count_ - 1;
  if (all_done && fabric_.mail.idle() && fabric_.transfers.idle()) {
    fabric_.mail.close();
    complete_ = true;
    return true;
  }
  return now - *finishing_since_ >= (broken_ ? std::min(kGrace, timeout_) : timeout_);
}

void Engine::rest(Pause& pause, bool progressed) {
  std::unique_lock lock(mutex_);
  if (!orders_.operations.empty() || orders_.aborts || (orders_.closes && !has_left_)) return;
  Urgency urgency = Urgency::none;
  if (!collectives_.idle() || !messages_.idle() || has_left_) urgency = Urgency::some;
  if (waiting_ > 0 || collectives_.moves_data() || fabric_.transfers.sends() > 0) urgency = Urgency::highest;
  pause.between_rounds(lock, ordered_, progressed, urgency);
}

void Engine::finish_operation(const OperationPointer& operation, std::optional<Fault> fault) {
  {
    const std::lock_guard lock(mutex_);
    operation->fault = std::move(fault);
    operation->done = true;
  }
  ended_.notify_all();
}

void Engine::fail_at_once(const std::string& why) {
  stopped_by_ = why;
  std::vector<OperationPointer> rest;
  {
    const std::lock_guard lock(mutex_);
    if (!abort_reason_) abort_reason_ = why;
    rest = std::move(orders_.operations);
    closed_ = true;
  }
  const FaultOf fault = [&why](const Operation& operation) { return Fault{fault_text(operation, why), false}; };
  collectives_.abandon_all(fault);
  messages_.abandon_all(fault);
  for (const OperationPointer& operation : rest) finish_operation(operation, fault(*operation));
  ended_.notify_all();
}

}  // namespace strata::mpi

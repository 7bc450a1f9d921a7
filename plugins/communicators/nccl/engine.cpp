#include "engine.hpp"

#include <algorithm>
#include <sstream>
#include <system_error>

#include "strata/communicator.hpp"
#include "strata/error.hpp"

namespace strata::nccl {

using rendezvous::Clock;

namespace {

/// How long to wait for a GPU to become quiet after a fault, and for communicators to end.
constexpr std::chrono::seconds kPatience{30};
constexpr std::chrono::microseconds kDrainPause{200};
/// Setting up goes on in NCCL's own threads, mostly within microseconds; with other ranks it may take long.
constexpr int kEagerPolls = 200;
constexpr std::chrono::microseconds kLaunchingPause{50};
constexpr int kPatientPolls = 5000;
constexpr std::chrono::milliseconds kRunningPause{2};
/// Failures of other ranks are looked for as often, if nothing else happens.
constexpr std::chrono::milliseconds kIdlePause{100};

}  // namespace

Engine::Engine(Backend backend, std::shared_ptr<rendezvous::Store> store, int rank, int device, double timeout)
    : backend_(std::move(backend)),
      store_(std::move(store)),
      rank_(rank),
      device_(device),
      timeout_(timeout),
      events_(std::make_shared<EventPool>(backend_.gpu)),
      thread_([this] { run(); }) {}

Engine::~Engine() {
  {
    const Lock lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

std::shared_ptr<Link> Engine::link(const std::string& key, const std::vector<int>& ranks) {
  const Lock lock(mutex_);
  std::shared_ptr<Link>& link = links_by_key_[key];
  if (!link) {
    link = std::make_shared<Link>(backend_.nccl, store_, ranks, rank_, key);
    new_links_.push_back(link);
    changed_.notify_all();
  }
  return link;
}

void Engine::hand_over(const Operations& operations) {
  Lock lock(mutex_);
  if (fault_) raise(lock, operations.empty() ? nullptr : operations.front().second.get());
  new_operations_.insert(new_operations_.end(), operations.begin(), operations.end());
  changed_.notify_all();
}

void Engine::watch_graph(const Operations& operations, EventPointer end) {
  graph_end_ = std::move(end);
  hand_over(operations);
}

void Engine::await_launch(const Operation& operation) {
  Lock lock(mutex_);
  const auto over = [&] { return operation.launched || fault_.has_value(); };
  if (operation.link) {
    changed_.wait(lock, over);
  } else if (!changed_.wait_for(lock, timeout_, over)) {
    std::ostringstream why;
    why << "waited " << timeout_.count() << " s for its other end, on this rank too";
    throw RuntimeError(fault_text(operation, why.str()));
  }
  if (fault_) raise(lock, &operation);
}

void Engine::check() {
  Lock lock(mutex_);
  if (fault_) raise(lock, nullptr);
}

void Engine::abort(const std::string& reason) noexcept {
  set_fault({reason, true});
  store_->fail(rank_, reason);
}

void Engine::raise(Lock& lock, const Operation* operation) {
  changed_.wait(lock, [this] { return quiet_; });
  // The fault stays what it is.
  lock.unlock();
  await_graph();
  const std::string place = operation != nullptr ? fault_text(*operation, "") : "rank " + std::to_string(rank_) + ": ";
  if (fault_->aborted) throw AbortedError(place + "stopped because a rank failed: " + fault_->text);
  // The communication that failed says so itself; others stop because of it.
  throw RuntimeError(fault_->text.starts_with(place) ? fault_->text : place + "stopped: " + fault_->text);
}

void Engine::await_graph() const noexcept {
  const Clock::time_point deadline = Clock::now() + kPatience;
  try {
    while (graph_end_ && !backend_.gpu->is_reached(graph_end_.get()) && Clock::now() < deadline) {
      std::this_thread::sleep_for(kDrainPause);
    }
  } catch (const std::exception&) {
    // A GPU that has failed runs nothing.
  }
}

void Engine::set_fault(Fault fault) noexcept {
  const Lock lock(mutex_);
  if (!fault_) fault_ = std::move(fault);
  changed_.notify_all();
}

void Engine::run() {
  try {
    backend_.gpu->use_device(device_);
    progress();
  } catch (const std::exception& error) {
    set_fault({error.what(), false});
    store_->fail(rank_, error.what());
  }
  Lock lock(mutex_);
  if (fault_) {
    lock.unlock();
    stop_everything();
    lock.lock();
    quiet_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return closing_; });
  }
  lock.unlock();
  aborts_.clear();
  const Clock::time_point deadline = Clock::now() + kPatience;
  for (const auto& link : links_) link->close(deadline);
  lanes_.clear();
}

void Engine::progress() {
  Lock lock(mutex_);
  while (take_work(lock)) {
    lock.unlock();
    if (const auto failure = store_->failure()) {
      set_fault({failure->reason, true});
    } else {
      last_activity_ = advance();
    }
    lock.lock();
    pause(lock, last_activity_);
  }
}

bool Engine::take_work(Lock&) {
  if (fault_) return false;
  const bool has_new = !new_operations_.empty();
  if (has_new) polls_ = 0;
  links_.insert(links_.end(), new_links_.begin(), new_links_.end());
  new_links_.clear();
  for (auto& [key, operation] : new_operations_) {
    if (operation->captured) captured_links_.insert(operation->link.get());
    lane(key).push(std::move(operation));
  }
  new_operations_.clear();
  // What was handed over is carried out first.
  return !closing_ || has_new ||
         !std::all_of(lanes_.begin(), lanes_.end(), [](const auto& entry) { return entry.second->is_empty(); });
}

Activity Engine::advance() {
  Activity activity = Activity::idle;
  for (const auto& link : links_) {
    if (!link->advance()) activity = Activity::launching;
  }
  for (const auto& [key, lane] : lanes_) activity = std::max(activity, lane->advance());
  return activity;
}

void Engine::pause(Lock& lock, Activity activity) {
  if (fault_ || !new_operations_.empty() || !new_links_.empty()) return;
  if (closing_ && activity == Activity::idle) return;
  if (activity != Activity::launching) polls_ = 0;
  if (activity == Activity::launching && ++polls_ < kEagerPolls) {
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  } else if (activity == Activity::launching && polls_ < kPatientPolls) {
    changed_.wait_for(lock, kLaunchingPause);
  } else {
    const std::chrono::milliseconds longest = activity == Activity::idle ? kIdlePause : kRunningPause;
    changed_.wait_for(lock, longest);
  }
}

Lane& Engine::lane(const LaneKey& key) {
  std::unique_ptr<Lane>& lane = lanes_[key];
  if (!lane) {
    lane = std::make_unique<Lane>(backend_, events_, timeout_, [this](const OperationPointer& operation) {
      const Lock lock(mutex_);
      operation->launched = true;
      changed_.notify_all();
    });
  }
  return *lane;
}

void Engine::stop_everything() {
  const Clock::time_point deadline = Clock::now() + kPatience;
  abort_links(deadline);
  const auto drained = [this] {
    bool all = true;
    for (const auto& [key, lane] : lanes_) all = lane->drain() && all;
    return all;
  };
  while (!drained() && Clock::now() < deadline) std::this_thread::sleep_for(kDrainPause);
}

/// Side by side, since NCCL frees memory then, and so waits for the kernels of other communicators. It returns when
/// nothing is being put on a stream any more; where graphs hold calls, not before they are destroyed.
void Engine::abort_links(Clock::time_point deadline) {
  const auto abort = [this](Link& link) {
    try {
      backend_.gpu->use_device(device_);
    } catch (const std::exception&) {
      // It is the GPU that has failed.
    }
    link.abort();
  };
  std::vector<std::future<void>*> awaited;
  aborts_.reserve(links_.size());
  for (const auto& link : links_) {
    const bool in_graphs = captured_links_.contains(link.get());
    try {
      aborts_.push_back(std::async(std::launch::async, [abort, link] { abort(*link); }));
      if (!in_graphs) awaited.push_back(&aborts_.back());
    } catch (const std::system_error&) {  // no more threads
      if (!in_graphs) abort(*link);
    }
  }
  for (const std::future<void>* each : awaited) each->wait_until(deadline);
}

}  // namespace strata::nccl

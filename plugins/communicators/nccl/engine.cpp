#include <algorithm>
#include <sstream>
#include <system_error>

#include "collectives/operation.hpp"
#include "communicator.hpp"
#include "strata/communicator.hpp"
#include "strata/error.hpp"

namespace strata::nccl {

using rendezvous::Clock;

namespace {

/// Limit for waiting until a GPU has stopped after a failure, and until communicators end.
constexpr std::chrono::seconds kPatience{30};
constexpr std::chrono::microseconds kDrainPause{200};
/// NCCL sets up communication in its own threads. Mostly that takes microseconds, but with other ranks it may take
/// long. So the first polls follow each other closely, and later ones less so.
constexpr int kEagerPolls = 200;
constexpr std::chrono::microseconds kLaunchingPause{50};
constexpr int kPatientPolls = 5000;
constexpr std::chrono::milliseconds kRunningPause{2};
/// Interval for checking for failures of other ranks when the engine is idle.
constexpr std::chrono::milliseconds kIdlePause{100};

}  // namespace

Engine::Engine(Backend backend, std::shared_ptr<rendezvous::Store> store, int rank, int device, double timeout)
    : backend_(std::move(backend)),
      store_(std::move(store)),
      rank_(rank),
      device_(device),
      timeout_(timeout),
      events_(std::make_shared<EventPool>(backend_.gpu)),
      collectives_(make_queue()),
      graphs_(backend_.gpu, timeout_),
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
  }
  return link;
}

void Engine::make_links(const std::vector<std::shared_ptr<Link>>& links, int blocks) {
  Lock lock(mutex_);
  new_blocks_ = blocks;
  unmade_links_ = links;
  has_news_ = true;
  changed_.notify_all();
  const bool are_made = changed_.wait_for(lock, timeout_, [&] { return unmade_links_.empty() || fault_.has_value(); });
  if (fault_) raise(lock, nullptr);
  if (are_made) return;
  std::ostringstream why;
  why << "rank " << rank_ << ": waited " << timeout_.count() << " s for a connection of ranks "
      << communicators::rank_list(unmade_links_.front()->ranks());
  throw RuntimeError(why.str());
}

void Engine::hand_over(const Operations& operations) {
  Lock lock(mutex_);
  if (fault_) raise(lock, operations.empty() ? nullptr : operations.front().get());
  new_operations_.insert(new_operations_.end(), operations.begin(), operations.end());
  has_news_ = true;
  changed_.notify_all();
}

void Engine::watch_graph(std::shared_ptr<const Operations> operations, EventPointer end) {
  graph_end_ = end;
  Lock lock(mutex_);
  if (fault_) raise(lock, operations->empty() ? nullptr : operations->front().get());
  new_launches_.push_back({std::move(operations), std::move(end)});
  has_news_ = true;
  changed_.notify_all();
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
  // The fault does not change any more, so it can be read without the lock.
  lock.unlock();
  await_graph();
  const std::string place = operation != nullptr ? fault_text(*operation, "") : "rank " + std::to_string(rank_) + ": ";
  if (fault_->aborted) throw AbortedError(place + "stopped because a rank failed: " + fault_->text);
  // The communication that failed reports its own error. Others report that they stopped because of it.
  throw RuntimeError(fault_->text.starts_with(place) ? fault_->text : place + "stopped: " + fault_->text);
}

void Engine::await_graph() const noexcept {
  const Clock::time_point deadline = Clock::now() + kPatience;
  try {
    while (graph_end_ && !backend_.gpu->is_reached(graph_end_.get()) && Clock::now() < deadline) {
      std::this_thread::sleep_for(kDrainPause);
    }
  } catch (...) {
    // A failed GPU executes nothing, so there is nothing to wait for.
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
  } catch (...) {
    const std::string reason = current_exception_text();
    set_fault({reason, false});
    store_->fail(rank_, reason);
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
  // Start to end all links before any is awaited. Ranks that ended theirs one by one would wait for each other if their
  // orders differed.
  for (const auto& link : links_) link->begin_close();
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
  const bool has_new = has_news_;
  if (has_new) polls_ = 0;
  has_news_ = false;
  links_.insert(links_.end(), new_links_.begin(), new_links_.end());
  new_links_.clear();
  for (OperationPointer& operation : new_operations_) {
    if (operation->captured) captured_links_.insert(operation->link.get());
    Lane& its_lane = lane(operation->link.get());
    queue(*operation).push(its_lane, std::move(operation));
  }
  new_operations_.clear();
  for (GraphLaunch& launch : new_launches_) graphs_.launched(std::move(launch.operations), std::move(launch.end));
  new_launches_.clear();
  // Before stopping, finish the operations that were passed.
  return !closing_ || has_new || !is_idle();
}

bool Engine::is_idle() const {
  const auto is_empty = [](const auto& entry) { return entry.second->is_empty(); };
  return collectives_->is_empty() && graphs_.is_empty() && std::all_of(messages_.begin(), messages_.end(), is_empty) &&
         std::all_of(lanes_.begin(), lanes_.end(), is_empty);
}

Activity Engine::advance() {
  Activity activity = advance_links();
  activity = std::max(activity, collectives_->advance(blocks_));
  for (const auto& [link, messages] : messages_) activity = std::max(activity, messages->advance(blocks_));
  for (const auto& [link, lane] : lanes_) activity = std::max(activity, lane->advance());
  return std::max(activity, graphs_.advance());
}

Activity Engine::advance_links() {
  std::vector<std::shared_ptr<Link>> unmade;
  {
    const Lock lock(mutex_);
    unmade = unmade_links_;
    blocks_ = new_blocks_;
  }
  if (unmade.empty()) return Activity::idle;
  std::erase_if(unmade, [this](const auto& link) { return link->advance(blocks_); });
  const Lock lock(mutex_);
  unmade_links_ = std::move(unmade);
  changed_.notify_all();
  return unmade_links_.empty() ? Activity::idle : Activity::launching;
}

void Engine::pause(Lock& lock, Activity activity) {
  if (fault_ || has_news_) return;
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

Lane& Engine::lane(const Link* link) {
  std::unique_ptr<Lane>& lane = lanes_[link];
  if (!lane) lane = std::make_unique<Lane>(backend_, events_, timeout_);
  return *lane;
}

LaunchQueue& Engine::queue(const Operation& operation) {
  if (operation.kind == Operation::Kind::collective) return *collectives_;
  std::unique_ptr<LaunchQueue>& queue = messages_[operation.link.get()];
  if (!queue) queue = make_queue();
  return *queue;
}

std::unique_ptr<LaunchQueue> Engine::make_queue() {
  return std::make_unique<LaunchQueue>(backend_.gpu, timeout_, [this](const OperationPointer& operation) {
    const Lock lock(mutex_);
    operation->launched = true;
    changed_.notify_all();
  });
}

void Engine::stop_everything() {
  const Clock::time_point deadline = Clock::now() + kPatience;
  collectives_->clear();
  for (const auto& [link, messages] : messages_) messages->clear();
  graphs_.clear();
  abort_links(deadline);
  const auto drained = [this] {
    bool all = true;
    for (const auto& [link, lane] : lanes_) all = lane->drain() && all;
    return all;
  };
  while (!drained() && Clock::now() < deadline) std::this_thread::sleep_for(kDrainPause);
}

/// Aborts all links in parallel, because NCCL frees memory in an abort and so waits for kernels of other communicators.
/// Each abort returns when no call enqueues work any more. An abort of a link with calls in graphs returns only after
/// the graphs are destroyed, so this function does not wait for it.
void Engine::abort_links(Clock::time_point deadline) {
  const auto abort = [this](Link& link) {
    try {
      backend_.gpu->use_device(device_);
    } catch (...) {
      // The GPU has failed. Abort anyway.
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
    } catch (const std::system_error&) {  // thread creation failed
      if (!in_graphs) abort(*link);
    }
  }
  for (const std::future<void>* each : awaited) each->wait_until(deadline);
}

}  // namespace strata::nccl

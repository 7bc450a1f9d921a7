#include "runtime/rank_threads.hpp"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/flight_recorder.hpp"
#include "strata/error.hpp"
#include "strata/tensor.hpp"

namespace strata::host {
namespace {

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (...) {
    return current_exception_text();
  }
}

bool is_echo(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const AbortedError&) {
    return true;
  } catch (...) {
    return false;
  }
}

class RankThreads {
 public:
  RankThreads(World& world, const MakeDevice& make_device, const RankBody& body, const StuckRanks& stuck,
              const RankWatch& watch)
      : world_(world), make_device_(make_device), body_(body), stuck_(stuck), watch_(watch), patience_(stuck.patience) {
    if (!watch_.stoppable) return;
    watch_.stoppable([this](const std::string& reason, std::chrono::milliseconds patience) {
      stop(std::make_exception_ptr(RuntimeError(reason)), false, reason, patience);
    });
  }
  ~RankThreads() {
    if (watch_.stoppable) watch_.stoppable(nullptr);
  }
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  void run() {
    std::vector<std::thread> threads;
    for (const int rank : world_.local_ranks()) {
      begin(rank);
      try {
        threads.emplace_back([this, rank] {
          run_rank(rank);
          end(rank);
        });
      } catch (...) {  // thread creation failed: stop running ranks, which wait for missing ones
        fail(rank, std::current_exception());
        end(rank);
        break;
      }
    }
    if (stuck_.report) watch();
    for (std::thread& thread : threads) thread.join();
    if (cause_) std::rethrow_exception(cause_);
    if (echo_) std::rethrow_exception(echo_);
  }

 private:
  void begin(int rank) {
    const std::lock_guard lock(mutex_);
    running_.insert(rank);
  }

  void end(int rank) {
    const std::lock_guard lock(mutex_);
    running_.erase(rank);
    changed_.notify_all();
  }

  /// Waits until all ranks have ended. Reports those that do not after a failure.
  void watch() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failed_ || running_.empty(); });
    if (changed_.wait_for(lock, patience_, [&] { return running_.empty(); })) return;
    std::vector<std::string> ranks;
    for (const int rank : running_) ranks.push_back(std::to_string(rank));
    const std::string report = reason_ + "; stuck, and so ended by force: rank " + join(ranks, ", ");
    lock.unlock();
    stuck_.report(report);
  }

  void run_rank(int rank) {
    try {
      const std::shared_ptr<Device> device = make_device_(rank);
      const std::unique_ptr<Communicator> communicator = connect_recorded(rank, *device);
      enter(*communicator);
      // Catch while the communicator exists: to its peers, a rank that disappears without an abort looks like the
      // cause.
      try {
        body_(*device, *communicator);
        if (watch_.recorders != nullptr) watch_.recorders->of(rank).begin(Activity::ended);
      } catch (...) {
        fail(rank, std::current_exception());
      }
      leave(*communicator);
    } catch (...) {
      fail(rank, std::current_exception());
    }
  }

  std::unique_ptr<Communicator> connect_recorded(int rank, Device& device) {
    std::unique_ptr<Communicator> communicator = connect(rank, device);
    if (watch_.recorders == nullptr) return communicator;
    return recorded(std::move(communicator), watch_.recorders->of(rank), device.is_host_memory());
  }

  std::unique_ptr<Communicator> connect(int rank, Device& device) {
    std::unique_ptr<Communicator> communicator = world_.connect(rank, device);
    if (communicator != nullptr) return communicator;
    throw RuntimeError("the communicator connects rank " + std::to_string(rank) + " to nothing (a null pointer)");
  }

  void enter(Communicator& communicator) {
    const std::lock_guard lock(mutex_);
    connected_.push_back(&communicator);
    if (failed_) communicator.abort(reason_);
  }

  void leave(Communicator& communicator) {
    const std::lock_guard lock(mutex_);
    std::erase(connected_, &communicator);
  }

  void fail(int rank, const std::exception_ptr& error) {
    const bool echo = is_echo(error);
    const std::string message = message_of(error);
    if (watch_.recorders != nullptr) watch_.recorders->of(rank).fail(message, echo);
    stop(error, echo, message, stuck_.patience);
    if (watch_.failed) watch_.failed(rank, error);
  }

  void stop(const std::exception_ptr& error, bool echo, const std::string& message,
            std::chrono::milliseconds patience) {
    const std::lock_guard lock(mutex_);
    std::exception_ptr& place = echo ? echo_ : cause_;
    if (!place) place = error;
    if (failed_) return;
    failed_ = true;
    patience_ = patience;
    reason_ = message;
    changed_.notify_all();
    for (Communicator* communicator : connected_) communicator->abort(reason_);
  }

  World& world_;
  const MakeDevice& make_device_;
  const RankBody& body_;
  const StuckRanks& stuck_;
  const RankWatch& watch_;
  std::mutex mutex_;
  std::chrono::milliseconds patience_;
  std::condition_variable changed_;
  std::set<int> running_;
  std::vector<Communicator*> connected_;
  bool failed_ = false;
  std::string reason_;
  std::exception_ptr cause_;
  std::exception_ptr echo_;
};

}  // namespace

void run_rank_threads(World& world, const MakeDevice& make_device, const RankBody& body, const StuckRanks& stuck,
                      const RankWatch& watch) {
  RankThreads(world, make_device, body, stuck, watch).run();
}

}  // namespace strata::host

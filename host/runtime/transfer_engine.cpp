#include "runtime/transfer_engine.hpp"

#include <algorithm>
#include <utility>

#include "strata/error.hpp"

namespace strata::host {
namespace {

constexpr std::size_t kMostInFlight = 256;
constexpr std::int64_t kStagingBytes = std::int64_t{4} << 20U;

}  // namespace

struct TransferEngine::Job {
  TransferCall call;
  /// The event of the compute stream after which the transfer may access device memory.
  std::shared_ptr<Event> ready;
  // Guarded by the engine's mutex.
  bool done = false;
  /// The error as text, because the thread that waits creates the exception.
  std::string fault;
};

class TransferEngine::Pending final : public Request {
 public:
  Pending(TransferEngine& engine, std::shared_ptr<Job> job) : engine_(engine), job_(std::move(job)) {}

  void wait() override {
    std::unique_lock lock(engine_.mutex_);
    engine_.changed_.wait(lock, [this] { return job_->done; });
    if (!job_->fault.empty()) throw RuntimeError(job_->fault);
  }

 private:
  TransferEngine& engine_;
  std::shared_ptr<Job> job_;
};

TransferEngine::TransferEngine(Device& device, OffloadMemory& memory)
    : device_(device),
      memory_(memory),
      staging_(device.is_host_memory() || memory.bytes().file == 0 ? 0 : kStagingBytes),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

std::unique_ptr<Request> TransferEngine::start(const TransferCall& call) {
  auto job = std::make_shared<Job>();
  job->call = call;
  job->ready = device_.record(StreamKind::compute);
  auto request = std::make_unique<Pending>(*this, job);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.size() < kMostInFlight; });
  queue_.push_back(std::move(job));
  changed_.notify_all();
  return request;
}

void TransferEngine::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (true) {
    if (!changed_.wait(lock, stop, [this] { return !queue_.empty(); })) return;
    const std::shared_ptr<Job> job = queue_.front();
    lock.unlock();
    std::string fault = carry_out(*job);
    lock.lock();
    queue_.pop_front();
    job->fault = std::move(fault);
    job->done = true;
    changed_.notify_all();
  }
}

std::string TransferEngine::carry_out(const Job& job) {
  try {
    device_.wait(StreamKind::transfer, job.ready);
    if (device_.is_host_memory()) {
      device_.synchronize(StreamKind::transfer);
      copy_in_host_memory(job.call);
    } else if (job.call.place == MemoryPlace::host) {
      copy_over_stream(job.call);
    } else {
      stream_through_staging(job.call);
    }
    return {};
  } catch (...) {
    return "transfer '" + *job.call.name + "' of " + std::to_string(job.call.bytes) +
           " bytes: " + current_exception_text();
  }
}

void TransferEngine::copy_in_host_memory(const TransferCall& call) const {
  if (call.to_device) {
    memory_.read(call.place, call.offset, call.device, call.bytes);
  } else {
    memory_.write(call.place, call.offset, call.device, call.bytes);
  }
}

void TransferEngine::copy_over_stream(const TransferCall& call) {
  std::byte* host = memory_.host() + call.offset;
  if (call.to_device) {
    device_.copy_from_host(StreamKind::transfer, call.device, host, call.bytes);
  } else {
    device_.copy_to_host(StreamKind::transfer, host, call.device, call.bytes);
  }
  device_.synchronize(StreamKind::transfer);
}

void TransferEngine::stream_through_staging(const TransferCall& call) {
  for (std::int64_t begin = 0; begin < call.bytes; begin += kStagingBytes) {
    const std::int64_t bytes = std::min(kStagingBytes, call.bytes - begin);
    if (call.to_device) {
      memory_.read(call.place, call.offset + begin, staging_.data(), bytes);
      device_.copy_from_host(StreamKind::transfer, call.device + begin, staging_.data(), bytes);
      device_.synchronize(StreamKind::transfer);
    } else {
      device_.copy_to_host(StreamKind::transfer, staging_.data(), call.device + begin, bytes);
      memory_.write(call.place, call.offset + begin, staging_.data(), bytes);
    }
  }
}

}  // namespace strata::host

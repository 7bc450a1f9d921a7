#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/offload_memory.hpp"
#include "strata/communicator.hpp"
#include "strata/device.hpp"

namespace strata::host {

/// One copy between a rank's device memory and its memory elsewhere.
struct TransferCall {
  bool to_device = false;
  std::byte* device = nullptr;
  MemoryPlace place = MemoryPlace::host;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  /// For messages; outlives the transfer.
  const std::string* name = nullptr;
};

/// Carries out a rank's transfers beside its other work: a thread of its own, in the order in which they are started.
/// A transfer begins after what was enqueued on the device's compute stream before it was started. It fails without
/// harm to others: its wait throws a RuntimeError with its name and the reason.
class TransferEngine {
 public:
  /// Both references outlive the engine.
  TransferEngine(Device& device, OffloadMemory& memory);
  /// Returns when all that was started has ended.
  ~TransferEngine();
  TransferEngine(const TransferEngine&) = delete;
  TransferEngine& operator=(const TransferEngine&) = delete;

  /// Waits only where very many are under way. The request must not outlive the engine.
  [[nodiscard]] std::unique_ptr<Request> start(const TransferCall& call);

 private:
  class Pending;
  struct Job;

  void run();
  /// \return what went wrong; empty if nothing did.
  [[nodiscard]] std::string carry_out(const Job& job);
  void copy_in_host_memory(const TransferCall& call) const;
  void copy_over_stream(const TransferCall& call);
  void stream_through_staging(const TransferCall& call);

  Device& device_;
  OffloadMemory& memory_;
  /// Between a file and a device that only the host's memory can reach.
  std::vector<std::byte> staging_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace strata::host

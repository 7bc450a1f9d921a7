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

/// One copy between a rank's device memory and its host memory or file.
struct TransferCall {
  bool to_device = false;
  std::byte* device = nullptr;
  MemoryPlace place = MemoryPlace::host;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  /// Name for error messages. Outlives the transfer.
  const std::string* name = nullptr;
};

/// Executes a rank's transfers on its own thread, in the order in which they were started. A transfer begins after the
/// work that was enqueued on the compute stream before it was started. If a transfer fails, its wait throws a
/// RuntimeError with its name and the reason, and other transfers continue. The engine ends when all of them have
/// ended.
class TransferEngine {
 public:
  /// Both references outlive the engine.
  TransferEngine(Device& device, OffloadMemory& memory);

  /// Starts a transfer. Blocks only if very many are in flight. The request must not outlive the engine.
  [[nodiscard]] std::unique_ptr<Request> start(const TransferCall& call);

 private:
  class Pending;
  struct Job;

  void run(const std::stop_token& stop);
  /// Executes one transfer. \return the error, or an empty text on success.
  [[nodiscard]] std::string carry_out(const Job& job);
  void copy_in_host_memory(const TransferCall& call) const;
  void copy_over_stream(const TransferCall& call);
  void stream_through_staging(const TransferCall& call);

  Device& device_;
  OffloadMemory& memory_;
  /// Memory for copies between a file and a device whose memory only the device can access.
  std::vector<std::byte> staging_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::shared_ptr<Job>> queue_;
  std::jthread thread_;
};

}  // namespace strata::host

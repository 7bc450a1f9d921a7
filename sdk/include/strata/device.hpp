#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/export.hpp"
#include "strata/kernel.hpp"
#include "strata/layout.hpp"
#include "strata/options.hpp"
#include "strata/plugin.hpp"
#include "strata/tensor.hpp"

namespace strata {

/// The streams of a device.
enum class StreamKind : std::uint8_t {
  compute,
  communication,
  transfer  ///< copies between the device and host memory
};

/// A stream in terms of the device's own runtime. Communicators and profilers that use that runtime need it.
struct NativeStream {
  /// The runtime that the handle belongs to. "cuda": a cudaStream_t. Empty: the device has no native streams.
  std::string_view runtime = {};
  void* handle = nullptr;
  /// The device's ordinal in that runtime, as this process counts.
  int device = 0;
};

/// A point in the work of one stream, which other streams can wait for.
class STRATA_API Event {
 public:
  virtual ~Event();
};

/// Captured work of a compute stream, launched again as a whole. Capturing saves the launch overhead of the single
/// kernels.
class STRATA_API StepGraph {
 public:
  virtual ~StepGraph();
  /// Enqueues the captured work on the compute stream, in order with other work. Kernels read the values of `step`,
  /// except that each keeps the micro-batch with which it was captured. Results have the same bits as those of single
  /// launches. \throws RuntimeError if the launch fails.
  virtual void launch(const StepContext& step) = 0;
};

/// One rank's device. Work on one stream runs in order. Streams are independent of each other unless events order them.
/// A device whose calls return when the work is done (a CPU) returns null events. Not thread-safe, except that the
/// communication stream and the transfer stream may each be used from another thread than the compute stream.
class STRATA_API Device {
 public:
  virtual ~Device();

  /// One line for logs, such as "AMD EPYC, 1 thread, AVX-512".
  [[nodiscard]] virtual std::string description() const = 0;
  /// What slows this run down and can be changed, such as threads that share a core. Each is a sentence without a full
  /// stop, which `strata check` and `strata train` print. Default: none.
  [[nodiscard]] virtual std::vector<std::string> notes() const;
  /// Bytes that the memory plan of one rank may use.
  [[nodiscard]] virtual std::int64_t memory_bytes() const = 0;
  /// True if host code may read and write device memory directly.
  [[nodiscard]] virtual bool is_host_memory() const = 0;

  /// Why the device has no kernel for `instance`, or empty if it has one.
  [[nodiscard]] virtual std::optional<std::string> unsupported(const OpInstance& instance) const = 0;
  /// Scratch bytes that the kernel for `instance` needs.
  [[nodiscard]] virtual std::int64_t workspace_bytes(const OpInstance& instance) const = 0;
  /// Builds the kernel for `instance`. The caller owns it; the device outlives it. \throws ConfigurationError if the
  /// instance is unsupported.
  [[nodiscard]] virtual std::unique_ptr<Kernel> prepare(const OpInstance& instance) = 0;
  /// The kernel that prepare() selects, for reports. Empty if there is none. Default: a kernel of the device itself for
  /// every supported instance.
  [[nodiscard]] virtual std::optional<KernelChoice> kernel_choice(const OpInstance& instance) const;

  /// Zeroed memory aligned to 256 bytes or more. The host calls it once per rank, with the size that the memory plan
  /// computed. \throws RuntimeError if memory is short.
  [[nodiscard]] virtual std::shared_ptr<void> allocate(std::int64_t bytes) = 0;

  /// Copies `bytes` bytes from host memory. Memory of allocate_host() must stay unchanged until the stream has run the
  /// copy. Other memory may be reused when the call returns.
  virtual void copy_from_host(StreamKind stream, void* device, const void* host, std::int64_t bytes) = 0;
  /// Copies `bytes` bytes to host memory. Returns when the data has arrived.
  virtual void copy_to_host(StreamKind stream, void* host, const void* device, std::int64_t bytes) = 0;
  /// Copies `bytes` bytes within the device.
  virtual void copy(StreamKind stream, void* destination, const void* source, std::int64_t bytes) = 0;
  /// Copies `rows` runs of `width` bytes within the device. Consecutive runs begin one pitch (in bytes) apart.
  virtual void copy_rows(StreamKind stream, void* destination, std::int64_t destination_pitch, const void* source,
                         std::int64_t source_pitch, std::int64_t width, std::int64_t rows) = 0;
  /// destination[i] = reduction over j of sources[j][i], in the order of `sources`. bf16 and f16 are accumulated in
  /// f32. The destination may be one of the sources.
  virtual void reduce(StreamKind stream, Reduction reduction, DType dtype, void* destination,
                      std::span<const void* const> sources, std::int64_t elements) = 0;
  /// Sets `bytes` bytes to zero.
  virtual void fill_zero(StreamKind stream, void* destination, std::int64_t bytes) = 0;

  /// Marks the current end of the work on `stream`. A device whose calls return when the work is done returns null.
  [[nodiscard]] virtual std::shared_ptr<Event> record(StreamKind stream) = 0;
  /// Makes work that is enqueued later on `stream` wait for `event` (null: nothing).
  virtual void wait(StreamKind stream, const std::shared_ptr<Event>& event) = 0;
  /// Returns when the stream is idle.
  virtual void synchronize(StreamKind stream) = 0;

  /// The stream's handle in the device's runtime, valid as long as the device. Work that other libraries enqueue on it
  /// is ordered with the device's own work. Default: no handle.
  [[nodiscard]] virtual NativeStream native_stream(StreamKind stream);

  /// Zeroed host memory aligned to 64 bytes or more (page-locked on a GPU). Asynchronous copies may read and write it
  /// after the call that enqueued them returns. Default: ordinary memory. \throws RuntimeError if memory is short.
  [[nodiscard]] virtual std::shared_ptr<void> allocate_host(std::int64_t bytes);

  /// Why capture() is impossible, or empty if it is possible. Default: it is impossible.
  [[nodiscard]] virtual std::optional<std::string> uncapturable() const;
  /// Runs `enqueue` and records the work that it puts on the compute stream instead of executing it. `enqueue` may
  /// launch kernels that have been launched before, copy within the device, copy from allocate_host() memory, reduce
  /// and fill with zeros. It must not wait for anything. The graph records addresses, and each launch reads the memory
  /// anew. The device, the kernels and the memory outlive the graph. \throws what `enqueue` throws. \throws
  /// RuntimeError if the work cannot be captured. After an error none of the work has run, and the device works as
  /// before.
  [[nodiscard]] virtual std::unique_ptr<StepGraph> capture(const std::function<void()>& enqueue);
};

/// The rank that a device is created for.
struct DeviceRequest {
  /// All kernels that the run's plugins registered. Outlives the device.
  const KernelRegistry* kernels = nullptr;
  int rank = 0;
  /// Number of ranks on the machine. A CPU device divides the cores by it.
  int ranks_on_host = 1;
  /// Position of the rank among the ranks of the machine. A GPU device uses it to choose a GPU.
  int index_on_host = 0;
};

/// The factory of a device plugin.
class STRATA_API DeviceFactory : public PluginFactory {
 public:
  ~DeviceFactory() override;
  /// Creates the device of one rank. \throws ConfigurationError if the machine does not have it.
  [[nodiscard]] virtual std::unique_ptr<Device> create(const Options& options, const DeviceRequest& request) const = 0;
};

}  // namespace strata

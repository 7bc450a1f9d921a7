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

#include "strata/attributes.hpp"
#include "strata/export.hpp"
#include "strata/layout.hpp"
#include "strata/options.hpp"
#include "strata/plugin.hpp"
#include "strata/tensor.hpp"

namespace strata {

/// One operand or result as a kernel sees it: contiguous, row-major.
struct OperandDescription {
  DType dtype = DType::f32;
  /// Names of the iteration dimensions that its dimensions walk.
  Dims dims;
  /// Local sizes.
  Shape shape;
};

/// One op with everything known that is known before the run, for one rank.
struct OpInstance {
  std::string op;
  /// Keys random numbers: strata::random::stream_key(seed, name, step).
  std::string name;
  Attributes attributes;
  std::vector<OperandDescription> operands;
  std::vector<OperandDescription> results;
  /// For every iteration dimension, which global indices this rank computes.
  std::map<Dim, IndexMap, std::less<>> index_maps;
  /// Iteration dimension whose global index grows by its global size with every micro-batch ("batch"), if any.
  std::optional<Dim> micro_batch_dim;
  std::uint64_t seed = 0;
  /// Results are added to what the outputs hold.
  bool accumulate = false;
};

/// What changes from launch to launch.
struct StepContext {
  std::uint64_t step = 0;  ///< the optimizer step, from 0
  int micro_batch = 0;
  double learning_rate = 0;
  /// What gradients of the loss are multiplied by until the update: `scale_gradient` multiplies, `gradient_scale`
  /// divides.
  double loss_scale = 1;
  /// Steps before this one that changed nothing because a gradient was not finite; optimizers don't count them.
  std::uint64_t skipped_steps = 0;
};

/// Operands in the order of OpInstance, in device memory. A result may alias the operand that
/// OpDefinition::in_place_operands names.
struct KernelArguments {
  std::span<const void* const> operands;
  std::span<void* const> results;
  void* workspace = nullptr;
  StepContext context;
};

/// A prepared op. Launching allocates nothing.
class STRATA_API Kernel {
 public:
  virtual ~Kernel();
  /// Enqueues the work on the device's compute stream.
  virtual void launch(const KernelArguments& arguments) = 0;
};

enum class StreamKind : std::uint8_t {
  compute,
  communication,
  transfer  ///< copies between the device and memory outside of it
};

/// A stream as the device's own runtime knows it, for communicators and tools that work with that runtime.
struct NativeStream {
  /// Whose handle it is. "cuda": a cudaStream_t. Empty: the device has no such streams.
  std::string_view runtime = {};
  void* handle = nullptr;
  /// The device's number in that runtime, as this process counts.
  int device = 0;
};

/// A point in a stream's work.
class STRATA_API Event {
 public:
  virtual ~Event();
};

/// Work of a compute stream that was captured, to be enqueued again as a whole: what a launch costs is paid once for
/// all of it.
class STRATA_API StepGraph {
 public:
  virtual ~StepGraph();
  /// Enqueues the work on the compute stream, ordered there as a kernel is. Kernels find `step` instead of what they
  /// were captured with, except for the micro-batch, which stays each launch's own. What they compute has the same bits
  /// as when they are launched one by one. \throws RuntimeError
  virtual void launch(const StepContext& step) = 0;
};

/// One rank's device. Work on one stream runs in order; streams are independent but for events. A device whose work is
/// done when a call returns (a CPU) needs no events and returns null ones. Not thread-safe, but the communication
/// stream and the transfer stream may each be used from another thread than the compute stream.
class STRATA_API Device {
 public:
  virtual ~Device();

  /// For people: "AMD EPYC, 1 thread, AVX-512".
  [[nodiscard]] virtual std::string description() const = 0;
  /// Bytes that a rank may plan to use.
  [[nodiscard]] virtual std::int64_t memory_bytes() const = 0;
  /// True if host code may read and write device memory directly.
  [[nodiscard]] virtual bool is_host_memory() const = 0;

  /// Empty if the device has a kernel for `instance`, else why not.
  [[nodiscard]] virtual std::optional<std::string> unsupported(const OpInstance& instance) const = 0;
  /// Scratch bytes that the kernel for `instance` needs.
  [[nodiscard]] virtual std::int64_t workspace_bytes(const OpInstance& instance) const = 0;
  /// \throws ConfigurationError if unsupported.
  [[nodiscard]] virtual std::unique_ptr<Kernel> prepare(const OpInstance& instance) = 0;

  /// Memory aligned to 64 bytes or more, zeroed. Called once per rank with the planned size. \throws RuntimeError if
  /// there is not enough.
  [[nodiscard]] virtual std::shared_ptr<void> allocate(std::int64_t bytes) = 0;

  virtual void copy_from_host(StreamKind stream, void* device, const void* host, std::int64_t bytes) = 0;
  /// Returns when the data is there.
  virtual void copy_to_host(StreamKind stream, void* host, const void* device, std::int64_t bytes) = 0;
  virtual void copy(StreamKind stream, void* destination, const void* source, std::int64_t bytes) = 0;
  /// `rows` runs of `width` bytes, `pitch` bytes apart.
  virtual void copy_rows(StreamKind stream, void* destination, std::int64_t destination_pitch, const void* source,
                         std::int64_t source_pitch, std::int64_t width, std::int64_t rows) = 0;
  /// destination[i] = reduction over sources[j][i], in the order of sources, bf16 and f16 in f32. The destination may
  /// be one of the sources.
  virtual void reduce(StreamKind stream, Reduction reduction, DType dtype, void* destination,
                      std::span<const void* const> sources, std::int64_t elements) = 0;
  virtual void fill_zero(StreamKind stream, void* destination, std::int64_t bytes) = 0;

  /// Null for a device whose calls return when the work is done.
  [[nodiscard]] virtual std::shared_ptr<Event> record(StreamKind stream) = 0;
  /// Makes work enqueued later on `stream` wait for `event` (null: nothing).
  virtual void wait(StreamKind stream, const std::shared_ptr<Event>& event) = 0;
  /// Returns when the stream is idle.
  virtual void synchronize(StreamKind stream) = 0;

  /// The handle of a stream, which lives as long as the device. Work that others enqueue there is ordered with the
  /// device's own. Default: none.
  [[nodiscard]] virtual NativeStream native_stream(StreamKind stream);

  /// Host memory, zeroed and aligned to 64 bytes or more, that copies read and write at any time after the call that
  /// enqueued them. Default: ordinary memory. \throws RuntimeError if there is not enough.
  [[nodiscard]] virtual std::shared_ptr<void> allocate_host(std::int64_t bytes);

  /// Empty if capture() is possible, else why not. Default: the device has no graphs.
  [[nodiscard]] virtual std::optional<std::string> uncapturable() const;
  /// Calls `enqueue` and records what it puts on the compute stream instead of doing it. That may be kernels that have
  /// been launched before, copies within the device, reductions, zeros, and copies from allocate_host(); addresses are
  /// recorded, and what is there is read by each launch of the graph. Nothing may be waited for. The device outlives
  /// the graph, and so must kernels and memory while it is launched. \throws what `enqueue` throws, RuntimeError if the
  /// work cannot be captured. Then none of it was done, and the device can be used as before.
  [[nodiscard]] virtual std::unique_ptr<StepGraph> capture(const std::function<void()>& enqueue);
};

/// Which of the ranks in this process a device is for.
struct DeviceRequest {
  int rank = 0;
  /// Ranks that share the machine: a CPU device divides the cores by it.
  int ranks_on_host = 1;
  /// Position of the rank among those: which of the machine's GPUs is its own.
  int index_on_host = 0;
};

/// What a device plugin hands to the host.
class STRATA_API DeviceFactory : public PluginFactory {
 public:
  ~DeviceFactory() override;
  [[nodiscard]] virtual std::unique_ptr<Device> create(const Options& options, const DeviceRequest& request) const = 0;
};

}  // namespace strata

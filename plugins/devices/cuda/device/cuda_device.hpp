#pragma once

#include <array>
#include <memory>

#include "device/cuda_kernel.hpp"
#include "device/runtime.hpp"
#include "device/step_graph.hpp"
#include "device/streams.hpp"
#include "strata/device.hpp"

namespace strata::cuda {

/// A rank's device: a whole GPU, or a share of one.
class CudaDevice final : public Device {
 public:
  /// `sharing`: number of ranks on the GPU. `reserve`: bytes of the rank's share that its plan leaves free. `graphs`:
  /// whether work may be captured.
  CudaDevice(const DeviceRequest& request, int gpu, int sharing, std::int64_t reserve, bool graphs);

  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::int64_t memory_bytes() const override { return memory_bytes_; }
  [[nodiscard]] bool is_host_memory() const override { return false; }

  [[nodiscard]] std::optional<std::string> unsupported(const OpInstance& instance) const override;
  [[nodiscard]] std::int64_t workspace_bytes(const OpInstance& instance) const override;
  [[nodiscard]] std::unique_ptr<Kernel> prepare(const OpInstance& instance) override;
  [[nodiscard]] std::optional<KernelChoice> kernel_choice(const OpInstance& instance) const override;

  [[nodiscard]] std::shared_ptr<void> allocate(std::int64_t bytes) override;

  void copy_from_host(StreamKind stream, void* device, const void* host, std::int64_t bytes) override;
  void copy_to_host(StreamKind stream, void* host, const void* device, std::int64_t bytes) override;
  void copy(StreamKind stream, void* destination, const void* source, std::int64_t bytes) override;
  void copy_rows(StreamKind stream, void* destination, std::int64_t destination_pitch, const void* source,
                 std::int64_t source_pitch, std::int64_t width, std::int64_t rows) override;
  void reduce(StreamKind stream, Reduction reduction, DType dtype, void* destination,
              std::span<const void* const> sources, std::int64_t elements) override;
  void fill_zero(StreamKind stream, void* destination, std::int64_t bytes) override;

  [[nodiscard]] std::shared_ptr<Event> record(StreamKind stream) override;
  void wait(StreamKind stream, const std::shared_ptr<Event>& event) override;
  void synchronize(StreamKind stream) override;
  [[nodiscard]] NativeStream native_stream(StreamKind stream) override;

  [[nodiscard]] std::shared_ptr<void> allocate_host(std::int64_t bytes) override;
  [[nodiscard]] std::optional<std::string> uncapturable() const override;
  [[nodiscard]] std::unique_ptr<StepGraph> capture(const std::function<void()>& enqueue) override;

 private:
  struct OwnStream {
    std::shared_ptr<void> handle;
    Staging staging;
  };
  /// Makes the GPU current on the calling thread. \return the stream of that kind.
  OwnStream& use(StreamKind stream);
  [[nodiscard]] PreparedKernel make(const OpInstance& instance) const;
  /// \throws RuntimeError if `stream` is being captured. `what` names the operation that a capture forbids.
  void require_no_capture(StreamKind stream, const char* what) const;

  int gpu_;
  bool graphs_;
  runtime::GpuProperties properties_;
  std::unique_ptr<const CudaEnvironment> environment_;
  std::unique_ptr<const KernelSelector> kernels_;
  std::int64_t memory_bytes_ = 0;
  std::array<OwnStream, 3> streams_;
  std::shared_ptr<EventPool> events_ = std::make_shared<EventPool>();
  std::shared_ptr<CurrentStep> current_step_;
};

class CudaDeviceFactory final : public DeviceFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override;
  void provide(Registration& registration, const Options& options) const override;
  [[nodiscard]] std::unique_ptr<Device> create(const Options& options, const DeviceRequest& request) const override;
};

}  // namespace strata::cuda

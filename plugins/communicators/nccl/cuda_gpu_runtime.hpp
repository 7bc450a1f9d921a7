#pragma once

#include "backend.hpp"

namespace strata::nccl {

/// The GpuRuntime that calls the CUDA runtime.
class CudaGpuRuntime final : public GpuRuntime {
 public:
  void use_device(int device) override;
  [[nodiscard]] int multiprocessors(int device) override;
  [[nodiscard]] int connections() override;
  [[nodiscard]] std::shared_ptr<void> allocate_pinned(std::int64_t bytes) override;
  [[nodiscard]] void* create_stream() override;
  void destroy_stream(void* stream) noexcept override;
  [[nodiscard]] void* create_event() override;
  void destroy_event(void* event) noexcept override;
  void record(void* event, void* stream) override;
  void wait(void* stream, void* event) override;
  [[nodiscard]] bool is_reached(void* event) override;
  void fill(void* stream, void* pinned, unsigned char value, std::int64_t bytes) override;
  void copy(void* stream, void* destination, const void* source, std::int64_t bytes) override;
};

}  // namespace strata::nccl

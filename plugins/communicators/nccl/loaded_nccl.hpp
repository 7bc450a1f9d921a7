#pragma once

#include <memory>
#include <string>

#include "backend.hpp"

namespace strata::nccl {

/// NCCL's shared library, loaded when a run needs it. So `strata plugins` works on machines without NCCL.
class LoadedNccl final : public NcclLibrary {
 public:
  /// \throws ConfigurationError if `library` cannot be loaded or is too old.
  explicit LoadedNccl(const std::string& library);
  ~LoadedNccl() override;

  [[nodiscard]] std::string version() const override;
  [[nodiscard]] std::string make_id() override;
  [[nodiscard]] void* begin_communicator(const std::string& id, int size, int index, int blocks) override;
  [[nodiscard]] bool is_ready(void* communicator) override;
  void all_reduce(void* communicator, void* stream, const void* input, void* output, std::int64_t elements, DType dtype,
                  Reduction reduction) override;
  void all_gather(void* communicator, void* stream, const void* input, void* output, std::int64_t elements,
                  DType dtype) override;
  void reduce_scatter(void* communicator, void* stream, const void* input, void* output, std::int64_t output_elements,
                      DType dtype, Reduction reduction) override;
  void broadcast(void* communicator, void* stream, const void* input, void* output, std::int64_t elements, DType dtype,
                 int root) override;
  void send(void* communicator, void* stream, const void* data, std::int64_t bytes, int peer) override;
  void receive(void* communicator, void* stream, void* data, std::int64_t bytes, int peer) override;
  void begin_group() override;
  void end_group() override;
  void finalize(void* communicator) override;
  void destroy(void* communicator) override;
  void abort(void* communicator) noexcept override;

 private:
  struct Functions;
  std::unique_ptr<const Functions> functions_;
};

}  // namespace strata::nccl

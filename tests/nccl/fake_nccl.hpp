#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "nccl/nccl_library.hpp"
#include "strata/program.hpp"

namespace strata::testing {

/// NCCL in host memory, as strict as the real one is silent: communicators do not block, and are used again only when
/// they are ready; nothing matches by more than its order; the first communication on a communicator is on its stream
/// only once all ranks have come to it.
class FakeNccl final : public nccl::NcclLibrary {
 public:
  FakeNccl();
  ~FakeNccl() override;

  [[nodiscard]] std::string version() const override { return "fake"; }
  [[nodiscard]] std::string make_id() override;
  [[nodiscard]] void* begin_communicator(const std::string& id, int size, int index) override;
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

  /// From now on every communicator reports this error when asked.
  void break_communicators(const std::string& error);
  /// Communicators that were begun and neither destroyed nor aborted.
  [[nodiscard]] int live();
  /// Sizes of those that were begun, one entry a rank.
  [[nodiscard]] std::vector<int> begun_sizes();

 private:
  struct Shared;
  struct Rank;

  struct Collective {
    CollectiveKind kind = CollectiveKind::all_reduce;
    Reduction reduction = Reduction::sum;
    DType dtype = DType::f32;
    const void* input = nullptr;
    void* output = nullptr;
    /// Of the input.
    std::int64_t elements = 0;
    int root = 0;
    bool captured = false;
  };
  struct Message {
    bool sends = false;
    void* data = nullptr;
    std::int64_t bytes = 0;
    int peer = 0;
  };

  [[nodiscard]] Rank& use(void* communicator);
  void begin(Rank& rank, void* stream, std::function<void()> work);
  void start(void* communicator, void* stream, const Collective& collective);
  void start(void* communicator, void* stream, const Message& message);
  void run(Rank& rank, const Collective& collective);
  void run(Rank& rank, const std::vector<Message>& messages);

  std::mutex mutex_;
  std::condition_variable changed_;
  int ids_ = 0;
  std::string error_;
  std::map<std::string, std::shared_ptr<Shared>> communicators_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace strata::testing

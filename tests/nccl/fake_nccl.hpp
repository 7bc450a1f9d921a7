#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl/backend.hpp"
#include "strata/program.hpp"

namespace strata::testing {

/// An NCCL in host memory that reports misuse which the real one does not detect. Communicators are non-blocking and
/// may be used again only when they are ready. Operations match by their order alone. The first communication on a
/// communicator is enqueued only when all ranks have started it. A communicator ends when all of its ranks end it. Each
/// calling thread represents one rank's GPU.
class FakeNccl final : public nccl::NcclLibrary {
 public:
  FakeNccl();
  ~FakeNccl() override;

  [[nodiscard]] std::string version() const override { return "fake"; }
  [[nodiscard]] std::string make_id() override;
  [[nodiscard]] void* begin_communicator(const std::string& id, int size, int index, int blocks) override;
  [[nodiscard]] bool is_ready(void* communicator) override;
  void collective(void* communicator, void* stream, const CollectiveCall& call, int size) override;
  void send(void* communicator, void* stream, const void* data, std::int64_t bytes, int peer) override;
  void receive(void* communicator, void* stream, void* data, std::int64_t bytes, int peer) override;
  void begin_group() override;
  void end_group() override;
  void finalize(void* communicator) override;
  void destroy(void* communicator) override;
  void abort(void* communicator) noexcept override;

  /// Makes every communicator report this error.
  void break_communicators(const std::string& error);
  /// Number of communicators that were started and neither destroyed nor aborted.
  [[nodiscard]] int live();
  /// Number of communicators that were aborted.
  [[nodiscard]] int aborted();
  /// Sizes of the communicators that were started, one entry per rank, and the limits of blocks of their kernels.
  [[nodiscard]] std::vector<int> begun_sizes();
  [[nodiscard]] std::vector<int> begun_blocks();
  /// Number of set-ups: of communicators, and of the first communication of each kind on one.
  [[nodiscard]] int setups();
  /// Number of set-ups during which kernels ran on the same GPU. If those kernels wait for other ranks, CUDA may wait
  /// for them forever.
  [[nodiscard]] int setups_beside_kernels();
  /// The collectives of each GPU in the order in which they were started, as pairs of the communicator's size and the
  /// kind.
  [[nodiscard]] std::vector<std::vector<std::pair<int, CollectiveKind>>> launches();

 private:
  struct Shared;
  struct Rank;

  struct Collective {
    CollectiveKind kind = CollectiveKind::all_reduce;
    Reduction reduction = Reduction::sum;
    DType dtype = DType::f32;
    const void* input = nullptr;
    void* output = nullptr;
    /// Number of elements of the input.
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

  /// State of one rank's GPU.
  struct Gpu {
    int running = 0;
    std::vector<std::pair<int, CollectiveKind>> launches;
  };

  [[nodiscard]] Rank& use(void* communicator);
  void note_setup();
  /// Starts a communication. `kind`: communications of equal kind share one set-up.
  void begin(Rank& rank, void* stream, const std::string& kind, std::function<void()> work);
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
  std::map<std::thread::id, Gpu> gpus_;
  int setups_ = 0;
  int setups_beside_kernels_ = 0;
};

}  // namespace strata::testing

#include <chrono>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/memory.hpp"
#include "collectives/timeouts.hpp"
#include "gloo/mesh.hpp"
#include "gloo/transport.hpp"
#include "rendezvous/exchange.hpp"
#include "rendezvous/heartbeat.hpp"
#include "rendezvous/process_environment.hpp"
#include "rendezvous/store.hpp"
#include "strata/communicator.hpp"
#include "strata/error.hpp"
#include "strata/plugin.hpp"

namespace strata::gloo {
namespace {

/// The options of the communicator.
struct Settings {
  communicators::Timeouts timeouts = {};
  /// Network interface or address of this machine. Empty: the one that leads to rank 0.
  std::string interface = {};
  int ranks_per_process = 1;
};

using communicators::Clock;
using Seconds = std::chrono::duration<double>;

constexpr int kMostAttempts = 5;
constexpr const char* kStranger =
    "; a firewall may keep ranks apart, or something that is no rank, such as a port scanner, may have taken a rank's "
    "place on a port of another";

/// A world of processes, each of which runs the same number of ranks as threads.
class GlooWorld final : public World {
 public:
  /// Returns when all ranks have joined. `environment`: empty if this process was started alone. It then is the whole
  /// world, or a rank that can be asked for limits but not connected. \throws as rendezvous::join().
  GlooWorld(const std::optional<rendezvous::ProcessEnvironment>& environment, int rank_count, Settings settings)
      : environment_(environment), rank_count_(rank_count), settings_(std::move(settings)) {
    if (environment_) {
      environment_->ranks_per_process = settings_.ranks_per_process;
      first_rank_ = environment_->rank * settings_.ranks_per_process;
    }
    for (int local = 0; local < settings_.ranks_per_process; ++local) missing_.insert(first_rank_ + local);
    memory_ = std::make_shared<communicators::Memory>(first_rank_, settings_.ranks_per_process);
    if (!environment_) {
      store_ = std::make_shared<rendezvous::Board>();
      place_.ranks_on_host = rank_count / settings_.ranks_per_process;
      return;
    }
    const Seconds limit(settings_.timeouts.start);
    store_ = rendezvous::join(*environment_, Clock::now() + std::chrono::duration_cast<Clock::duration>(limit),
                              rendezvous::Heartbeat::with_patience(settings_.timeouts.communication));
    place_ = rendezvous::find_host_place(*store_, *environment_, limit);
  }
  /// If a rank of this process has not connected, the run fails, because the others wait for it.
  ~GlooWorld() override {
    if (missing_.empty()) return;
    const int rank = *missing_.begin();
    store_->fail(rank, rendezvous::leaving_text(rank));
  }

  [[nodiscard]] int rank_count() const override { return rank_count_; }
  [[nodiscard]] std::vector<int> local_ranks() const override {
    std::vector<int> ranks(static_cast<std::size_t>(settings_.ranks_per_process));
    std::iota(ranks.begin(), ranks.end(), first_rank_);
    return ranks;
  }
  /// Sends never block, and receives match by id.
  [[nodiscard]] CommunicatorLimits limits() const override { return {0, true}; }
  [[nodiscard]] std::unique_ptr<Communicator> connect(int rank, Device& device) override {
    try {
      require_connectable(rank, device);
      const Seconds timeout(settings_.timeouts.communication);
      const auto stream = std::make_shared<communicators::DeviceStream>(device);
      auto transport =
          make_transport(connect_mesh(rank), communicators::MemoryTransport(memory_, rank, stream), store_, timeout);
      auto communicator = std::make_unique<communicators::TransportCommunicator>(std::move(transport), rank,
                                                                                 rank_count_, device, stream, timeout);
      const std::lock_guard lock(mutex_);
      missing_.erase(rank);
      return communicator;
    } catch (const std::exception& error) {
      const auto cause = store_->failure();
      store_->fail(rank, error.what());
      if (!cause || cause->rank == rank) throw;
      throw AbortedError("rank " + std::to_string(rank) + ": stopped because rank " + std::to_string(cause->rank) +
                         " failed: " + cause->reason);
    }
  }
  [[nodiscard]] int ranks_on_host() const override { return place_.ranks_on_host * settings_.ranks_per_process; }
  [[nodiscard]] int index_on_host(int rank) const override {
    return place_.index_on_host * settings_.ranks_per_process + rank - first_rank_;
  }

 private:
  void require_connectable(int rank, const Device& device) {
    if (!environment_ && rank_count_ > settings_.ranks_per_process) {
      throw ConfigurationError(
          "communicator 'gloo' runs " +
          (settings_.ranks_per_process == 1
               ? std::string("every rank in a process of its own")
               : std::to_string(settings_.ranks_per_process) + " ranks in a process (communicator.ranks_per_process)") +
          ", and this process was started alone; accepted for " + std::to_string(rank_count_) +
          " ranks: strata launch to train, else torchrun --no-python, srun, or processes with RANK, WORLD_SIZE, "
          "MASTER_ADDR, MASTER_PORT and STRATA_SECRET; or --set communicator.plugin=local, which runs all ranks "
          "in this process");
    }
    if (!memory_->has(rank)) throw RuntimeError("rank " + std::to_string(rank) + " is not one of this process");
    {
      const std::lock_guard lock(mutex_);
      if (!connecting_.insert(rank).second) {
        throw RuntimeError("rank " + std::to_string(rank) + " is connected already");
      }
    }
    if (device.is_host_memory()) return;
    throw ConfigurationError("communicator 'gloo' reads and writes the memory of the host; found the device '" +
                             device.description() +
                             "', whose memory the host cannot access; accepted: a device in host memory, such as cpu "
                             "(nccl joins GPUs)");
  }
  [[nodiscard]] std::unique_ptr<Mesh> make_mesh(int rank) const {
    const std::string place = settings_.interface.empty()
                                  ? own_address_towards(environment_->address, environment_->port)
                                  : settings_.interface;
    const auto is_local = [memory = memory_](int peer) { return memory->has(peer); };
    return std::make_unique<Mesh>(place, rank, rank_count_, is_local, Seconds(settings_.timeouts.start));
  }
  /// Connects a rank to those of other processes. All ranks try again if something else has connected to their ports.
  [[nodiscard]] std::unique_ptr<Mesh> connect_mesh(int rank) const {
    if (rank_count_ == settings_.ranks_per_process) return nullptr;
    rendezvous::Exchange exchange(*store_, rank, rank_count_, Seconds(settings_.timeouts.start));
    for (int attempt = 1;; ++attempt) {
      // Gloo takes whoever connects first, so ports are open for as short as possible.
      (void)exchange.all_gather("gloo attempt " + std::to_string(attempt), "");
      auto mesh = make_mesh(rank);
      const Mesh::Problem problem = mesh->connect(*store_, place_.is_only_host, attempt);
      if (problem.text.empty()) return mesh;
      if (!problem.is_early || attempt == kMostAttempts) throw RuntimeError(problem.text + kStranger);
      if (rank == 0) rendezvous::Heartbeat().tell(problem.text + kStranger + "; all ranks try again");
    }
  }

  std::optional<rendezvous::ProcessEnvironment> environment_;
  int rank_count_;
  int first_rank_ = 0;
  Settings settings_;
  std::shared_ptr<rendezvous::Store> store_;
  rendezvous::HostPlace place_;
  std::shared_ptr<communicators::Memory> memory_;
  std::mutex mutex_;
  /// Ranks of this process that have not connected, and those of them that are connecting.
  std::set<int> missing_;
  std::set<int> connecting_;
};

class GlooCommunicatorFactory final : public CommunicatorFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }

  [[nodiscard]] std::unique_ptr<World> create(const Options& options, int rank_count) const override {
    const auto environment = rendezvous::read_process_environment(rendezvous::environment_variable);
    const auto per_process = static_cast<int>(options.integer("ranks_per_process"));
    if (rank_count % per_process != 0) {
      throw OptionError("ranks_per_process", "found " + std::to_string(per_process) +
                                                 "; accepted: a divisor of the mesh's " + std::to_string(rank_count) +
                                                 " ranks");
    }
    if (environment && environment->rank_count != rank_count / per_process) {
      const std::string found = "found " + std::to_string(environment->rank_count) + " processes; accepted: ";
      if (per_process == 1) {
        throw ConfigurationError(found + "one for each of the mesh's " + std::to_string(rank_count) + " ranks");
      }
      throw ConfigurationError(found + std::to_string(rank_count / per_process) + ", each with " +
                               std::to_string(per_process) + " (ranks_per_process) of the mesh's " +
                               std::to_string(rank_count) + " ranks");
    }
    return std::make_unique<GlooWorld>(
        environment, rank_count,
        Settings{communicators::read_timeouts(options), options.word("interface"), per_process});
  }

 private:
  static OptionSpecification interface_option() {
    OptionSpecification option = option::word(
        "interface", "",
        "Network interface of this machine, such as eth0, or one of its addresses, through which ranks send their "
        "data. Empty: the one that leads to MASTER_ADDR.");
    option.may_differ = true;
    return option;
  }

  OptionSchema schema_{
      communicators::timeout_option(), communicators::start_timeout_option(), interface_option(),
      option::with_role(
          OptionRole::ranks_per_process,
          option::integer(
              "ranks_per_process", 1, 1, 1024,
              "Ranks that each process runs, each on a thread of its own. They exchange data through memory."))};
};

}  // namespace
}  // namespace strata::gloo

STRATA_PLUGIN(communicator, "gloo", STRATA_VERSION, "Apache-2.0",
              "CPU ranks as processes on one or more machines, over TCP.", strata::gloo::GlooCommunicatorFactory);

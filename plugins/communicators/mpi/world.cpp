#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/memory.hpp"
#include "collectives/timeouts.hpp"
#include "mpi/network.hpp"
#include "mpi/process.hpp"
#include "process.hpp"
#include "strata/communicator.hpp"
#include "strata/error.hpp"
#include "strata/plugin.hpp"

namespace strata::mpi {
namespace {

using communicators::Timeouts;

/// What a process that finds itself alone says if variables of a launcher say that it is not. A launcher of another MPI
/// starts processes that do not find each other.
std::string describe_foreign_launcher() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const char* count = std::getenv(name);
    if (count == nullptr || std::string(count) == "1") continue;
    return ". " + std::string(name) + " is " + count +
           ", so the launcher may belong to another MPI than the plugin's, " + library_version();
  }
  return "";
}

std::string describe_count(int found, int ranks) {
  const std::string count = std::to_string(ranks);
  return "found " + std::to_string(found) + " process(es) of MPI; accepted: one for each of the mesh's " + count +
         " rank(s), as from mpirun -n " + count +
         " strata …; or --set communicator.plugin=local, which runs all ranks in one process" +
         (found == 1 ? describe_foreign_launcher() : "");
}

/// The messages of one rank: over the network, and through memory to itself.
class MpiTransport final : public communicators::Transport {
 public:
  MpiTransport(std::shared_ptr<Network> network, int rank, const std::shared_ptr<communicators::DeviceStream>& stream)
      : network_(std::move(network)), own_(std::make_shared<communicators::Memory>(rank, 1), rank, stream) {
    network_->set_stream(stream);
  }

  std::unique_ptr<Transfer> send(const Parcel& parcel) override {
    return own_.lends(parcel.peer) ? own_.send(parcel) : network_->send(parcel);
  }
  std::unique_ptr<Transfer> receive(const Parcel& parcel) override {
    return own_.lends(parcel.peer) ? own_.receive(parcel) : network_->receive(parcel);
  }
  [[nodiscard]] bool lends(int peer) const override { return own_.lends(peer); }
  void tell(const Notice& notice) noexcept override { network_->tell(notice); }
  std::vector<Notice> notices() override { return network_->notices(); }

 private:
  std::shared_ptr<Network> network_;
  communicators::MemoryTransport own_;
};

/// A world of MPI's processes. Each process is one rank.
class MpiWorld final : public World {
 public:
  /// Returns when all processes have come. A process that no launcher has started can make a world of several ranks, so
  /// that a program is checked without a launcher, but not connect to it. \throws ConfigurationError if the launcher
  /// has started another number of processes. \throws RuntimeError after the start timeout.
  MpiWorld(Process& process, int rank_count, const Timeouts& timeouts)
      : process_(process), rank_count_(rank_count), timeout_(timeouts.communication) {
    if (process.rank_count() == rank_count) {
      joined_ = std::make_unique<Joined>(process, timeouts);
      place_ = joined_->place;
    } else if (process.rank_count() > 1) {
      throw ConfigurationError(describe_count(process.rank_count(), rank_count));
    }
  }
  /// Returns when all ranks have left, or after the timeout.
  ~MpiWorld() override {
    if (!joined_) return;
    if (joined_->network->finish(timeout_)) {
      joined_->stay.end();
      return;
    }
    joined_->control.abandon();
    joined_->data.abandon();
    joined_->stay.keep(std::move(joined_->network));
  }
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  [[nodiscard]] int rank_count() const override { return rank_count_; }
  [[nodiscard]] std::vector<int> local_ranks() const override { return {process_.rank()}; }
  /// Sends never block, and receives match by id.
  [[nodiscard]] CommunicatorLimits limits() const override { return {0, true}; }
  [[nodiscard]] std::unique_ptr<Communicator> connect(int rank, Device& device) override {
    require_connectable(rank, device);
    connected_ = true;
    const auto stream = std::make_shared<communicators::DeviceStream>(device);
    auto transport = std::make_unique<MpiTransport>(joined_->network, rank, stream);
    return std::make_unique<communicators::TransportCommunicator>(std::move(transport), rank, rank_count_, device,
                                                                  stream, timeout_);
  }
  [[nodiscard]] int ranks_on_host() const override { return place_.ranks_on_host; }
  [[nodiscard]] int index_on_host(int /*rank*/) const override { return place_.index_on_host; }

 private:
  /// The connection of this process to the others.
  struct Joined {
    Joined(Process& process, const Timeouts& timeouts)
        : stay(process), control(timeouts.start), data(timeouts.start), place(find_host_place(control)) {
      network = std::make_shared<Network>(control.get(), data.get(), process.rank(), process.rank_count());
    }

    Stay stay;
    Connection control;
    Connection data;
    HostPlace place;
    std::shared_ptr<Network> network;
  };

  void require_connectable(int rank, const Device& device) const {
    if (!joined_) throw ConfigurationError("communicator 'mpi': " + describe_count(process_.rank_count(), rank_count_));
    const std::string text = "rank " + std::to_string(rank);
    if (rank != process_.rank()) throw RuntimeError(text + " is not the one of this process");
    if (connected_) throw RuntimeError(text + " is connected already");
    if (device.is_host_memory()) return;
    if (const std::string reason = no_device_memory(); !reason.empty()) {
      throw ConfigurationError("communicator 'mpi': found the device '" + device.description() + "': " + reason +
                               "; accepted: a device in host memory, such as cpu, or a CUDA-aware MPI");
    }
  }

  Process& process_;
  int rank_count_;
  std::chrono::duration<double> timeout_;
  /// Null if no launcher has started this process.
  std::unique_ptr<Joined> joined_;
  HostPlace place_;
  bool connected_ = false;
};

class MpiCommunicatorFactory final : public CommunicatorFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }
  /// Initialises MPI, if this is the process's first world.
  [[nodiscard]] std::unique_ptr<World> create(const Options& options, int rank_count) const override {
    return std::make_unique<MpiWorld>(Process::get(), rank_count, communicators::read_timeouts(options));
  }

 private:
  OptionSchema schema_{communicators::timeout_option(), communicators::start_timeout_option()};
};

}  // namespace
}  // namespace strata::mpi

STRATA_PLUGIN(communicator, "mpi", STRATA_VERSION, "Apache-2.0",
              "Ranks are processes that an MPI launcher starts, on one machine or many.",
              strata::mpi::MpiCommunicatorFactory);

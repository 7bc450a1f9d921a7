#include "world.hpp"

#include <cstdlib>
#include <string>
#include <utility>

#include "collectives/communicator.hpp"
#include "collectives/memory.hpp"
#include "mpi/process.hpp"
#include "strata/error.hpp"

namespace strata::mpi {
namespace {

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

}  // namespace

MpiWorld::Joined::Joined(Process& process, const Timeouts& timeouts)
    : stay(process), control(timeouts.start), data(timeouts.start), place(find_host_place(control)) {
  network = std::make_shared<Network>(control.get(), data.get(), process.rank(), process.rank_count());
}

MpiWorld::MpiWorld(Process& process, int rank_count, const Timeouts& timeouts)
    : process_(process), rank_count_(rank_count), timeout_(timeouts.communication) {
  if (process.rank_count() == rank_count) {
    joined_ = std::make_unique<Joined>(process, timeouts);
    place_ = joined_->place;
  } else if (process.rank_count() > 1) {
    throw ConfigurationError(describe_count(process.rank_count(), rank_count));
  }
}

MpiWorld::~MpiWorld() {
  if (!joined_) return;
  if (joined_->network->finish(timeout_)) {
    joined_->stay.end();
    return;
  }
  joined_->control.abandon();
  joined_->data.abandon();
  joined_->stay.keep(std::move(joined_->network));
}

void MpiWorld::require_connectable(int rank, const Device& device) const {
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

std::unique_ptr<Communicator> MpiWorld::connect(int rank, Device& device) {
  require_connectable(rank, device);
  connected_ = true;
  const auto stream = std::make_shared<communicators::DeviceStream>(device);
  auto transport = std::make_unique<MpiTransport>(joined_->network, rank, stream);
  return std::make_unique<communicators::TransportCommunicator>(std::move(transport), rank, rank_count_, device, stream,
                                                                timeout_);
}

MpiCommunicatorFactory::MpiCommunicatorFactory()
    : schema_{communicators::timeout_option(), communicators::start_timeout_option()} {}

std::unique_ptr<World> MpiCommunicatorFactory::create(const Options& options, int rank_count) const {
  return std::make_unique<MpiWorld>(Process::get(), rank_count, communicators::read_timeouts(options));
}

}  // namespace strata::mpi

#include "world.hpp"

#include <cstdlib>
#include <string>
#include <utility>

#include "communicator.hpp"
#include "library.hpp"
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

}  // namespace

MpiWorld::Joined::Joined(Process& process, const Timeouts& timeouts)
    : stay(process), control(timeouts.start), data(timeouts.start), place(find_host_place(control)) {
  engine = std::make_shared<Engine>(control.get(), data.get(), process.rank(), process.rank_count(),
                                    std::chrono::duration<double>(timeouts.communication));
}

MpiWorld::MpiWorld(Process& process, int rank_count, const Timeouts& timeouts)
    : process_(process), rank_count_(rank_count) {
  if (process.rank_count() == rank_count) {
    joined_ = std::make_unique<Joined>(process, timeouts);
    place_ = joined_->place;
  } else if (process.rank_count() > 1) {
    throw ConfigurationError(describe_count(process.rank_count(), rank_count));
  }
}

MpiWorld::~MpiWorld() {
  if (!joined_) return;
  if (joined_->engine->finish()) {
    joined_->stay.end();
    return;
  }
  joined_->control.abandon();
  joined_->data.abandon();
  joined_->stay.keep(std::move(joined_->engine));
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
  return std::make_unique<MpiCommunicator>(joined_->engine, rank, rank_count_, device);
}

}  // namespace strata::mpi

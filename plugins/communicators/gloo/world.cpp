#include "world.hpp"

#include <chrono>
#include <utility>

#include "communicator.hpp"
#include "own_address.hpp"
#include "rendezvous/board.hpp"
#include "rendezvous/join.hpp"
#include "strata/error.hpp"

namespace strata::gloo {
namespace {

using Seconds = std::chrono::duration<double>;

}  // namespace

GlooWorld::GlooWorld(const std::optional<rendezvous::ProcessEnvironment>& environment, int rank_count,
                     Settings settings)
    : environment_(environment), rank_count_(rank_count), settings_(std::move(settings)) {
  if (!environment_) {
    store_ = std::make_shared<rendezvous::Board>();
    place_.ranks_on_host = rank_count;
    return;
  }
  rank_ = environment_->rank;
  const Seconds limit(settings_.timeouts.start);
  store_ = rendezvous::join(*environment_, Clock::now() + std::chrono::duration_cast<Clock::duration>(limit),
                            rendezvous::Heartbeat::with_patience(settings_.timeouts.communication));
  place_ = rendezvous::find_host_place(*store_, *environment_, limit);
}

GlooWorld::~GlooWorld() {
  if (!connected_) store_->fail(rank_, "rank " + std::to_string(rank_) + " left before it connected");
}

void GlooWorld::require_connectable(int rank, const Device& device) const {
  if (!environment_ && rank_count_ > 1) {
    throw ConfigurationError(
        "communicator 'gloo' runs every rank in a process of its own, and this process was started alone; "
        "accepted for " +
        std::to_string(rank_count_) +
        " ranks: strata launch, torchrun --no-python, srun, or processes with RANK, WORLD_SIZE, "
        "MASTER_ADDR, MASTER_PORT and STRATA_SECRET");
  }
  if (rank != rank_) throw RuntimeError("rank " + std::to_string(rank) + " is not one of this process");
  if (connected_) throw RuntimeError("rank " + std::to_string(rank) + " is connected already");
  if (device.is_host_memory()) return;
  throw ConfigurationError("communicator 'gloo' reads and writes the memory of the host; found the device '" +
                           device.description() +
                           "', whose memory the host cannot access; accepted: a device in host memory, such as cpu "
                           "(nccl joins GPUs)");
}

std::unique_ptr<Communicator> GlooWorld::connect(int rank, Device& device) {
  try {
    require_connectable(rank, device);
    std::unique_ptr<Mesh> mesh;
    if (rank_count_ > 1) {
      const std::string place = settings_.interface.empty()
                                    ? own_address_towards(environment_->address, environment_->port)
                                    : settings_.interface;
      mesh = std::make_unique<Mesh>(place, rank, rank_count_, Seconds(settings_.timeouts.start));
    }
    const auto endpoint =
        std::make_shared<Endpoint>(std::move(mesh), store_, rank, Seconds(settings_.timeouts.communication));
    if (rank_count_ > 1) endpoint->mesh().connect(*store_, place_.is_only_host);
    auto communicator = std::make_unique<GlooCommunicator>(endpoint, rank, rank_count_, device);
    connected_ = true;
    return communicator;
  } catch (const std::exception& error) {
    const auto cause = store_->failure();
    store_->fail(rank, error.what());
    if (!cause || cause->rank == rank) throw;
    throw AbortedError("rank " + std::to_string(rank) + ": stopped because rank " + std::to_string(cause->rank) +
                       " failed: " + cause->reason);
  }
}

}  // namespace strata::gloo

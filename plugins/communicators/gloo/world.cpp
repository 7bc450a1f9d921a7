#include "world.hpp"

#include <chrono>
#include <numeric>
#include <utility>

#include "communicator.hpp"
#include "own_address.hpp"
#include "rendezvous/board.hpp"
#include "rendezvous/exchange.hpp"
#include "rendezvous/heartbeat.hpp"
#include "rendezvous/join.hpp"
#include "strata/error.hpp"

namespace strata::gloo {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr int kMostAttempts = 5;
constexpr const char* kStranger =
    "; a firewall may keep ranks apart, or something that is no rank, such as a port scanner, may have taken a rank's "
    "place on a port of another";

}  // namespace

GlooWorld::GlooWorld(const std::optional<rendezvous::ProcessEnvironment>& environment, int rank_count,
                     Settings settings)
    : environment_(environment), rank_count_(rank_count), settings_(std::move(settings)) {
  if (environment_) {
    environment_->ranks_per_process = settings_.ranks_per_process;
    first_rank_ = environment_->rank * settings_.ranks_per_process;
  }
  for (int local = 0; local < settings_.ranks_per_process; ++local) missing_.insert(first_rank_ + local);
  mail_ = std::make_shared<ProcessMail>(first_rank_, settings_.ranks_per_process);
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

GlooWorld::~GlooWorld() {
  if (missing_.empty()) return;
  const int rank = *missing_.begin();
  store_->fail(rank, rendezvous::leaving_text(rank));
}

std::vector<int> GlooWorld::local_ranks() const {
  std::vector<int> ranks(static_cast<std::size_t>(settings_.ranks_per_process));
  std::iota(ranks.begin(), ranks.end(), first_rank_);
  return ranks;
}

void GlooWorld::require_connectable(int rank, const Device& device) {
  if (!environment_ && rank_count_ > settings_.ranks_per_process) {
    throw ConfigurationError(
        "communicator 'gloo' runs " +
        (settings_.ranks_per_process == 1
             ? std::string("every rank in a process of its own")
             : std::to_string(settings_.ranks_per_process) + " ranks in a process (communicator.ranks_per_process)") +
        ", and this process was started alone; accepted for " + std::to_string(rank_count_) +
        " ranks: strata launch to train, else torchrun --no-python, srun, or processes with RANK, WORLD_SIZE, "
        "MASTER_ADDR, MASTER_PORT and STRATA_SECRET; or --set communicator.plugin=local, which runs all ranks in this "
        "process");
  }
  if (!mail_->has(rank)) throw RuntimeError("rank " + std::to_string(rank) + " is not one of this process");
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

std::unique_ptr<Mesh> GlooWorld::make_mesh(int rank) const {
  const std::string place = settings_.interface.empty() ? own_address_towards(environment_->address, environment_->port)
                                                        : settings_.interface;
  const auto is_local = [mail = mail_](int peer) { return mail->has(peer); };
  return std::make_unique<Mesh>(place, rank, rank_count_, is_local, Seconds(settings_.timeouts.start));
}

std::shared_ptr<Endpoint> GlooWorld::connect_endpoint(int rank) const {
  const Seconds timeout(settings_.timeouts.communication);
  if (rank_count_ == settings_.ranks_per_process) {
    return std::make_shared<Endpoint>(nullptr, mail_, store_, rank, timeout);
  }
  rendezvous::Exchange exchange(*store_, rank, rank_count_, Seconds(settings_.timeouts.start));
  for (int attempt = 1;; ++attempt) {
    // Gloo takes whoever connects first, so ports are open for as short as possible.
    (void)exchange.all_gather("gloo attempt " + std::to_string(attempt), "");
    auto endpoint = std::make_shared<Endpoint>(make_mesh(rank), mail_, store_, rank, timeout);
    const Mesh::Problem problem = endpoint->mesh().connect(*store_, place_.is_only_host, attempt);
    if (problem.text.empty()) return endpoint;
    if (!problem.is_early || attempt == kMostAttempts) throw RuntimeError(problem.text + kStranger);
    if (rank == 0) rendezvous::Heartbeat().tell(problem.text + kStranger + "; all ranks try again");
  }
}

std::unique_ptr<Communicator> GlooWorld::connect(int rank, Device& device) {
  try {
    require_connectable(rank, device);
    const std::shared_ptr<Endpoint> endpoint = connect_endpoint(rank);
    auto communicator = std::make_unique<GlooCommunicator>(endpoint, rank, rank_count_, device);
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

}  // namespace strata::gloo

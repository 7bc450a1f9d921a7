#include "world.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <string>

#include "communicator.hpp"
#include "rendezvous/exchange.hpp"
#include "rendezvous/store.hpp"
#include "strata/error.hpp"

namespace strata::nccl {
namespace {

using rendezvous::Clock;

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

void require_runtime(Device& device, const std::string& runtime) {
  if (device.native_stream(StreamKind::compute).runtime == runtime) return;
  throw ConfigurationError("communicator 'nccl' works with devices whose streams are those of '" + runtime +
                           "'; found the device '" + device.description() + "'");
}

}  // namespace

NcclWorld::NcclWorld(BackendLoader loader, int rank_count, const Timeouts& timeouts)
    : loader_(std::move(loader)),
      rank_count_(rank_count),
      timeouts_(timeouts),
      local_ranks_(static_cast<std::size_t>(rank_count)),
      ranks_on_host_(rank_count),
      store_(std::make_shared<rendezvous::Board>()) {
  std::iota(local_ranks_.begin(), local_ranks_.end(), 0);
}

NcclWorld::NcclWorld(BackendLoader loader, const rendezvous::ProcessEnvironment& environment, const Timeouts& timeouts)
    : loader_(std::move(loader)),
      rank_count_(environment.rank_count),
      timeouts_(timeouts),
      local_ranks_{environment.rank},
      store_(rendezvous::join(environment, after(timeouts.start),
                              rendezvous::Heartbeat::with_patience(timeouts.communication))) {
  find_hosts(environment);
}

NcclWorld::~NcclWorld() {
  for (const int rank : local_ranks_) {
    if (!connected_.contains(rank)) store_->fail(rank, rendezvous::leaving_text(rank));
  }
}

void NcclWorld::find_hosts(const rendezvous::ProcessEnvironment& environment) {
  const rendezvous::HostPlace place =
      rendezvous::find_host_place(*store_, environment, std::chrono::duration<double>(timeouts_.start));
  ranks_on_host_ = place.ranks_on_host;
  first_index_on_host_ = place.index_on_host;
}

int NcclWorld::index_on_host(int rank) const {
  const auto place = std::find(local_ranks_.begin(), local_ranks_.end(), rank);
  return first_index_on_host_ + static_cast<int>(place - local_ranks_.begin());
}

std::unique_ptr<Communicator> NcclWorld::connect(int rank, Device& device) {
  const bool here = contains(local_ranks_, rank);
  if (!here) throw RuntimeError("rank " + std::to_string(rank) + " is not one of this process");
  const std::lock_guard lock(mutex_);
  if (!connected_.insert(rank).second) throw RuntimeError("rank " + std::to_string(rank) + " is connected already");
  try {
    // If both do not fit, the device is named, because no library makes up for it.
    require_runtime(device, loader_.runtime);
    return std::make_unique<NcclCommunicator>(backend(), store_,
                                              Place{rank, rank_count_, static_cast<int>(local_ranks_.size())}, device,
                                              timeouts_.communication);
  } catch (...) {
    store_->fail(rank, current_exception_text());
    throw;
  }
}

const Backend& NcclWorld::backend() {
  if (!backend_.nccl) backend_ = loader_.load();
  return backend_;
}

}  // namespace strata::nccl

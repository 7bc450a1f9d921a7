#include "conformance/communicator_bench.hpp"

#include <thread>

#include "conformance/check.hpp"
#include "runtime/element.hpp"
#include "strata/error.hpp"

namespace strata::host {

namespace {

/// Runs `work` as one rank. \return the message that it threw.
std::string run_rank(const CommunicatorBench& bench, World& world, int rank, const RankWork& work) {
  std::shared_ptr<Device> device;
  std::unique_ptr<Communicator> communicator;
  try {
    device = bench.make_device(rank, world);
    communicator = world.connect(rank, *device);
    if (communicator == nullptr) throw CheckFailed("connect() returns nothing (a null pointer)");
    work(*communicator, *device);
    device->synchronize(StreamKind::compute);
    communicator->check();
    return {};
  } catch (const AbortedError& aborted) {
    return std::string("aborted: ") + aborted.what();
  } catch (...) {
    const std::string error = current_exception_text();
    if (communicator) communicator->abort(error);
    return error;
  }
}

/// Runs the ranks of this process.
void run_local_ranks(const CommunicatorBench& bench, World& world, const RankWork& work,
                     std::vector<std::string>& errors) {
  if (world.rank_count() != static_cast<int>(errors.size())) {
    throw CheckFailed("a world for " + std::to_string(errors.size()) + " ranks has " +
                      std::to_string(world.rank_count()) + " ranks");
  }
  std::vector<std::thread> threads;
  for (const int rank : world.local_ranks()) {
    threads.emplace_back([&, rank] { errors[static_cast<std::size_t>(rank)] = run_rank(bench, world, rank, work); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

std::vector<std::string> run_ranks(const CommunicatorBench& bench, int ranks, const RankWork& work) {
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  if (std::unique_ptr<World> world = bench.make_world(ranks)) run_local_ranks(bench, *world, work, errors);
  return bench.gather ? bench.gather(errors) : errors;
}

void require_no_error(const std::vector<std::string>& errors, const std::string& what) {
  std::string fault;
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    const bool is_consequence = errors[rank].starts_with("aborted: ");
    if (errors[rank].empty() || (is_consequence && !fault.empty())) continue;
    fault = what + ", rank " + std::to_string(rank) + ": " + errors[rank];
    if (!is_consequence) break;
  }
  if (!fault.empty()) throw CheckFailed(fault);
}

std::vector<int> all_ranks(int count) {
  std::vector<int> ranks;
  for (int rank = 0; rank < count; ++rank) ranks.push_back(rank);
  return ranks;
}

DeviceNumbers::DeviceNumbers(Device& device, DType dtype, std::int64_t elements)
    : device_(device), dtype_(dtype), elements_(elements), memory_(device.allocate(bytes())) {}

DeviceNumbers::~DeviceNumbers() {
  try {
    device_.synchronize(StreamKind::compute);
  } catch (...) {
    // Then nothing is copied any more. The rank's own error says why.
  }
}

void DeviceNumbers::set(const std::vector<double>& values) {
  staging_ = device_.allocate_host(bytes());
  for (std::int64_t i = 0; i < elements_; ++i) {
    store_element(dtype_, staging_.get(), i, values.at(static_cast<std::size_t>(i)));
  }
  if (elements_ > 0) device_.copy_from_host(StreamKind::compute, data(), staging_.get(), bytes());
}

std::vector<double> DeviceNumbers::get() const {
  std::vector<std::byte> host(static_cast<std::size_t>(bytes()));
  if (elements_ > 0) device_.copy_to_host(StreamKind::compute, host.data(), data(), bytes());
  std::vector<double> values;
  for (std::int64_t i = 0; i < elements_; ++i) values.push_back(load_element(dtype_, host.data(), i));
  return values;
}

}  // namespace strata::host

#include "exchange.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <vector>

#include "bytes.hpp"
#include "client.hpp"
#include "server.hpp"
#include "strata/communicator.hpp"
#include "strata/error.hpp"

namespace strata::rendezvous {
namespace {

/// Additional timeout of other ranks, so that rank 0 times out first. It knows which ranks are missing.
constexpr std::chrono::seconds kPatienceWithTheFirst{5};

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

Exchange::Exchange(Store& store, int rank, int rank_count, std::chrono::duration<double> timeout)
    : store_(store), rank_(rank), rank_count_(rank_count), timeout_(timeout) {}

std::vector<std::string> Exchange::all_gather(const std::string& name, const std::string& value) {
  const Clock::time_point deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout_);
  const std::string all = "all of " + name;
  if (rank_ == 0) {
    std::vector<std::string> values = gather(name, value, deadline);
    ByteWriter writer;
    for (const std::string& each : values) writer.text(each);
    store_.put(all, writer.take(), rank_count_ - 1);
    return values;
  }
  store_.put(name + " of " + std::to_string(rank_), value, 1);
  const std::string joined = take(all, name + ": rank 0", deadline + kPatienceWithTheFirst);
  ByteReader reader(joined);
  std::vector<std::string> values;
  for (int rank = 0; rank < rank_count_; ++rank) values.push_back(reader.text());
  return values;
}

std::vector<std::string> Exchange::gather(const std::string& name, const std::string& value,
                                          Clock::time_point deadline) {
  std::vector<std::string> values{value};
  std::string missing;
  for (int rank = 1; rank < rank_count_; ++rank) {
    const auto found = store_.take(name + " of " + std::to_string(rank), deadline);
    if (!found) missing += (missing.empty() ? "rank " : ", ") + std::to_string(rank);
    values.push_back(found.value_or(""));
  }
  if (!missing.empty()) give_up(name + ": " + missing, deadline);
  return values;
}

std::string Exchange::broadcast(const std::string& name, int root, const std::string& value) {
  if (rank_ == root) {
    store_.put(name, value, rank_count_ - 1);
    return value;
  }
  const Clock::time_point deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout_);
  return take(name, name + ": rank " + std::to_string(root), deadline);
}

std::string Exchange::take(const std::string& key, const std::string& what, Clock::time_point deadline) {
  const auto value = store_.take(key, deadline);
  if (!value) give_up(what, deadline);
  return *value;
}

void Exchange::give_up(const std::string& what, Clock::time_point deadline) {
  const std::string own = "rank " + std::to_string(rank_) + ": ";
  if (const auto failure = store_.failure()) {
    throw AbortedError(own + "stopped because rank " + std::to_string(failure->rank) + " failed: " + failure->reason);
  }
  std::ostringstream text;
  text << own;
  if (Clock::now() < deadline) {
    text << "rank 0 has left before " << what << " came";
  } else {
    text << "waited " << timeout_.count() << " s in " << what << " did not come";
  }
  store_.fail(rank_, text.str());
  throw RuntimeError(text.str());
}

HostPlace find_host_place(Store& store, const ProcessEnvironment& environment, std::chrono::duration<double> timeout) {
  Exchange exchange(store, environment.rank, environment.rank_count, timeout);
  const std::vector<std::string> hosts = exchange.all_gather("host names", host_name());
  const auto own = hosts.begin() + environment.rank;
  HostPlace place;
  place.ranks_on_host = static_cast<int>(std::count(hosts.begin(), hosts.end(), *own));
  place.index_on_host = environment.local_rank.value_or(static_cast<int>(std::count(hosts.begin(), own, *own)));
  place.is_only_host = place.ranks_on_host == environment.rank_count;
  return place;
}

std::unique_ptr<Store> join(const ProcessEnvironment& environment, Clock::time_point deadline,
                            const Heartbeat& heartbeat) {
  if (environment.rank == 0) return serve_board(environment, deadline, heartbeat);
  return join_board(environment, deadline, heartbeat);
}

}  // namespace strata::rendezvous

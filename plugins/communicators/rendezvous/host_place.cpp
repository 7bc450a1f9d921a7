#include "host_place.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "exchange.hpp"

namespace strata::rendezvous {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

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

}  // namespace strata::rendezvous

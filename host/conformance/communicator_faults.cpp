#include <functional>
#include <utility>

#include "conformance/check.hpp"
#include "conformance/communicator_bench.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

const std::string kFaultName = "bucket";

/// One all_reduce of eight numbers, which `change` may alter.
void run_changed(Communicator& communicator, Device& device, const std::function<void(CollectiveCall&)>& change) {
  DeviceNumbers input(device, DType::f64, 32);
  DeviceNumbers output(device, DType::f64, 32);
  CollectiveCall call{.group = communicator.create_group(all_ranks(communicator.rank_count()))};
  call.input = input.data();
  call.output = output.data();
  call.elements = 8;
  call.id = 17;
  call.name = &kFaultName;
  change(call);
  communicator.start(call)->wait();
  device.synchronize(StreamKind::compute);
  communicator.check();
}

using Change = std::pair<const char*, std::function<void(CollectiveCall&)>>;

void require_errors(const std::vector<std::string>& errors, const std::string& what) {
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    if (!errors[rank].empty()) continue;
    throw CheckFailed(what + ": rank " + std::to_string(rank) + " gets no error");
  }
}

}  // namespace

void try_mismatches(const CommunicatorBench& bench) {
  const Change mismatches[] = {
      {"another kind", [](CollectiveCall& call) { call.kind = CollectiveKind::broadcast; }},
      {"another type", [](CollectiveCall& call) { call.dtype = DType::f64; }},
      {"another number of elements", [](CollectiveCall& call) { call.elements = 9; }},
      {"another reduction", [](CollectiveCall& call) { call.reduction = Reduction::max; }},
      {"another id", [](CollectiveCall& call) { call.id = 18; }},
  };
  for (const Change& mismatch : mismatches) {
    const auto errors = run_ranks(bench, 3, [&](Communicator& communicator, Device& device) {
      const bool differs = communicator.rank() == 1;
      run_changed(
          communicator, device, differs ? mismatch.second : [](CollectiveCall&) {});
    });
    require_errors(errors, std::string("one rank calls a collective with ") + mismatch.first);
  }
}

void try_impossible_groups(const CommunicatorBench& bench) {
  for (const std::vector<int>& ranks : {std::vector<int>{1}, {0, 0}, {0, 2}, {}}) {
    const auto errors = run_ranks(bench, 2, [&](Communicator& communicator, Device&) {
      if (communicator.rank() == 0) static_cast<void>(communicator.create_group(ranks));
    });
    if (errors[0].empty()) {
      throw CheckFailed("rank 0 of 2 makes a group of " + std::to_string(ranks.size()) +
                        " ranks that cannot be one (without itself, with a repeated or an unknown rank, or empty)");
    }
  }
}

void try_timeout(const CommunicatorBench& bench) {
  const auto errors = run_ranks(bench, 2, [&](Communicator& communicator, Device& device) {
    if (communicator.rank() == 0) run_changed(communicator, device, [](CollectiveCall&) {});
  });
  if (errors[0].empty()) throw CheckFailed("rank 0 runs a collective that rank 1 never joins, and gets no error");
  for (const char* part : {"rank 1", "bucket"}) {
    if (errors[0].find(part) != std::string::npos) continue;
    throw CheckFailed("the error of a rank that waits in vain is '" + errors[0] + "'; it does not name " + part);
  }
}

}  // namespace strata::host

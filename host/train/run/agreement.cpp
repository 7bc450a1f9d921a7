#include "train/run/agreement.hpp"

#include <numeric>
#include <string>
#include <vector>

#include "strata/random.hpp"

namespace strata::host {
namespace {

const std::string kName = "agreement of all ranks";

}  // namespace

Agreement::Agreement(Communicator& communicator, Device& device) : communicator_(communicator), device_(device) {
  if (communicator.rank_count() == 1) return;
  std::vector<int> ranks(static_cast<std::size_t>(communicator.rank_count()));
  std::iota(ranks.begin(), ranks.end(), 0);
  group_ = communicator.create_group(ranks);
  memory_ = device.allocate(sizeof(double));
}

double Agreement::largest(double value) {
  if (!memory_) return value;
  device_.copy_from_host(StreamKind::compute, memory_.get(), &value, sizeof value);
  CollectiveCall call;
  call.kind = CollectiveKind::all_reduce;
  call.reduction = Reduction::max;
  call.dtype = DType::f64;
  call.group = group_;
  call.input = memory_.get();
  call.output = memory_.get();
  call.elements = 1;
  // A separate stream of ids, which differs from the ids of programs and changes with every call.
  call.id = random::stream_key(0, kName, calls_++);
  call.name = &kName;
  communicator_.start(call)->wait();
  device_.copy_to_host(StreamKind::compute, &value, memory_.get(), sizeof value);
  // Check for failures, so that no rank decides on a value that was not reduced.
  communicator_.check();
  return value;
}

}  // namespace strata::host

#include "setup/agreement.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "strata/random.hpp"

namespace strata::host {
namespace {

const std::string kName = "agreement of all ranks";

}  // namespace

Agreement::Agreement(Communicator& communicator, Device& device, std::int64_t most)
    : communicator_(communicator), device_(device) {
  if (communicator.rank_count() == 1) return;
  std::vector<int> ranks(static_cast<std::size_t>(communicator.rank_count()));
  std::iota(ranks.begin(), ranks.end(), 0);
  group_ = communicator.create_group(ranks);
  memory_ = device.allocate(static_cast<std::int64_t>(sizeof(double)) * (1 + most));
}

double Agreement::largest(double value) {
  if (memory_) reduce(&value, 1, memory_.get());
  return value;
}

double Agreement::largest(double value, std::vector<double>& more) {
  if (!memory_) return value;
  values_.assign(1, value);
  values_.insert(values_.end(), more.begin(), more.end());
  reduce(values_.data(), static_cast<std::int64_t>(values_.size()), memory_.get());
  std::copy(values_.begin() + 1, values_.end(), more.begin());
  return values_.front();
}

std::string Agreement::text(const std::string& own) {
  const auto size = static_cast<std::size_t>(largest(static_cast<double>(own.size())));
  if (!memory_ || size == 0) return own;
  // The largest value of every character is that of the only rank that has a text.
  std::vector<double> characters(size, 0);
  for (std::size_t i = 0; i < own.size(); ++i) characters[i] = static_cast<unsigned char>(own[i]);
  const std::shared_ptr<void> memory = device_.allocate(static_cast<std::int64_t>(size * sizeof(double)));
  reduce(characters.data(), static_cast<std::int64_t>(size), memory.get());
  std::string text;
  for (const double each : characters) text += static_cast<char>(static_cast<unsigned char>(each));
  return text;
}

void Agreement::reduce(double* values, std::int64_t count, void* memory) {
  const auto bytes = static_cast<std::int64_t>(sizeof(double)) * count;
  device_.copy_from_host(StreamKind::compute, memory, values, bytes);
  CollectiveCall call;
  call.kind = CollectiveKind::all_reduce;
  call.reduction = Reduction::max;
  call.dtype = DType::f64;
  call.group = group_;
  call.input = memory;
  call.output = memory;
  call.elements = count;
  // A separate stream of ids, which differs from the ids of programs and changes with every call.
  call.id = random::stream_key(0, kName, calls_++);
  call.name = &kName;
  communicator_.start(call)->wait();
  device_.copy_to_host(StreamKind::compute, values, memory, bytes);
  // Check for failures, so that no rank decides on a value that was not reduced.
  communicator_.check();
}

}  // namespace strata::host

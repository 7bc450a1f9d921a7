#include "setup/agreement.hpp"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <exception>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "checkpoint/background_task.hpp"
#include "strata/random.hpp"

namespace strata::host {
namespace {

const std::string kName = "agreement of all ranks";

}  // namespace

Agreement::Agreement(Communicator& communicator, Device& device, std::int64_t values)
    : communicator_(communicator), device_(device), values_(values) {
  if (communicator.rank_count() == 1) return;
  std::vector<int> ranks(static_cast<std::size_t>(communicator.rank_count()));
  std::iota(ranks.begin(), ranks.end(), 0);
  group_ = communicator.create_group(ranks);
  memory_ = device.allocate(static_cast<std::int64_t>(sizeof(double)) * values);
}

double Agreement::largest(double value) {
  largest(std::span(&value, 1));
  return value;
}

std::string Agreement::text(const std::string& own) {
  const auto size = static_cast<std::size_t>(largest(static_cast<double>(own.size())));
  if (!memory_ || size == 0) return own;
  // A number holds six characters exactly. The largest of the ranks' numbers is that of the only rank with a text.
  constexpr std::size_t kCharacters = 6;
  std::vector<double> numbers((size + kCharacters - 1) / kCharacters, 0);
  for (std::size_t i = 0; i < own.size(); ++i) {
    numbers[i / kCharacters] += std::ldexp(static_cast<unsigned char>(own[i]), static_cast<int>(8 * (i % kCharacters)));
  }
  largest(numbers);
  std::string text;
  for (std::size_t i = 0; i < size; ++i) {
    text += static_cast<char>(static_cast<std::uint64_t>(numbers[i / kCharacters]) >> (8 * (i % kCharacters)) & 0xFFU);
  }
  return text;
}

void Agreement::largest(std::span<double> values) {
  if (!memory_ || values.empty()) return;
  const auto bytes = static_cast<std::int64_t>(values.size_bytes());
  const std::shared_ptr<void> memory = std::ssize(values) <= values_ ? memory_ : device_.allocate(bytes);
  device_.copy_from_host(StreamKind::compute, memory.get(), values.data(), bytes);
  CollectiveCall call;
  call.kind = CollectiveKind::all_reduce;
  call.reduction = Reduction::max;
  call.dtype = DType::f64;
  call.group = group_;
  call.input = memory.get();
  call.output = memory.get();
  call.elements = std::ssize(values);
  // A separate stream of ids, which differs from the ids of programs and changes with every call.
  call.id = random::stream_key(0, kName, calls_++);
  call.name = &kName;
  communicator_.start(call)->wait();
  device_.copy_to_host(StreamKind::compute, values.data(), memory.get(), bytes);
  // Check for failures, so that no rank decides on a value that was not reduced.
  communicator_.check();
}

void Agreement::work_together(const std::function<void()>& work) {
  constexpr std::chrono::milliseconds kInterval{5};
  std::exception_ptr failure;
  std::unique_ptr<BackgroundTask> task;
  if (work) {
    task = std::make_unique<BackgroundTask>([&] {
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
    });
  }
  const auto is_busy = [&] { return task && !task->is_done(); };
  while (largest(is_busy() ? 1 : 0) > 0) {
    if (task) task->wait_for(kInterval);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace strata::host

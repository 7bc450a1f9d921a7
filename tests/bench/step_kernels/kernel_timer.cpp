#include "step_kernels/kernel_timer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "runtime/element.hpp"
#include "strata/random.hpp"

namespace strata::bench {
namespace {

constexpr std::int64_t kPatternBytes = std::int64_t{4} << 20;
constexpr int kMostSets = 16;
/// Number of launches in a graph. More launches do not measure better.
constexpr int kLaunchesOfGraph = 32;

/// Full types also hold second moments, sums and counts, which are positive.
double number(DType dtype, std::uint64_t index, std::int64_t integers_below) {
  const std::uint32_t word = random::word(random::mix(1), index);
  if (!is_floating_point(dtype)) return static_cast<double>(word % static_cast<std::uint64_t>(integers_below));
  const double uniform = (static_cast<double>(word) + 0.5) / 4294967296.0;
  return size_of(dtype) < size_of(DType::f32) ? 2 * uniform - 1 : uniform;
}

}  // namespace

/// Several sets of operands, results and scratch memory, and the pointers that launches take.
struct KernelTimer::Arguments {
  std::vector<std::shared_ptr<void>> memory;
  std::vector<std::vector<const void*>> operands;
  std::vector<std::vector<void*>> results;
  std::shared_ptr<void> workspace;
};

KernelTimer::KernelTimer(Device& device, TimerSettings settings) : device_(device), settings_(settings) {}

std::shared_ptr<void> KernelTimer::filled(DType dtype, std::int64_t bytes) {
  std::shared_ptr<void>& pattern = patterns_[dtype];
  if (!pattern) {
    const std::int64_t count = kPatternBytes / static_cast<std::int64_t>(size_of(dtype));
    std::vector<std::byte> values(static_cast<std::size_t>(kPatternBytes));
    for (std::int64_t i = 0; i < count; ++i) {
      host::store_element(dtype, values.data(), i,
                          number(dtype, static_cast<std::uint64_t>(i), settings_.integers_below));
    }
    pattern = device_.allocate(kPatternBytes);
    device_.copy_from_host(StreamKind::compute, pattern.get(), values.data(), kPatternBytes);
    device_.synchronize(StreamKind::compute);
  }
  std::shared_ptr<void> memory = device_.allocate(std::max<std::int64_t>(bytes, 1));
  for (std::int64_t done = 0; done < bytes; done += kPatternBytes) {
    device_.copy(StreamKind::compute, static_cast<std::byte*>(memory.get()) + done, pattern.get(),
                 std::min(kPatternBytes, bytes - done));
  }
  return memory;
}

KernelTimer::Arguments KernelTimer::make_arguments(const StepKernel& kernel) {
  const OpInstance& instance = kernel.instance;
  std::int64_t bytes = 1;
  for (const OperandDescription& operand : instance.operands) bytes += bytes_of(operand);
  for (const OperandDescription& result : instance.results) bytes += bytes_of(result);
  const auto sets = std::clamp<std::int64_t>((settings_.rotation_bytes + bytes - 1) / bytes, 1, kMostSets);
  Arguments arguments;
  arguments.workspace = device_.allocate(std::max<std::int64_t>(device_.workspace_bytes(instance), 1));
  for (std::int64_t set = 0; set < sets; ++set) {
    std::vector<std::shared_ptr<void>> operands;
    for (const OperandDescription& each : instance.operands) operands.push_back(filled(each.dtype, bytes_of(each)));
    std::vector<const void*>& read = arguments.operands.emplace_back();
    for (const auto& operand : operands) read.push_back(operand.get());
    std::vector<void*>& written = arguments.results.emplace_back();
    for (std::size_t i = 0; i < instance.results.size(); ++i) {
      const int in_place = kernel.in_place[i];
      const auto result = in_place < 0 ? filled(instance.results[i].dtype, bytes_of(instance.results[i]))
                                       : operands[static_cast<std::size_t>(in_place)];
      written.push_back(result.get());
      arguments.memory.push_back(result);
    }
    arguments.memory.insert(arguments.memory.end(), operands.begin(), operands.end());
  }
  device_.synchronize(StreamKind::compute);
  return arguments;
}

double KernelTimer::elapsed(int runs, const std::function<void()>& run) {
  using Clock = std::chrono::steady_clock;
  device_.synchronize(StreamKind::compute);
  const auto begin = Clock::now();
  for (int i = 0; i < runs; ++i) run();
  device_.synchronize(StreamKind::compute);
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double KernelTimer::time(int launches, const std::function<void()>& enqueue) {
  enqueue();
  if (device_.uncapturable()) return median_seconds(enqueue) / launches;
  device_.synchronize(StreamKind::compute);
  const std::unique_ptr<StepGraph> graph = device_.capture(enqueue);
  return median_seconds([&graph] { graph->launch({}); }) / launches;
}

double KernelTimer::median_seconds(const std::function<void()>& run) {
  const double once = elapsed(1, run);
  const int runs = static_cast<int>(std::clamp(std::ceil(settings_.seconds / once), 1.0, 1e6));
  std::vector<double> seconds;
  for (int i = 0; i < settings_.repetitions; ++i) seconds.push_back(elapsed(runs, run) / runs);
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

double KernelTimer::seconds(const StepKernel& kernel) {
  const std::unique_ptr<Kernel> prepared = device_.prepare(kernel.instance);
  const Arguments arguments = make_arguments(kernel);
  const int sets = static_cast<int>(arguments.operands.size());
  // A device whose calls block until the work is done gains nothing from many launches.
  const int rounds = device_.uncapturable() ? 1 : std::max(1, kLaunchesOfGraph / sets);
  return time(rounds * sets, [&] {
    for (int i = 0; i < rounds * sets; ++i) {
      const auto set = static_cast<std::size_t>(i % sets);
      prepared->launch({arguments.operands[set], arguments.results[set], arguments.workspace.get(), {}});
    }
  });
}

double KernelTimer::copy_seconds(std::int64_t bytes) {
  const std::shared_ptr<void> source = filled(DType::f32, bytes);
  const std::shared_ptr<void> destination = device_.allocate(bytes);
  // Not in a graph: there an H200 copies 2.7 TB/s, outside of it 4.2.
  return median_seconds([&] { device_.copy(StreamKind::compute, destination.get(), source.get(), bytes); });
}

}  // namespace strata::bench

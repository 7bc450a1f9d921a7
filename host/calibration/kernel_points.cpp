#include "calibration/kernel_points.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <numeric>
#include <sstream>
#include <utility>

#include "calibration/silent_world.hpp"
#include "compiler/program/instructions.hpp"
#include "runtime/forwarding_device.hpp"
#include "runtime/initialize.hpp"
#include "runtime/rank_threads.hpp"
#include "simulate/kernel_work.hpp"

namespace strata::host {
namespace {

using Clock = std::chrono::steady_clock;

/// Launches in a row on an asynchronous device.
constexpr int kLaunchesInRow = 16;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

class TimedKernel final : public Kernel {
 public:
  TimedKernel(std::unique_ptr<Kernel> kernel, Device& device, std::vector<double>& times, int launches)
      : kernel_(std::move(kernel)), device_(device), times_(times), launches_(launches) {}

  void launch(const KernelArguments& arguments) override {
    if (launches_ > 1) return time_in_row(arguments);
    const Clock::time_point begin = Clock::now();
    kernel_->launch(arguments);
    times_.push_back(seconds_since(begin));
  }

 private:
  /// As a graph if the device has graphs: launches one by one take longer than most kernels of a GPU.
  void time_in_row(const KernelArguments& arguments) {
    kernel_->launch(arguments);
    const auto enqueue = [&] {
      for (int i = 0; i < launches_; ++i) kernel_->launch(arguments);
    };
    const std::unique_ptr<StepGraph> graph = device_.uncapturable() ? nullptr : device_.capture(enqueue);
    device_.synchronize(StreamKind::compute);
    const Clock::time_point begin = Clock::now();
    if (graph) {
      graph->launch(arguments.context);
    } else {
      enqueue();
    }
    device_.synchronize(StreamKind::compute);
    times_.push_back(seconds_since(begin) / launches_);
  }

  std::unique_ptr<Kernel> kernel_;
  Device& device_;
  std::vector<double>& times_;
  int launches_;
};

void describe_operands(std::ostream& text, const std::vector<OperandDescription>& operands) {
  for (const OperandDescription& operand : operands) {
    text << ' ' << to_string(operand.dtype);
    for (std::size_t i = 0; i < operand.shape.size(); ++i) text << ' ' << operand.dims[i] << '=' << operand.shape[i];
  }
}

/// What determines the time of a kernel: op, attributes, types and shapes.
std::string kernel_key(const OpInstance& instance) {
  std::ostringstream text;
  text << instance.op << ' ' << to_string(instance.attributes) << (instance.accumulate ? " +=" : "");
  describe_operands(text, instance.operands);
  text << " ->";
  describe_operands(text, instance.results);
  return text.str();
}

/// A device that times each launch of each kernel. On a device whose calls return when the work is done, a launch is
/// timed as it is, so caches hold what they hold in a step. On others the kernel is launched again some times in a
/// row, as a graph if the device has graphs.
class TimedDevice final : public ForwardingDevice {
 public:
  explicit TimedDevice(std::shared_ptr<Device> inner)
      : ForwardingDevice(std::move(inner)), is_asynchronous_(this->inner().record(StreamKind::compute) != nullptr) {}

  std::unique_ptr<Kernel> prepare(const OpInstance& instance) override {
    return std::make_unique<TimedKernel>(inner().prepare(instance), inner(), times_[kernel_key(instance)],
                                         is_asynchronous_ ? kLaunchesInRow : 1);
  }

  /// Seconds of all launches since the last call, by kernel_key().
  [[nodiscard]] KernelTimes take_times() {
    KernelTimes taken;
    for (auto& [key, times] : times_) taken[key] = std::exchange(times, {});
    return taken;
  }

 private:
  KernelTimes times_;
  bool is_asynchronous_;
};

/// The time that all steps take at least.
constexpr std::chrono::milliseconds kLeastTime{400};

/// What the ranks measured.
struct RankTimes {
  std::mutex mutex;
  KernelTimes kernels;
  double gap = std::numeric_limits<double>::max();
  /// Seconds of a step, with the launches that are repeated to time them.
  double step = 0;
};

std::size_t instruction_count(const Program& program) {
  std::size_t count = 0;
  for (const TaskInstance& at : program.schedule) {
    count += program.tasks[static_cast<std::size_t>(at.task)].instructions.size();
  }
  return count;
}

int first_rank(const Compiled& compiled, int number) {
  const auto found = std::ranges::find(compiled.class_of_rank, number);
  return static_cast<int>(found - compiled.class_of_rank.begin());
}

/// Trains on one rank, whose device is a TimedDevice.
void train(const TimedStep& step, int rank, TimedDevice& device, Communicator& communicator, RankTimes& times) {
  const Program& program = step.compiled.program(rank);
  const MemoryPlan& plan = step.compiled.plan(rank);
  Executor executor(program, plan, rank, 0, device, communicator, std::make_shared<Arena>(device, plan.arena_bytes),
                    make_offload_memory(plan.offload, step.offload));
  initialize(executor, 0);
  initialize_constants(executor, 0);
  executor.run(0, 0, step.inputs);
  static_cast<void>(device.take_times());
  const Clock::time_point begin = Clock::now();
  int steps = 0;
  while (steps < KernelPoints::kLeastSteps || Clock::now() - begin < kLeastTime) {
    executor.run(static_cast<std::uint64_t>(++steps), 0, step.inputs);
  }
  double rest = seconds_since(begin);
  const std::lock_guard lock(times.mutex);
  times.step = std::max(times.step, rest / steps);
  for (const auto& [key, seconds] : device.take_times()) {
    rest -= std::accumulate(seconds.begin(), seconds.end(), 0.0);
    std::vector<double>& all = times.kernels[key];
    all.insert(all.end(), seconds.begin(), seconds.end());
  }
  times.gap = std::min(times.gap, std::max(rest, 0.0) / steps / static_cast<double>(instruction_count(program)));
}

/// The median leaves out what other programs of the machine disturbed.
double upper_median(std::vector<double> seconds) {
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

}  // namespace

double KernelPoints::time(const TimedStep& step, int number, int busy) {
  const int rank = first_rank(step.compiled, number);
  SilentWorld world(busy);
  RankTimes times;
  run_rank_threads(
      world, [&](int index) { return std::make_shared<TimedDevice>(machine_.make_device(index, busy)); },
      [&](Device& device, Communicator& communicator) {
        train(step, rank, dynamic_cast<TimedDevice&>(device), communicator, times);
      });
  add(step, number, busy, times.kernels);
  has_gap_ = true;
  gap_ = std::min(gap_, times.gap);
  return times.step;
}

void KernelPoints::add(const TimedStep& step, int number, int busy, const KernelTimes& times) {
  const Program& program = step.compiled.programs[static_cast<std::size_t>(number)];
  std::vector<double> runs(program.tasks.size());
  for (const TaskInstance& at : program.schedule) ++runs[static_cast<std::size_t>(at.task)];
  const Coordinates place = program.mesh.coordinates(first_rank(step.compiled, number));
  for (std::size_t task = 0; task < program.tasks.size(); ++task) {
    for (const Instruction& instruction : program.tasks[task].instructions) {
      if (!instruction.is<Compute>()) continue;
      const auto found = times.find(kernel_key(describe_instruction(program, instruction, place, 0)));
      if (found == times.end() || found->second.empty()) continue;
      const KernelWork work = kernel_work(step.ops, program, instruction);
      Sum& sum = sums_[{work.name, work.dtype, work.shape(), busy}];
      sum.seconds += runs[task] * upper_median(found->second);
      sum.count += runs[task];
    }
  }
}

std::vector<MeasuredPoint> KernelPoints::points() const {
  std::vector<MeasuredPoint> points;
  for (const auto& [key, sum] : sums_) {
    const auto& [name, dtype, shape, busy] = key;
    if (sum.count > 0) points.push_back({name, dtype, shape, 1, busy, sum.seconds / sum.count});
  }
  return points;
}

}  // namespace strata::host

#include "calibration/calibration.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <utility>

#include "calibration/copy_points.hpp"
#include "calibration/sample_model.hpp"
#include "calibration/silent_world.hpp"
#include "runtime/product_rate.hpp"
#include "runtime/rank_threads.hpp"
#include "strata/error.hpp"
#include "strata/machine.hpp"
#include "verify/random_inputs.hpp"

namespace strata::host {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<DType, 3> kTypes{DType::f32, DType::bf16, DType::f16};
/// Ranks of a CPU that may share its cores, if it has no more than that.
constexpr int kSharingRanks = 8;
/// Ranks among which collectives are measured at least, if the machine can have them.
constexpr int kCollectiveRanks = 4;
constexpr int kSmallLaunches = 1000;
constexpr std::int64_t kSmallBytes = 256;
constexpr std::uint64_t kSeed = 1;

/// The inputs of a SampleModel.
std::vector<DatasetInput> sample_inputs() {
  return {{.name = "tokens", .dims = {"seq"}, .indexes = "vocab"},
          {.name = "targets", .dims = {"seq"}, .indexes = "vocab", .is_target = true},
          {.name = "positions", .dims = {"seq"}, .indexes = "seq", .per_sample = false}};
}

/// Measures one machine, and remembers how much time is left.
class Calibration {
 public:
  Calibration(const CalibratedMachine& machine, const CalibrationSettings& settings)
      : machine_(machine), settings_(settings), kernels_(machine) {
    device_.name = settings.name;
  }

  Cluster run() {
    measure_device();
    measure_copies();
    if (settings_.runs.empty()) {
      measure_samples();
    } else {
      for (const RunSetup* run : settings_.runs) measure_run(*run);
    }
    append(kernels_.points());
    if (is_host_memory_) device_.kernel_gap = kernels_.gap();
    return cluster();
  }

 private:
  [[nodiscard]] double passed() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  void report(const std::string& what, int ranks) const {
    const std::string by = ranks == 1 ? "" : ", " + std::to_string(ranks) + " ranks";
    report(std::min(passed() / settings_.seconds, 1.0), what + by);
  }
  void report(double share, const std::string& text) const {
    if (settings_.progress) settings_.progress(share, text);
  }

  void append(const std::vector<MeasuredPoint>& points) {
    device_.points.insert(device_.points.end(), points.begin(), points.end());
  }

  /// What one rank measures with the machine to itself. It has a thread of its own as in a run, and so the threads of
  /// its kernels end with it. Threads that wait for more work would slow later measurements down.
  void measure_device() {
    SilentWorld world(1);
    run_rank_threads(
        world, [&](int rank) { return machine_.make_device(rank, 1); },
        [&](Device& device, Communicator&) { measure(device); });
  }

  void measure(Device& device) {
    is_host_memory_ = device.is_host_memory();
    device_.memory_bytes = device.memory_bytes();
    for (const DType type : kTypes) {
      report("products in " + std::string(to_string(type)), 1);
      const double rate = measure_product_rate(device, type);
      if (rate > 0) device_.peak_flops[type] = rate;
    }
    // The peaks are what products reach.
    device_.product_share = 1;
    device_.host_bandwidth = host_copy_rate(device);
    if (device.record(StreamKind::compute) != nullptr) device_.launch = launch_seconds(device);
    if (is_host_memory_) device_.units = usable_cores();
  }

  /// Time of the host to enqueue a small kernel.
  static double launch_seconds(Device& device) {
    const std::shared_ptr<void> memory = device.allocate(kSmallBytes);
    device.synchronize(StreamKind::compute);
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < kSmallLaunches; ++i) device.fill_zero(StreamKind::compute, memory.get(), kSmallBytes);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    device.synchronize(StreamKind::compute);
    return seconds / kSmallLaunches;
  }

  /// Copies by as many ranks as have a core each, and communication of up to as many as the machine can have.
  void measure_copies() {
    for (int ranks = 1; can_have(ranks); ranks *= 2) {
      if (is_busy_count(ranks)) {
        report("copies", ranks);
        SilentWorld world(ranks);
        append(time_copies(machine_, world));
      }
      most_ranks_ = ranks;
      if (ranks == 1) continue;
      report("collectives", ranks);
      for (int group = 2; group <= ranks; group *= 2) {
        append(time_collectives(machine_, *machine_.make_world(ranks), group));
      }
    }
    device_.memory_share = 1;
    for (const MeasuredPoint& point : device_.points) {
      // The largest copy reads and writes at the rate of the memory.
      if (point.work == "copy" && point.busy == 1) device_.memory_bandwidth = point.shape.front() / point.seconds;
    }
  }

  /// True if so many ranks are busy at once in some run. Ranks with a device of their own do not disturb each other.
  [[nodiscard]] bool is_busy_count(int ranks) const {
    return ranks == 1 || (is_host_memory_ && ranks <= usable_cores());
  }

  /// True if this process can have so many ranks, each with a device of its own or with a share of the cores.
  [[nodiscard]] bool can_have(int ranks) const {
    if (ranks == 1) return true;
    if (is_host_memory_ && ranks > std::max(kCollectiveRanks, usable_cores())) return false;
    try {
      const std::unique_ptr<World> world = machine_.make_world(ranks);
      if (static_cast<int>(world->local_ranks().size()) != ranks) return false;
      const auto number = [&](int rank) {
        return machine_.make_device(rank, ranks)->native_stream(StreamKind::compute).device;
      };
      return is_host_memory_ || number(ranks - 1) != number(0);
    } catch (const Error&) {
      return false;
    }
  }

  // --- kernels

  /// Shares the time that is left among precisions and numbers of ranks. Each measures as large shapes as its time
  /// permits.
  void measure_samples() {
    std::vector<int> busy;
    for (int ranks = 1; is_busy_count(ranks); ranks *= 2) busy.push_back(ranks);
    std::size_t parts = busy.size() * settings_.precisions.size();
    for (const int ranks : busy) {
      for (const SamplePrecision& precision : settings_.precisions) {
        const double until = passed() + (settings_.seconds - passed()) / static_cast<double>(parts--);
        measure_samples(ranks, precision, until);
      }
    }
  }

  void measure_samples(int busy, const SamplePrecision& precision, double until) {
    double overhead = 0;  // seconds that the last size took besides its steps
    double rate = std::numeric_limits<double>::infinity();
    for (const SampleSizes& sizes : sample_sizes()) {
      const double flops = (KernelPoints::kLeastSteps + 1) * sizes.step_flops();
      if (passed() + overhead + flops / rate > until) return;
      report("kernels in " + precision.name + ", width " + std::to_string(sizes.width()), busy);
      const double begin = passed();
      const std::optional<double> step = measure_sample(sizes, precision, busy);
      if (!step) return;
      rate = sizes.step_flops() / *step;
      overhead = std::max(0.0, passed() - begin - flops / rate);
    }
  }

  /// \return seconds of a timed step, or nothing if the device does not support the precision or has too little memory.
  std::optional<double> measure_sample(const SampleSizes& sizes, const SamplePrecision& precision, int busy) {
    CompileRequest request;
    request.model = std::make_shared<SampleModel>(sizes);
    request.registry = settings_.ops;
    request.strategies = precision.strategies;
    request.global_batch = request.micro_batch = sizes.batch;
    request.sizes = request.model->sizes();
    request.optimizer = settings_.optimizer;
    const std::shared_ptr<Device> device = machine_.make_device(0, busy);
    request.device = device.get();
    std::optional<Compiled> compiled;
    try {
      compiled = compile(request);
    } catch (const Error&) {
      if (precision.strategies.empty()) throw;
      return std::nullopt;
    }
    // Half of the memory remains for other programs of the machine.
    if (compiled->plan(0).arena_bytes > device->memory_bytes() / 2) return std::nullopt;
    RandomInputs inputs(kSeed, sample_inputs(), request.sizes);
    return kernels_.time({*compiled, *settings_.ops, inputs}, 0, busy);
  }

  /// The kernels of all ranks of a run.
  void measure_run(const RunSetup& run) {
    const int ranks = run.stack.mesh.rank_count();
    const int busy = is_host_memory_ ? std::min(ranks, usable_cores()) : 1;
    const std::size_t done = ++runs_done_ - 1;
    report(static_cast<double>(done) / static_cast<double>(settings_.runs.size()),
           "kernels of " + run.configuration.run.name);
    const DimSizes sizes = run.sizes(run.data_sizes(settings_.vocab));
    CompileRequest request = run.request(GraphMode::training, sizes);
    const std::shared_ptr<Device> device = machine_.make_device(0, ranks);
    request.device = device.get();
    const Compiled compiled = run.compile(request);
    RandomInputs inputs(kSeed, run.inputs, sizes);
    for (int number = 0; number < static_cast<int>(compiled.programs.size()); ++number) {
      const Program& program = compiled.programs[static_cast<std::size_t>(number)];
      kernels_.time({compiled, *run.ops, inputs, run.offload_directory(program)}, number, busy);
    }
  }

  [[nodiscard]] Cluster cluster() {
    Cluster cluster;
    cluster.name = settings_.name;
    NodeGroup group;
    group.name = "node";
    group.devices = most_ranks_;
    if (is_host_memory_) {
      group.cores = usable_cores();
      group.host_memory_bytes = device_.memory_bytes;
      if (most_ranks_ > 1) group.devices = std::max(kSharingRanks, usable_cores());
    }
    if (most_ranks_ > 1) {
      report("messages", 2);
      LinkLevel level = time_messages(machine_, *machine_.make_world(2));
      level.devices = group.devices;
      cluster.levels = {std::move(level)};
    }
    group.device = std::move(device_);
    cluster.groups = {std::move(group)};
    return cluster;
  }

  const CalibratedMachine& machine_;
  const CalibrationSettings& settings_;
  Clock::time_point begin_ = Clock::now();
  bool is_host_memory_ = false;
  int most_ranks_ = 1;
  std::size_t runs_done_ = 0;
  DeviceDescription device_;
  KernelPoints kernels_;
};

}  // namespace

Cluster calibrate(const CalibratedMachine& machine, const CalibrationSettings& settings) {
  return Calibration(machine, settings).run();
}

}  // namespace strata::host

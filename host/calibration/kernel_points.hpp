#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "cluster/cluster.hpp"
#include "compiler/compile.hpp"
#include "runtime/executor.hpp"
#include "strata/communicator.hpp"
#include "strata/device.hpp"
#include "strata/op.hpp"

namespace strata::host {

/// The devices and the communicator of the machine that is measured.
struct CalibratedMachine {
  /// Makes the device of one of `ranks` on the machine, on the rank's thread.
  std::function<std::shared_ptr<Device>(int rank, int ranks)> make_device;
  /// Makes a world of so many ranks in this process. \throws Error if the communicator cannot.
  std::function<std::unique_ptr<World>(int ranks)> make_world;
};

/// A compiled step whose kernels are timed.
struct TimedStep {
  const Compiled& compiled;
  const OpRegistry& ops;
  /// Values for its inputs. Thread-safe.
  InputSource& inputs;
  /// Folder of an offload file.
  std::filesystem::path offload = {};
};

/// Seconds of launches by kernel.
using KernelTimes = std::map<std::string, std::vector<double>>;

/// Collects times of kernels. Kernels that a prediction does not tell apart get their mean, in which each counts as
/// often as it runs in a step.
class KernelPoints {
 public:
  /// Steps that are timed at least, after one that warms up.
  static constexpr int kLeastSteps = 3;

  explicit KernelPoints(const CalibratedMachine& machine) : machine_(machine) {}

  /// Runs the program of a class of ranks for some steps and times its kernels in their places in the step, so that
  /// caches hold what they hold in training. Nothing is communicated. `busy`: how many ranks run it at once, each with
  /// memory of its own, as the machine's cores and memory are shared in a run. \return seconds that timing a step took.
  double time(const TimedStep& step, int number, int busy);

  [[nodiscard]] std::vector<MeasuredPoint> points() const;
  /// Least time between two kernels that was seen. 0 if none was timed.
  [[nodiscard]] double gap() const { return has_gap_ ? gap_ : 0; }

 private:
  struct Sum {
    double seconds = 0;
    double count = 0;
  };
  using Key = std::tuple<std::string, DType, std::vector<std::int64_t>, int>;

  void add(const TimedStep& step, int number, int busy, const KernelTimes& times);

  const CalibratedMachine& machine_;
  std::map<Key, Sum> sums_;
  bool has_gap_ = false;
  double gap_ = std::numeric_limits<double>::max();
};

}  // namespace strata::host

#include "verify/kernel_comparison.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "runtime/element.hpp"
#include "runtime/forwarding_device.hpp"
#include "strata/kernel_tools.hpp"
#include "strata/random.hpp"

namespace strata::host {
namespace {

/// Tolerance in units of the change that one more rounding of every operand causes.
constexpr double kRoundings = 4;

std::string types_of(const OpInstance& instance) {
  std::string text;
  for (const OperandDescription& operand : instance.operands) text += std::string(to_string(operand.dtype)) + " ";
  text += "->";
  for (const OperandDescription& result : instance.results) text += " " + std::string(to_string(result.dtype));
  return instance.accumulate ? text + ", added" : text;
}

/// Tolerance that does not depend on the operands, relative to the norm of the result.
double tolerance_of(DType dtype) {
  // Quantised values are integers up to 127. Some round to a neighbouring integer.
  if (dtype == DType::i8) return 0.01;
  constexpr double kFew = 16;
  return (dtype == DType::bf16 || dtype == DType::f16 ? 2 : kFew) * rounding_of(dtype);
}

/// The type in which a kernel may compute a result: f32 for a sum in f64 of shorter operands.
DType computed_type(const OpInstance& instance, const OperandDescription& result) {
  const bool has_shorter = std::ranges::any_of(instance.operands, [](const OperandDescription& operand) {
    return is_floating_point(operand.dtype) && operand.dtype != DType::f64;
  });
  return result.dtype == DType::f64 && has_shorter ? DType::f32 : result.dtype;
}

/// How many terms the op sums for an element of `result`: the sizes of all dimensions that the result lacks.
double summed_terms(const OpInstance& instance, const OperandDescription& result) {
  std::map<Dim, std::int64_t> summed;
  for (const OperandDescription& operand : instance.operands) {
    for (std::size_t i = 0; i < operand.dims.size(); ++i) {
      if (!contains(result.dims, operand.dims[i])) summed[operand.dims[i]] = operand.shape[i];
    }
  }
  double terms = 1;
  for (const auto& [dim, size] : summed) terms *= static_cast<double>(size);
  return terms;
}

/// How much more a kernel may round in a sum than one more rounding of every operand changes it. The terms of a sum may
/// cancel out. Then its n partial sums, of which each is rounded, are up to sqrt(n) times as large as the result.
double rounding_of_sum(const OpInstance& instance, const OperandDescription& result) {
  double coarsest = 0;
  for (const OperandDescription& operand : instance.operands) {
    coarsest = std::max(coarsest, rounding_of(operand.dtype));
  }
  if (coarsest == 0) return 1;
  const double finest = std::min(coarsest, rounding_of(DType::f32));  // sums of shorter operands are in f32
  return std::max(1.0, std::sqrt(summed_terms(instance, result)) * finest / coarsest);
}

using Bytes = std::vector<std::byte>;

/// Operands and results in host memory.
struct Arguments {
  std::vector<Bytes> operands;
  std::vector<Bytes> results;
};

/// Changes every number by a random rounding, up or down. `key`: the stream of random signs.
void perturb(const OperandDescription& what, Bytes& bytes, std::uint64_t key) {
  const double relative = rounding_of(what.dtype);
  if (relative == 0) return;
  const std::int64_t count = kernels::elements(what);
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = load_element(what.dtype, bytes.data(), i);
    const double sign = (random::word(key, static_cast<std::uint64_t>(i)) & 1U) != 0 ? 1 : -1;
    // Two roundings, so that the number surely changes to a neighbour in its type.
    store_element(what.dtype, bytes.data(), i, value * (1 + 2 * sign * relative));
  }
}

/// ‖a - b‖, or why it is undefined: only one of the two is infinite or NaN.
struct Distance {
  double value = 0;
  double norm = 0;  // ‖b‖
  bool differs_in_kind = false;
};

Distance distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0;
  double size = 0;
  bool differs_in_kind = false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a[i]) && std::isfinite(b[i])) {
      difference += (a[i] - b[i]) * (a[i] - b[i]);
      size += b[i] * b[i];
    } else if (!(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))) {
      differs_in_kind = true;
    }
  }
  return {std::sqrt(difference), std::sqrt(size), differs_in_kind};
}

class ComparedKernel final : public Kernel {
 public:
  ComparedKernel(Device& device, OpInstance instance, std::unique_ptr<Kernel> kernel, PreparedKernel reference,
                 std::string origin, KernelComparisons& comparisons)
      : device_(device),
        instance_(std::move(instance)),
        kernel_(std::move(kernel)),
        reference_(std::move(reference)),
        workspace_(static_cast<std::size_t>(reference_.workspace_bytes) + kAlignment),
        origin_(std::move(origin)),
        comparisons_(comparisons) {}

  void launch(const KernelArguments& arguments) override {
    device_.synchronize(StreamKind::compute);
    const Arguments before = read(arguments);
    kernel_->launch(arguments);
    device_.synchronize(StreamKind::compute);
    const Arguments found = read(arguments);
    const std::vector<Bytes> expected = run_reference(before, arguments.context);
    Comparison made = compare(found.results, expected, run_reference(perturbed(before, 1), arguments.context));
    // The roundings of one draw may cancel out, above all in a sum of few numbers. Others tell whether they did.
    for (std::uint64_t key = 2; made.error > 1 && key <= kDraws; ++key) {
      const Comparison again =
          compare(found.results, expected, run_reference(perturbed(before, key), arguments.context));
      if (again.error < made.error) made = again;
    }
    comparisons_.add(instance_, origin_, made.error, made.where);
  }

 private:
  static constexpr std::size_t kAlignment = 64;
  /// Draws of roundings before a difference counts.
  static constexpr std::uint64_t kDraws = 6;

  /// The largest difference of a result, divided by the tolerance.
  struct Comparison {
    double error = 0;
    std::string where;
  };

  [[nodiscard]] Arguments read(const KernelArguments& arguments) const {
    Arguments copies;
    for (std::size_t i = 0; i < instance_.operands.size(); ++i) {
      copies.operands.push_back(read(arguments.operands[i], instance_.operands[i]));
    }
    for (std::size_t i = 0; i < instance_.results.size(); ++i) {
      copies.results.push_back(read(arguments.results[i], instance_.results[i]));
    }
    return copies;
  }

  [[nodiscard]] Bytes read(const void* memory, const OperandDescription& what) const {
    Bytes bytes(static_cast<std::size_t>(kernels::bytes(what)));
    device_.copy_to_host(StreamKind::compute, bytes.data(), memory, kernels::bytes(what));
    return bytes;
  }

  [[nodiscard]] Arguments perturbed(Arguments copies, std::uint64_t key) const {
    for (std::size_t i = 0; i < copies.operands.size(); ++i) perturb(instance_.operands[i], copies.operands[i], key);
    for (std::size_t i = 0; i < copies.results.size(); ++i) perturb(instance_.results[i], copies.results[i], key);
    return copies;
  }

  [[nodiscard]] std::vector<Bytes> run_reference(Arguments copies, const StepContext& context) {
    std::vector<const void*> operands;
    std::vector<void*> results;
    for (const Bytes& each : copies.operands) operands.push_back(each.data());
    for (Bytes& each : copies.results) results.push_back(each.data());
    void* scratch = workspace_.data();
    std::size_t space = workspace_.size();
    std::align(kAlignment, static_cast<std::size_t>(reference_.workspace_bytes), scratch, space);
    reference_.launch({operands, results, scratch, context, nullptr});
    return std::move(copies.results);
  }

  [[nodiscard]] Comparison compare(const std::vector<Bytes>& found, const std::vector<Bytes>& expected,
                                   const std::vector<Bytes>& perturbed) const {
    double worst = 0;
    std::string where;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double error = error_of(instance_.results[i], found[i], expected[i], perturbed[i]);
      if (error < worst || (error == 0 && !where.empty())) continue;
      worst = error;
      where = "result " + std::to_string(i) + " of '" + instance_.name + "', " + shape(instance_.results[i]);
    }
    return {worst, where};
  }

  /// The difference divided by the tolerance. Infinite if only one of two elements is finite.
  [[nodiscard]] double error_of(const OperandDescription& what, const Bytes& found, const Bytes& expected,
                                const Bytes& perturbed) const {
    const std::vector<double> wanted = load_elements(what.dtype, expected);
    const Distance difference = distance(load_elements(what.dtype, found), wanted);
    if (difference.differs_in_kind) return std::numeric_limits<double>::infinity();
    const Distance sensitivity = distance(load_elements(what.dtype, perturbed), wanted);
    const double allowed = tolerance_of(computed_type(instance_, what)) * difference.norm +
                           kRoundings * rounding_of_sum(instance_, what) * sensitivity.value;
    if (difference.value == 0) return 0;
    return allowed > 0 ? difference.value / allowed : std::numeric_limits<double>::infinity();
  }

  static std::string shape(const OperandDescription& what) {
    std::string text;
    for (const std::int64_t size : what.shape) text += (text.empty() ? "" : "x") + std::to_string(size);
    return text.empty() ? "a scalar" : text;
  }

  Device& device_;
  OpInstance instance_;
  std::unique_ptr<Kernel> kernel_;
  PreparedKernel reference_;
  Bytes workspace_;
  std::string origin_;
  KernelComparisons& comparisons_;
};

/// Forwards all calls to the inner device, but compares kernels.
class ComparedDevice final : public ForwardingDevice {
 public:
  ComparedDevice(std::shared_ptr<Device> inner, const KernelRegistry& kernels, KernelComparisons& comparisons)
      : ForwardingDevice(std::move(inner)),
        environment_("host", 1),
        reference_("the reference", kernels, environment_, KernelPolicy::reference_only),
        comparisons_(comparisons) {}

  std::unique_ptr<Kernel> prepare(const OpInstance& instance) override {
    auto kernel = inner().prepare(instance);
    const auto choice = inner().kernel_choice(instance);
    std::string origin = choice ? choice->origin : "the device";
    if (const auto reason = reference_.unsupported(instance)) {
      comparisons_.add_fault(instance, origin, "nothing to compare with: " + *reason);
      return kernel;
    }
    return std::make_unique<ComparedKernel>(inner(), instance, std::move(kernel), reference_.prepare(instance),
                                            std::move(origin), comparisons_);
  }

 private:
  KernelEnvironment environment_;
  KernelSelector reference_;
  KernelComparisons& comparisons_;
};

}  // namespace

KernelCheck& KernelComparisons::entry(const OpInstance& instance, const std::string& origin) {
  const std::string types = types_of(instance);
  KernelCheck& check = checks_[instance.op + " " + types + " " + origin];
  check.op = instance.op;
  check.types = types;
  check.origin = origin;
  return check;
}

void KernelComparisons::add(const OpInstance& instance, const std::string& origin, double error,
                            const std::string& where) {
  const std::lock_guard lock(mutex_);
  KernelCheck& check = entry(instance, origin);
  ++check.launches;
  ++launches_;
  if (progress_) progress_(launches_);
  if (error < check.error || (check.launches > 1 && error == 0)) return;
  check.error = error;
  check.worst = where;
}

void KernelComparisons::add_fault(const OpInstance& instance, const std::string& origin, const std::string& fault) {
  const std::lock_guard lock(mutex_);
  entry(instance, origin).fault = fault;
}

std::vector<KernelCheck> KernelComparisons::checks() const {
  const std::lock_guard lock(mutex_);
  std::vector<KernelCheck> all;
  for (const auto& [key, check] : checks_) all.push_back(check);
  return all;
}

std::unique_ptr<Device> compare_kernels(std::shared_ptr<Device> inner, const KernelRegistry& kernels,
                                        KernelComparisons& comparisons) {
  return std::make_unique<ComparedDevice>(std::move(inner), kernels, comparisons);
}

}  // namespace strata::host

#include "strata/kernel.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "kernel_signature.hpp"
#include "strata/error.hpp"
#include "strata/gpu_kernel.hpp"

namespace strata {
namespace {

/// The number of operands or results that letters stand for: `count`, or at least that many if the last letter repeats.
struct LetterCount {
  explicit LetterCount(std::string_view letters)
      : repeats(letters.ends_with('*')), count(letters.size() - (repeats ? 1 : 0)) {}

  bool repeats;
  std::size_t count;
};

/// The letter of the operand or result number `index`.
char letter_at(std::string_view letters, std::size_t index) {
  return letters[std::min(index, LetterCount(letters).count - 1)];
}

/// Matches the letters of a kernel with the types of one instance.
class Fit {
 public:
  Fit(const KernelSignature& kernel, const OpInstance& op)
      : kernel_(kernel), common_(leading_type(kernel, op, "t").value_or(DType::f32)) {
    const std::optional<DType> leading = leading_type(kernel, op, "tfr");
    full_ = leading == DType::f64 && is_real(DType::f64) ? DType::f64 : DType::f32;
  }

  [[nodiscard]] bool is_real(DType dtype) const { return contains(kernel_.reals, dtype); }

  [[nodiscard]] bool takes(char letter, DType dtype) const {
    return (letter != 't' || dtype == common_) && contains(accepted(letter), dtype);
  }

  /// The types that a letter accepts beside the other operands.
  [[nodiscard]] std::vector<DType> accepted(char letter) const {
    switch (letter) {
      case 't':
        return is_real(common_) ? std::vector{common_} : kernel_.reals;
      case 'r':
        return kernel_.reals;
      case 'f':
        return {full_};
      case 'i':
        return kernel_.indices;
      case 'b':
        return {DType::i8};
      case 's': {
        std::vector<DType> types = kernel_.reals;
        if (!is_real(DType::f64)) types.push_back(DType::f64);
        return types;
      }
      default:
        return {DType::f64};
    }
  }

  /// The type in which the kernel itself writes a result.
  [[nodiscard]] DType natural_type(char letter, DType wanted) const {
    if (letter == 't') return common_;
    return letter == 'f' ? full_ : wanted;
  }

 private:
  /// The type of the first operand whose letter is one of `wanted`.
  static std::optional<DType> leading_type(const KernelSignature& kernel, const OpInstance& op,
                                           std::string_view wanted) {
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      if (wanted.find(letter_at(kernel.operands, i)) != std::string_view::npos) return op.operands[i].dtype;
    }
    return std::nullopt;
  }

  const KernelSignature& kernel_;
  DType common_;
  DType full_ = DType::f32;
};

std::optional<std::string> shape_mismatch(std::string_view letters, const std::vector<OperandDescription>& found,
                                          const std::string& what) {
  const auto [repeats, count] = LetterCount(letters);
  if (repeats ? found.size() < count : found.size() != count) {
    return "takes " + std::to_string(count) + (repeats ? " or more " : " ") + what + "s, found " +
           std::to_string(found.size());
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].dims.size() == found[i].shape.size()) continue;
    return what + " " + std::to_string(i) + " names other dims than it has";
  }
  return std::nullopt;
}

std::string cannot_be(const std::string& what, std::size_t index, DType dtype, const std::vector<DType>& accepted) {
  std::vector<std::string> names;
  for (const DType type : accepted) names.emplace_back(to_string(type));
  return what + " " + std::to_string(index) + " cannot be " + std::string(to_string(dtype)) +
         "; accepted: " + join(names, ", ");
}

}  // namespace

bool takes_as_many(const KernelSignature& kernel, const OpInstance& op) {
  return !shape_mismatch(kernel.operands, op.operands, "operand") &&
         !shape_mismatch(kernel.results, op.results, "result");
}

std::optional<std::string> type_mismatch(const KernelSignature& kernel, const OpInstance& op) {
  if (auto reason = shape_mismatch(kernel.operands, op.operands, "operand")) return reason;
  if (auto reason = shape_mismatch(kernel.results, op.results, "result")) return reason;
  const Fit fit(kernel, op);
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const DType found = op.operands[i].dtype;
    const char letter = letter_at(kernel.operands, i);
    if (!fit.takes(letter, found)) return cannot_be("operand", i, found, fit.accepted(letter));
  }
  for (std::size_t i = 0; i < op.results.size(); ++i) {
    const DType found = op.results[i].dtype;
    const char letter = letter_at(kernel.results, i);
    const bool is_converted = (letter == 't' || letter == 'f') && fit.is_real(found);
    if (!is_converted && !fit.takes(letter, found)) return cannot_be("result", i, found, fit.accepted(letter));
    if (op.accumulate && !kernel.accumulates && !fit.is_real(found)) {
      return "cannot add to result " + std::to_string(i) + " in " + std::string(to_string(found));
    }
  }
  return std::nullopt;
}

NaturalInstance natural_instance(const KernelSignature& kernel, const OpInstance& op) {
  const Fit fit(kernel, op);
  NaturalInstance natural{op, !op.accumulate || kernel.accumulates};
  for (std::size_t i = 0; i < op.results.size(); ++i) {
    DType& dtype = natural.op.results[i].dtype;
    dtype = fit.natural_type(letter_at(kernel.results, i), dtype);
    natural.is_wanted = natural.is_wanted && dtype == op.results[i].dtype;
  }
  if (!natural.is_wanted) natural.op.accumulate = false;
  return natural;
}

std::optional<std::string> signature_fault(const KernelSignature& kernel) {
  for (std::string_view letters : {std::string_view(kernel.operands), std::string_view(kernel.results)}) {
    if (letters == "*") return "its signature has no letter before '*'";
    if (letters.ends_with('*')) letters.remove_suffix(1);
    const std::size_t unknown = letters.find_first_not_of("trfibds");
    if (unknown != std::string_view::npos) {
      return "its signature has the letter '" + std::string(1, letters[unknown]) + "'; accepted: t, r, f, i, b, d, s";
    }
  }
  return std::nullopt;
}

Kernel::~Kernel() = default;

struct KernelEnvironment::Shared {
  std::mutex mutex;
  std::map<std::type_index, std::weak_ptr<void>> objects;
};

KernelEnvironment::KernelEnvironment(std::string runtime, int threads)
    : runtime_(std::move(runtime)), threads_(threads), shared_(std::make_unique<Shared>()) {}
KernelEnvironment::~KernelEnvironment() = default;

std::shared_ptr<void> KernelEnvironment::find_shared(std::type_index type,
                                                     const std::function<std::shared_ptr<void>()>& make) const {
  const std::lock_guard lock(shared_->mutex);
  std::weak_ptr<void>& known = shared_->objects[type];
  std::shared_ptr<void> object = known.lock();
  if (object == nullptr) known = object = make();
  return object;
}

KernelRegistry::KernelRegistry() = default;
KernelRegistry::~KernelRegistry() = default;
KernelRegistry::KernelRegistry(KernelRegistry&&) noexcept = default;
KernelRegistry& KernelRegistry::operator=(KernelRegistry&&) noexcept = default;

void KernelRegistry::add(KernelDefinition definition, const std::string& origin) {
  const auto refuse = [&](const std::string& why) {
    throw ConfigurationError(origin + " registers a kernel for op '" + definition.op + "': " + why);
  };
  if (definition.op.empty()) refuse("it names no op");
  if (definition.runtime.empty()) refuse("it names no runtime");
  if (!definition.prepare) refuse("it has no function 'prepare'");
  if (const auto fault = signature_fault(definition.signature)) refuse(*fault);
  auto& kernels = kernels_[definition.op];
  const auto behind =
      std::ranges::find_if(kernels, [&](const auto& each) { return each->definition.rank < definition.rank; });
  kernels.insert(behind, std::make_unique<RegisteredKernel>(RegisteredKernel{std::move(definition), origin}));
}

std::vector<const RegisteredKernel*> KernelRegistry::find(const std::string& op, const std::string& runtime) const {
  std::vector<const RegisteredKernel*> found;
  for (const auto& each : all(op)) {
    if (each->definition.runtime == runtime) found.push_back(each.get());
  }
  return found;
}

const std::vector<std::unique_ptr<RegisteredKernel>>& KernelRegistry::all(const std::string& op) const {
  static const std::vector<std::unique_ptr<RegisteredKernel>> kNone;
  const auto found = kernels_.find(op);
  return found == kernels_.end() ? kNone : found->second;
}

std::vector<std::string> KernelRegistry::ops() const {
  std::vector<std::string> names;
  for (const auto& [op, kernels] : kernels_) names.push_back(op);
  return names;
}

GpuEnvironment::GpuEnvironment(const GpuDescription& gpu, const std::string& runtime)
    : KernelEnvironment(runtime, 0), gpu_(gpu) {}
GpuEnvironment::~GpuEnvironment() = default;

}  // namespace strata

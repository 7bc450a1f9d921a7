#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <typeindex>
#include <typeinfo>
#include <vector>

#include "strata/attributes.hpp"
#include "strata/export.hpp"
#include "strata/layout.hpp"
#include "strata/tensor.hpp"

/// \file
/// Kernels compute ops on devices. A device plugin registers kernels for its devices. A plugin of any kind may register
/// kernels for its own ops, or faster kernels for known ops (PluginFactory::provide).

namespace strata {

/// Type and local shape of one operand or result. Kernels see it contiguous and row-major.
struct OperandDescription {
  DType dtype = DType::f32;
  /// The iteration dimension of each of its dimensions. Example: the "seq" of attention's k is the iteration dimension
  /// "kv_seq".
  Dims dims;
  /// Sizes of this rank's shard, in elements.
  Shape shape;
};

/// One op of one rank's program, with everything that is known before the run.
struct OpInstance {
  std::string op;
  /// Keys the op's random numbers: strata::random::stream_key(seed, name, step).
  std::string name;
  Attributes attributes;
  std::vector<OperandDescription> operands;
  std::vector<OperandDescription> results;
  /// For every iteration dimension, the global indices that this rank computes.
  std::map<Dim, IndexMap, std::less<>> index_maps;
  /// The iteration dimension whose global index advances by its global size with each micro-batch ("batch"), if any.
  std::optional<Dim> micro_batch_dim;
  std::uint64_t seed = 0;
  /// True if results are added to the contents of the outputs.
  bool accumulate = false;
};

/// Values that change from launch to launch.
struct StepContext {
  std::uint64_t step = 0;  ///< the optimizer step, from 0
  int micro_batch = 0;
  double learning_rate = 0;
  /// Factor of the weight decay of all parameters, which a schedule gives.
  double weight_decay_factor = 1;
  /// Factor of the loss's gradients. `scale_gradient` multiplies by it, and `gradient_scale` divides by it.
  double loss_scale = 1;
  /// Earlier steps that were skipped because a gradient was not finite. Optimizers do not count them.
  std::uint64_t skipped_steps = 0;
};

/// Pointers to operands and results in device memory, in the order of OpInstance. A result may alias an operand that
/// OpDefinition::in_place_operands allows.
struct KernelArguments {
  std::span<const void* const> operands;
  std::span<void* const> results;
  /// Scratch memory of PreparedKernel::workspace_bytes bytes, aligned to 256 bytes. Null if the kernel needs none.
  void* workspace = nullptr;
  StepContext context;
  /// The compute stream of a device of the runtime "cuda" (a cudaStream_t). Null on host memory.
  void* stream = nullptr;
};

/// A kernel that is ready to launch. The host owns it. Launches allocate nothing.
class STRATA_API Kernel {
 public:
  virtual ~Kernel();
  /// Enqueues the work on the device's compute stream.
  virtual void launch(const KernelArguments& arguments) = 0;
};

/// Properties of a device that its kernels may depend on. If kernels need more properties, the device derives its own
/// class. Its kernels find them by dynamic_cast and refuse other devices. The environment outlives all kernels that
/// were prepared with it.
class STRATA_API KernelEnvironment {
 public:
  KernelEnvironment(std::string runtime, int threads);
  virtual ~KernelEnvironment();
  KernelEnvironment(const KernelEnvironment&) = delete;
  KernelEnvironment& operator=(const KernelEnvironment&) = delete;

  /// "host": kernels access host memory, and they are done when they return. "cuda": kernels access GPU memory and
  /// enqueue their work on KernelArguments::stream.
  [[nodiscard]] const std::string& runtime() const { return runtime_; }
  /// CPU threads that a kernel of the runtime "host" may use.
  [[nodiscard]] int threads() const { return threads_; }

  /// An object that kernels of this environment share, such as the handle of a library: the present one of type T, or
  /// else the one that `make` returns. Kernels keep the pointer, so the object is destroyed with the last of them,
  /// while the device still works. T must be a type of the plugin's own.
  template <class T>
  [[nodiscard]] std::shared_ptr<T> shared(const std::function<std::shared_ptr<T>()>& make) const {
    return std::static_pointer_cast<T>(find_shared(typeid(T), make));
  }

 private:
  struct Shared;

  [[nodiscard]] std::shared_ptr<void> find_shared(std::type_index type,
                                                  const std::function<std::shared_ptr<void>()>& make) const;

  std::string runtime_;
  int threads_;
  std::unique_ptr<Shared> shared_;
};

/// The element types that a kernel takes, one letter per operand and per result. The last letter may have a '*' after
/// it and then stands for one or more. Example: "tt" -> "t" takes two operands and one result, all of the same type.
///   t  a real type, the same for every operand with this letter
///   r  any real type
///   f  f32; f64 if the first operand with the letter t, f or r is f64
///   i  an index type
///   b  i8
///   d  f64
///   s  f64 or a real type
/// A result with the letter t or f may be requested in another real type, or accumulated. The kernel then writes to
/// scratch memory, and the kernels of `cast` and `accumulate` write from there to the result.
struct KernelSignature {
  std::string operands;
  std::string results;
  /// True if the kernel itself adds to its results when OpInstance::accumulate is set.
  bool accumulates = false;
  /// Types that the letters t, r and s accept.
  std::vector<DType> reals = {DType::f32, DType::bf16, DType::f16};
  /// Types that the letter i accepts.
  std::vector<DType> indices = {DType::i32};
};

/// Enqueues the work of one launch.
using LaunchFunction = std::function<void(const KernelArguments&)>;

/// An op with all work done that is needed only once.
struct PreparedKernel {
  LaunchFunction launch;
  /// Bytes of scratch memory that each launch needs.
  std::int64_t workspace_bytes = 0;
};

/// Rank of reference kernels, the plain code that defines an op. A device on host memory runs the reference kernel of
/// an op that has no faster kernel, and the host reports it.
inline constexpr int kReferenceRank = 0;
/// Rank of a fast kernel.
inline constexpr int kStandardRank = 100;

/// One way to compute one op on the devices of one runtime.
struct KernelDefinition {
  std::string op;
  /// KernelEnvironment::runtime of the devices that can run the kernel.
  std::string runtime = "host";
  KernelSignature signature;
  /// Among the kernels that take an instance, the device runs the one with the highest rank, and among equals the first
  /// that was registered.
  int rank = kStandardRank;
  /// Prepares an instance that `signature` and `unsupported` accept. \throws ConfigurationError if that is impossible.
  std::function<PreparedKernel(const OpInstance&, const KernelEnvironment&)> prepare;
  /// Why the kernel refuses an instance whose types fit, because of its shapes, its attributes or the device. Empty
  /// function: it refuses none.
  std::function<std::optional<std::string>(const OpInstance&, const KernelEnvironment&)> unsupported = {};
};

/// A registered kernel and the plugin that registered it ("libstrata" for the reference kernels of Strata's own ops).
struct RegisteredKernel {
  KernelDefinition definition;
  std::string origin;
};

/// All kernels of a run. The host owns it.
class STRATA_API KernelRegistry {
 public:
  KernelRegistry();
  ~KernelRegistry();
  KernelRegistry(KernelRegistry&&) noexcept;
  KernelRegistry& operator=(KernelRegistry&&) noexcept;

  /// Adds a kernel of the plugin `origin`. \throws ConfigurationError if the definition lacks the op, the runtime or
  /// `prepare`, or if the signature has unknown letters.
  void add(KernelDefinition definition, const std::string& origin);
  /// Kernels of `op` for `runtime`, highest rank first.
  [[nodiscard]] std::vector<const RegisteredKernel*> find(const std::string& op, const std::string& runtime) const;
  /// Kernels of `op` for all runtimes, highest rank first.
  [[nodiscard]] const std::vector<std::unique_ptr<RegisteredKernel>>& all(const std::string& op) const;
  /// The ops that have kernels, by name.
  [[nodiscard]] std::vector<std::string> ops() const;

 private:
  std::map<std::string, std::vector<std::unique_ptr<RegisteredKernel>>> kernels_;  // by op; highest rank first
};

/// The kernel that a device selects for an instance.
struct KernelChoice {
  /// The plugin that registered it.
  std::string origin;
  /// True if a device that looks for fast kernels has found only the reference kernel.
  bool is_last_resort = false;
  /// Why the fast kernel with the highest rank does not take the instance: "operand 0 cannot be bf16; accepted: f32".
  /// Empty if there is none.
  std::string refusal = {};
};

/// The kernels that a device considers.
enum class KernelPolicy : std::uint8_t {
  fastest,        ///< the highest rank
  reference_only  ///< only reference kernels
};

/// Selects and prepares the kernels of one device. Devices implement unsupported(), workspace_bytes() and prepare()
/// with it.
class STRATA_API KernelSelector {
 public:
  /// `device`: the device's name in messages, such as "the cpu device". Registry and environment outlive the selector.
  KernelSelector(std::string device, const KernelRegistry& registry, const KernelEnvironment& environment,
                 KernelPolicy policy = KernelPolicy::fastest);

  /// Why there is no kernel for `instance`, as the kernel with the highest rank says, if possible one for as many
  /// operands and results. Empty if there is a kernel.
  [[nodiscard]] std::optional<std::string> unsupported(const OpInstance& instance) const;
  /// The kernel that prepare() uses. Empty if there is none.
  [[nodiscard]] std::optional<KernelChoice> choice(const OpInstance& instance) const;
  /// Prepares the selected kernel. \throws ConfigurationError if there is none, or if preparing it fails.
  [[nodiscard]] PreparedKernel prepare(const OpInstance& instance) const;

 private:
  struct Search {
    /// Null if there is none.
    const RegisteredKernel* kernel = nullptr;
    /// Why there is none, or why no kernel of a higher rank took the instance.
    std::string refusal;
  };

  /// Calls `call`, which runs code of the kernel, and returns its result. Adds the names of the op and of the kernel's
  /// plugin to the message of an exception.
  template <class Call>
  auto guarded(const RegisteredKernel& kernel, const OpInstance& instance, const Call& call) const;
  [[nodiscard]] Search search(const OpInstance& instance) const;
  [[nodiscard]] std::optional<std::string> mismatch(const RegisteredKernel& kernel, const OpInstance& instance) const;
  [[nodiscard]] PreparedKernel prepare(const RegisteredKernel& kernel, const OpInstance& instance) const;

  std::string device_;
  const KernelRegistry& registry_;
  const KernelEnvironment& environment_;
  KernelPolicy policy_;
};

}  // namespace strata

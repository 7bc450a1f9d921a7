#include <vector>

#include "cpu_kernel.hpp"
#include "kernels/vector_kernels.hpp"
#include "strata/random.hpp"

namespace strata::cpu {
namespace {

/// The dims of a tensor, for the kernel that goes through the elements in memory order.
class TensorIndices {
 public:
  explicit TensorIndices(const OpInstance& op) : dims_(op.results[0].dims.size()) {
    for (const Dim& dim : op.results[0].dims) indices_.emplace_back(op, dim);
  }
  const IndexedDim* at(int micro_batch) {
    for (std::size_t i = 0; i < indices_.size(); ++i) dims_[i] = indices_[i].dim(micro_batch);
    return dims_.data();
  }
  [[nodiscard]] int count() const { return static_cast<int>(dims_.size()); }

 private:
  std::vector<DimIndices> indices_;
  std::vector<IndexedDim> dims_;
};

/// Dropout element by element. It is needed if a dim other than the first advances with the micro-batch. Random numbers
/// are drawn in the step's order of elements, in which that dim is the outermost one, so memory order differs from it.
class ScatteredDropout {
 public:
  explicit ScatteredDropout(const OpInstance& op) : op_(op), strides_(op.results[0].dims.size()) {
    std::int64_t stride = 1;
    for (std::size_t i = strides_.size(); i-- > 0;) {
      if (op.results[0].dims[i] == op.micro_batch_dim) continue;
      strides_[i] = stride;
      stride *= map(i).global_size;
    }
    for (std::size_t i = 0; i < strides_.size(); ++i) {
      if (op.results[0].dims[i] == op.micro_batch_dim) strides_[i] = stride;
    }
  }

  template <class T>
  void run(const DropoutSettings& settings, const KernelArguments& arguments) const {
    const T* x = in<T>(arguments, 0);
    const T* residual = op_.operands.size() == 2 ? in<T>(arguments, 1) : nullptr;
    T* y = out<T>(arguments, 0);
    const std::uint32_t threshold = random::drop_threshold(op_.attributes.number("p"));
    const auto factor = static_cast<float>(1.0 / (1.0 - settings.probability));
    for (std::int64_t i = 0; i < elements(op_.results[0]); ++i) {
      const std::uint64_t index = global_element(i, arguments.context.micro_batch);
      float value = random::word(settings.stream_key, index) >= threshold ? widen(x[i]) * factor : 0.0F;
      if (residual != nullptr) value += widen(residual[i]);
      store_value(y[i], value, op_.accumulate);
    }
  }

 private:
  [[nodiscard]] const strata::IndexMap& map(std::size_t dim) const { return index_map(op_, op_.results[0].dims[dim]); }

  [[nodiscard]] std::uint64_t global_element(std::int64_t local, int micro_batch) const {
    const OperandDescription& result = op_.results[0];
    std::int64_t index = 0;
    for (std::size_t i = strides_.size(); i-- > 0;) {
      std::int64_t global = map(i).global_index(local % result.shape[i]);
      if (result.dims[i] == op_.micro_batch_dim) global += map(i).global_size * micro_batch;
      index += global * strides_[i];
      local /= result.shape[i];
    }
    return static_cast<std::uint64_t>(index);
  }

  OpInstance op_;
  Shape strides_;
};

/// True if the order of elements in memory is the order in which random numbers are drawn.
bool is_in_step_order(const OpInstance& op) {
  const Dims& dims = op.results[0].dims;
  return !dims.empty() && (!op.micro_batch_dim || find_dim(dims, *op.micro_batch_dim) <= 0);
}

auto settings_of(const OpInstance& op) {
  return [seed = op.seed, name = op.name, probability = op.attributes.number("p")](const StepContext& context) {
    return DropoutSettings{probability, random::stream_key(seed, name, context.step)};
  };
}

/// dropout, and dropout_add, whose second operand is the residual.
constexpr auto kDropout = []<class T>(const OpInstance& op, const CpuEnvironment& environment) -> PreparedKernel {
  if (!is_in_step_order(op)) {
    return {[settings = settings_of(op), dropout = ScatteredDropout(op)](const KernelArguments& arguments) {
      dropout.run<T>(settings(arguments.context), arguments);
    }};
  }
  const auto forward = dropout_kernels(environment.instruction_set()).of<T>().forward;
  return {[forward, settings = settings_of(op), indices = TensorIndices(op), accumulate = op.accumulate,
           residual = Operand<T>{op.operands.size() == 2 ? 1 : kAbsent},
           threads = environment.threads()](const KernelArguments& arguments) mutable {
    forward(settings(arguments.context), indices.at(arguments.context.micro_batch), indices.count(),
            in<T>(arguments, 0), argument(residual, arguments), out<T>(arguments, 0), accumulate, threads);
  }};
};

}  // namespace

void register_dropout(Registration& registration) {
  add(registration, {"dropout", "t", "t", true}, kDropout);
  add(registration, {"dropout_add", "tt", "t", true}, kDropout);
}

}  // namespace strata::cpu

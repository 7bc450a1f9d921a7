#include <memory>

#include "cpu_kernel.hpp"
#include "kernels/matrix_product.hpp"
#include "kernels/vector_kernels.hpp"
#include "shared/broadcast.hpp"
#include "shared/einsum.hpp"

namespace strata::cpu {
namespace {

using devices::EinsumPlan;
using devices::Permutation;
using devices::permute;

/// Products of a batch below this size are computed without oneDNN, because the call would cost more than the product.
constexpr std::int64_t kSmallProduct = 512;

EinsumPlan plan_of(const OpInstance& op) {
  return devices::plan_einsum(op.operands[0], op.operands[1], op.results[0], devices::MatrixLayouts::contiguous);
}

/// Executes the plan of an einsum.
class Einsum {
 public:
  /// `add_bias`: the product adds the third operand, a bias over its columns.
  Einsum(const OpInstance& op, int threads, bool add_bias)
      : plan_(plan_of(op)),
        type_(op.operands[0].dtype),
        result_type_(op.results[0].dtype),
        accumulate_(op.accumulate),
        add_bias_(add_bias) {
    if (is_small() || result_type_ != type_) {
      // These products produce f32. A shorter result is converted from it during unpacking.
      if (result_type_ != DType::f32 && !plan_.unpack) plan_.unpack = Permutation{{elements(op.results[0])}, {1}};
    }
    if (!is_small()) {
      MatrixProductShape shape;
      shape.rows = plan_.rows;
      shape.columns = plan_.columns;
      shape.depth = plan_.depth;
      shape.transpose_a = plan_.a.transposed;
      shape.transpose_b = plan_.b.transposed;
      shape.accumulate = accumulate_ && !plan_.unpack;
      shape.bias = add_bias_;
      shape.element = element_of(type_);
      shape.result = plan_.unpack ? Element::f32 : element_of(result_type_);
      product_ = std::make_unique<MatrixProduct>(shape, threads);
    }
    const auto element_bytes = static_cast<std::int64_t>(size_of(type_));
    a_offset_ = workspace_.reserve(plan_.pack_a ? plan_.pack_a->elements() * element_bytes : 0);
    b_offset_ = workspace_.reserve(plan_.pack_b ? plan_.pack_b->elements() * element_bytes : 0);
    c_offset_ = workspace_.reserve(plan_.unpack ? plan_.unpack->elements() * std::int64_t{sizeof(float)} : 0);
    product_offset_ = workspace_.reserve(product_ ? product_->workspace_bytes() : 0);
  }

  [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_.bytes(); }

  void run(const KernelArguments& arguments) const {
    with_element(type_, [&]<class T>() { run_as<T>(arguments); });
  }

 private:
  [[nodiscard]] bool is_small() const {
    return plan_.batch > 1 && plan_.rows * plan_.columns * plan_.depth < kSmallProduct;
  }

  template <class T>
  static const T* packed(const std::optional<Permutation>& pack, const T* from, void* to) {
    if (!pack) return from;
    auto* destination = static_cast<T*>(to);
    permute(*pack, from, [destination](std::int64_t i, T value) { destination[i] = value; });
    return destination;
  }

  template <class T>
  void run_as(const KernelArguments& arguments) const {
    char* workspace = static_cast<char*>(arguments.workspace);
    const T* a = packed(plan_.pack_a, in<T>(arguments, plan_.swapped ? 1 : 0), workspace + a_offset_);
    const T* b = packed(plan_.pack_b, in<T>(arguments, plan_.swapped ? 0 : 1), workspace + b_offset_);
    const void* bias = add_bias_ ? arguments.operands[2] : nullptr;
    char* c = plan_.unpack ? workspace + c_offset_ : out<char>(arguments, 0);
    const std::size_t c_bytes =
        static_cast<std::size_t>(plan_.rows * plan_.columns) * (plan_.unpack ? sizeof(float) : size_of(result_type_));
    for (std::int64_t i = 0; i < plan_.batch; ++i) {
      const T* a_matrix = a + i * plan_.rows * plan_.depth;
      const T* b_matrix = b + i * plan_.depth * plan_.columns;
      char* c_matrix = c + static_cast<std::size_t>(i) * c_bytes;
      if (product_) {
        product_->run(a_matrix, b_matrix, bias, c_matrix, workspace + product_offset_);
      } else {
        multiply_small(a_matrix, b_matrix, reinterpret_cast<float*>(c_matrix));
      }
    }
    if (!plan_.unpack) return;
    with_element(result_type_, [&]<class Y>() { unpack(reinterpret_cast<const float*>(c), out<Y>(arguments, 0)); });
  }

  template <class T>
  void multiply_small(const T* a, const T* b, float* c) const {
    const bool add = accumulate_ && !plan_.unpack;
    for (std::int64_t row = 0; row < plan_.rows; ++row) {
      for (std::int64_t column = 0; column < plan_.columns; ++column) {
        float sum = 0.0F;
        for (std::int64_t k = 0; k < plan_.depth; ++k) {
          const T left = plan_.a.transposed ? a[k * plan_.rows + row] : a[row * plan_.depth + k];
          const T right = plan_.b.transposed ? b[column * plan_.depth + k] : b[k * plan_.columns + column];
          sum += widen(left) * widen(right);
        }
        float& to = c[row * plan_.columns + column];
        to = add ? to + sum : sum;
      }
    }
  }

  template <class T>
  void unpack(const float* c, T* y) const {
    permute(*plan_.unpack, c,
            [y, accumulate = accumulate_](std::int64_t i, float value) { store_value(y[i], value, accumulate); });
  }

  EinsumPlan plan_;
  DType type_;
  DType result_type_;
  bool accumulate_;
  bool add_bias_;
  std::unique_ptr<MatrixProduct> product_;
  std::int64_t a_offset_ = 0;
  std::int64_t b_offset_ = 0;
  std::int64_t c_offset_ = 0;
  std::int64_t product_offset_ = 0;
  kernels::WorkspacePlan workspace_;
};

/// True if the matrix product itself can add the bias.
bool adds_bias(const OpInstance& op) { return devices::is_over_columns(plan_of(op), op.operands[2], op.results[0]); }

std::optional<std::string> unsupported_linear(const OpInstance& op) {
  return devices::unsupported_einsum(op.operands[0], op.operands[1], op.results[0]);
}

std::optional<std::string> unsupported_linear_bias(const OpInstance& op) {
  if (auto reason = unsupported_linear(op)) return reason;
  if (!adds_bias(op) && op.results[0].dtype != op.operands[2].dtype) {
    return "adds a bias of " + std::string(to_string(op.operands[2].dtype)) + " to a result of another type";
  }
  return devices::unsupported_broadcast(op.results[0], op.operands[2]);
}

PreparedKernel prepare_linear(const OpInstance& op, const CpuEnvironment& environment) {
  return devices::prepared<Einsum>(op, environment.threads(), false);
}

PreparedKernel prepare_linear_bias(const OpInstance& op, const CpuEnvironment& environment) {
  const bool in_product = adds_bias(op);
  const PreparedKernel product = devices::prepared<Einsum>(op, environment.threads(), in_product);
  if (in_product) return product;
  return with_element(op.results[0].dtype, [&]<class T>() -> PreparedKernel {
    const BroadcastShape shape = devices::broadcast_shape(op.results[0], op.operands[2]);
    const auto add_broadcast = elementwise_kernels(environment.instruction_set()).of<T>().add_broadcast;
    return {[=, threads = environment.threads()](const KernelArguments& arguments) {
              product.launch(arguments);
              T* y = out<T>(arguments, 0);
              add_broadcast(shape, y, in<T>(arguments, 2), y, threads);
            },
            product.workspace_bytes};
  });
}

}  // namespace

void register_linear(Registration& registration) {
  add(registration, {"linear", "tt", "r", true, unsupported_linear}, prepare_linear);
  add(registration, {"linear_bias", "ttt", "r", true, unsupported_linear_bias}, prepare_linear_bias);
}

}  // namespace strata::cpu

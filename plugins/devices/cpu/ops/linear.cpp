#include <algorithm>
#include <memory>

#include "einsum.hpp"
#include "kernels/matrix_product.hpp"
#include "ops/operations.hpp"
#include "strata/half.hpp"

namespace strata::cpu {
namespace {

/// Products of a batch that are smaller than this are not worth a call of the library.
constexpr std::int64_t kSmallProduct = 512;

float widen(float value) { return value; }
float widen(std::uint16_t value) { return from_bf16(value); }

/// The plan of an einsum, carried out.
class Einsum {
 public:
  /// `add_bias`: the product adds the third operand, a bias over the columns.
  Einsum(const OpInstance& op, int threads, bool add_bias)
      : plan_(plan_einsum(op.operands[0], op.operands[1], op.results[0])),
        bf16_(op.operands[0].dtype == DType::bf16),
        bf16_result_(op.results[0].dtype == DType::bf16),
        accumulate_(op.accumulate),
        add_bias_(add_bias) {
    // A result in bf16 is made from one in f32, in order.
    if (bf16_result_ && !plan_.unpack) plan_.unpack = Permutation{{elements(op.results[0])}, {1}};
    if (!is_small()) {
      MatrixProductShape shape;
      shape.rows = plan_.rows;
      shape.columns = plan_.columns;
      shape.depth = plan_.depth;
      shape.transpose_a = plan_.transpose_a;
      shape.transpose_b = plan_.transpose_b;
      shape.accumulate = accumulate_ && !plan_.unpack;
      shape.bias = add_bias_;
      shape.element = bf16_ ? MatrixElement::bf16 : MatrixElement::f32;
      product_ = std::make_unique<MatrixProduct>(shape, threads);
    }
    reserve(a_offset_, plan_.pack_a ? plan_.pack_a->elements() * element_bytes() : 0);
    reserve(b_offset_, plan_.pack_b ? plan_.pack_b->elements() * element_bytes() : 0);
    reserve(c_offset_, plan_.unpack ? plan_.unpack->elements() * std::int64_t{sizeof(float)} : 0);
    reserve(product_offset_, product_ ? product_->workspace_bytes() : 0);
  }

  [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_bytes_; }

  void run(const KernelArguments& arguments) const {
    if (bf16_) {
      run_as<std::uint16_t>(arguments);
    } else {
      run_as<float>(arguments);
    }
  }

 private:
  [[nodiscard]] bool is_small() const {
    return plan_.batch > 1 && plan_.rows * plan_.columns * plan_.depth < kSmallProduct;
  }
  [[nodiscard]] std::int64_t element_bytes() const { return bf16_ ? 2 : 4; }

  void reserve(std::int64_t& offset, std::int64_t size) {
    offset = workspace_bytes_;
    workspace_bytes_ += aligned(size);
  }

  template <class Element>
  static const Element* packed(const std::optional<Permutation>& pack, const Element* from, void* to) {
    if (!pack) return from;
    auto* destination = static_cast<Element*>(to);
    permute(*pack, from, [destination](std::int64_t i, Element value) { destination[i] = value; });
    return destination;
  }

  template <class Element>
  void run_as(const KernelArguments& arguments) const {
    char* workspace = static_cast<char*>(arguments.workspace);
    const auto* a = static_cast<const Element*>(arguments.operands[plan_.swapped ? 1 : 0]);
    const auto* b = static_cast<const Element*>(arguments.operands[plan_.swapped ? 0 : 1]);
    a = packed(plan_.pack_a, a, workspace + a_offset_);
    b = packed(plan_.pack_b, b, workspace + b_offset_);
    void* result = arguments.results[0];
    const float* bias = add_bias_ ? f32(arguments, 2) : nullptr;
    float* c = static_cast<float*>(plan_.unpack ? workspace + c_offset_ : result);
    for (std::int64_t i = 0; i < plan_.batch; ++i) {
      const Element* a_matrix = a + i * plan_.rows * plan_.depth;
      const Element* b_matrix = b + i * plan_.depth * plan_.columns;
      float* c_matrix = c + i * plan_.rows * plan_.columns;
      if (product_) {
        product_->run(a_matrix, b_matrix, bias, c_matrix, workspace + product_offset_);
      } else {
        multiply_small(a_matrix, b_matrix, c_matrix);
      }
    }
    if (plan_.unpack) unpack(c, result);
  }

  template <class Element>
  void multiply_small(const Element* a, const Element* b, float* c) const {
    const bool add = accumulate_ && !plan_.unpack;
    for (std::int64_t row = 0; row < plan_.rows; ++row) {
      for (std::int64_t column = 0; column < plan_.columns; ++column) {
        float sum = 0.0F;
        for (std::int64_t k = 0; k < plan_.depth; ++k) {
          const Element left = plan_.transpose_a ? a[k * plan_.rows + row] : a[row * plan_.depth + k];
          const Element right = plan_.transpose_b ? b[column * plan_.depth + k] : b[k * plan_.columns + column];
          sum += widen(left) * widen(right);
        }
        float& to = c[row * plan_.columns + column];
        to = add ? to + sum : sum;
      }
    }
  }

  void unpack(const float* c, void* result) const {
    if (bf16_result_) {
      auto* y = static_cast<std::uint16_t*>(result);
      permute(*plan_.unpack, c, [y, accumulate = accumulate_](std::int64_t i, float value) {
        y[i] = to_bf16(accumulate ? from_bf16(y[i]) + value : value);
      });
    } else {
      auto* y = static_cast<float*>(result);
      permute(*plan_.unpack, c,
              [y, accumulate = accumulate_](std::int64_t i, float value) { y[i] = accumulate ? y[i] + value : value; });
    }
  }

  EinsumPlan plan_;
  bool bf16_;
  bool bf16_result_;
  bool accumulate_;
  bool add_bias_;
  std::unique_ptr<MatrixProduct> product_;
  std::int64_t a_offset_ = 0;
  std::int64_t b_offset_ = 0;
  std::int64_t c_offset_ = 0;
  std::int64_t product_offset_ = 0;
  std::int64_t workspace_bytes_ = 0;
};

/// True if the product itself can add the bias: one matrix product whose columns are the bias's dims.
bool adds_bias(const OpInstance& op) {
  const Dims& bias = op.operands[2].dims;
  const Dims& y = op.results[0].dims;
  if (bias.size() > y.size() || !std::equal(bias.rbegin(), bias.rend(), y.rbegin())) return false;
  const EinsumPlan plan = plan_einsum(op.operands[0], op.operands[1], op.results[0]);
  return plan.batch == 1 && !plan.unpack && plan.columns == elements(op.operands[2]);
}

}  // namespace

std::optional<std::string> unsupported_linear(const OpInstance& op) {
  return unsupported_einsum(op.operands[0], op.operands[1], op.results[0]);
}

std::optional<std::string> unsupported_linear_bias(const OpInstance& op) {
  const auto reason = unsupported_linear(op);
  return reason ? reason : unsupported_broadcast(op.results[0], op.operands[2]);
}

ComputeKernel prepare_linear(const OpInstance& op, const Environment& environment) {
  const auto einsum = std::make_shared<Einsum>(op, environment.threads, false);
  return {[einsum](const KernelArguments& arguments) { einsum->run(arguments); }, einsum->workspace_bytes()};
}

ComputeKernel prepare_linear_bias(const OpInstance& op, const Environment& environment) {
  const bool in_product = adds_bias(op);
  const auto einsum = std::make_shared<Einsum>(op, environment.threads, in_product);
  const BroadcastShape shape = broadcast_shape(op.results[0], op.operands[2]);
  const auto add_broadcast = environment.library->elementwise.add_broadcast;
  return {[=, threads = environment.threads](const KernelArguments& arguments) {
            einsum->run(arguments);
            float* y = f32_result(arguments, 0);
            if (!in_product) add_broadcast(shape, y, f32(arguments, 2), y, threads);
          },
          einsum->workspace_bytes()};
}

}  // namespace strata::cpu

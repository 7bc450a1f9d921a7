#include <algorithm>
#include <memory>
#include <string>

#include "device/cuda_kernel.hpp"
#include "device/operands.hpp"
#include "kernels/element_run.cuh"
#include "kernels/strided_index.cuh"
#include "language/launch.hpp"
#include "launchers/einsum_product.hpp"
#include "launchers/permute.hpp"
#include "matrix/matrix_product.hpp"
#include "ops/linear.hpp"
#include "shared/broadcast.hpp"
#include "shared/einsum.hpp"

namespace strata::cuda {

// Batches of products that are too small for tiles.

inline constexpr int kSmallProductThreads = 256;

/// Strides of a batch of matrices, in elements.
struct MatrixStrides {
  std::int64_t batch = 0;
  std::int64_t row = 0;
  std::int64_t column = 0;
};

/// c = a · b for every matrix of a batch.
struct SmallProduct {
  std::int64_t batch = 1;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t depth = 1;
  MatrixStrides a;
  MatrixStrides b;
  MatrixStrides c;

  [[nodiscard]] __host__ __device__ std::int64_t elements() const { return batch * rows * columns; }
};

/// c (+)= a · b, one element per thread.
template <class T, class Y>
__global__ void __launch_bounds__(kSmallProductThreads)
    multiply_small(SmallProduct shape, const T* a, const T* b, Y* c, bool accumulate) {
  using Value = Accumulate<T>;
  const std::int64_t element = std::int64_t{blockIdx.x} * kSmallProductThreads + threadIdx.x;
  if (element >= shape.elements()) return;
  const std::int64_t column = element % shape.columns;
  const std::int64_t row = element / shape.columns % shape.rows;
  const std::int64_t matrix = element / shape.columns / shape.rows;
  a += matrix * shape.a.batch + row * shape.a.row;
  b += matrix * shape.b.batch + column * shape.b.column;
  c += matrix * shape.c.batch + row * shape.c.row + column * shape.c.column;
  Value sum = 0;
  for (std::int64_t k = 0; k < shape.depth; ++k) {
    sum += to_computed<Value>(a[k * shape.a.column]) * to_computed<Value>(b[k * shape.b.row]);
  }
  *c = to_element<Y>(accumulate ? to_computed<Value>(*c) + sum : sum);
}

namespace {

using devices::EinsumPlan;
using devices::MatrixLayout;

/// Products of a batch with at most this many multiplications do not fill a tile of the library.
constexpr std::int64_t kSmallProduct = 4096;

/// The type of sums.
DType sum_type(DType operand) { return operand == DType::f64 ? DType::f64 : DType::f32; }

MatrixStrides strides(const MatrixLayout& layout) {
  if (layout.transposed) return {layout.batch_stride, 1, layout.leading};
  return {layout.batch_stride, layout.leading, 1};
}

bool is_small(const EinsumPlan& plan) {
  return plan.batch > 1 && plan.rows * plan.columns * plan.depth <= kSmallProduct;
}

/// Executes the plan of an einsum.
class Einsum {
 public:
  Einsum(const OpInstance& op, MatrixLibrary& library)
      : plan_(plan_of(op)), type_(op.operands[0].dtype), has_bias_(op.operands.size() == 3) {
    const OperandDescription& y = op.results[0];
    const DType sum = sum_type(type_);
    // If the result type is neither that of the sum nor that of the operands, unpacking converts the sum.
    if (y.dtype != type_ && y.dtype != sum && !plan_.unpack) plan_.unpack = devices::permutation_to(y, y);
    result_type_ = plan_.unpack ? sum : y.dtype;
    const bool accumulate = op.accumulate || has_bias_;
    accumulate_ = accumulate && !plan_.unpack;
    if (!is_small(plan_)) choose_products(op, library);
    if (plan_.pack_a) pack_a_ = prepare_permute(*plan_.pack_a, type_, type_, false);
    if (plan_.pack_b) pack_b_ = prepare_permute(*plan_.pack_b, type_, type_, false);
    if (plan_.unpack) unpack_ = prepare_permute(*plan_.unpack, sum, y.dtype, accumulate);
    if (has_bias_) {
      add_bias_ = prepare_permute(devices::permutation_to(op.operands[2], y), type_, y.dtype, op.accumulate);
    }
    reserve();
  }

  [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_.bytes(); }

  void run(const KernelArguments& arguments) const {
    const auto packed = [&](const PermuteFunction& pack, const void* from, std::int64_t offset) -> const void* {
      if (!pack) return from;
      void* to = workspace_at<char>(arguments, offset);
      pack(arguments.stream, from, to);
      return to;
    };
    const void* a = packed(pack_a_, arguments.operands[plan_.swapped ? 1 : 0], a_offset_);
    const void* b = packed(pack_b_, arguments.operands[plan_.swapped ? 0 : 1], b_offset_);
    const void* bias = has_bias_ ? arguments.operands[2] : nullptr;
    void* y = arguments.results[0];
    void* c = unpack_ ? workspace_at<char>(arguments, c_offset_) : y;
    multiply({b, a, bias, c, arguments.workspace}, y, arguments.stream);
    if (unpack_) unpack_(arguments.stream, c, y);
  }

 private:
  void choose_products(const OpInstance& op, MatrixLibrary& library) {
    MatrixProductShape shape = transposed_product(plan_);
    shape.operand = type_;
    shape.result = result_type_;
    shape.accumulate = accumulate_;
    product_ = library.product(shape);
    if (has_bias_ && result_type_ == type_ && devices::is_over_columns(plan_, op.operands[2], op.results[0])) {
      shape.accumulate = op.accumulate;
      shape.epilogue = MatrixEpilogue::bias;
      product_with_bias_ = library.product(shape);
    }
  }

  void reserve() {
    // The library's part comes first, because only the start of the workspace has the alignment that it requires.
    const std::int64_t of_product = product_ ? product_->workspace_bytes() : 0;
    workspace_.reserve(std::max(of_product, product_with_bias_ ? product_with_bias_->workspace_bytes() : 0));
    const auto element = static_cast<std::int64_t>(size_of(type_));
    const auto sum = static_cast<std::int64_t>(size_of(result_type_));
    a_offset_ = workspace_.reserve(plan_.pack_a ? plan_.pack_a->elements() * element : 0);
    b_offset_ = workspace_.reserve(plan_.pack_b ? plan_.pack_b->elements() * element : 0);
    c_offset_ = workspace_.reserve(plan_.unpack ? plan_.unpack->elements() * sum : 0);
  }

  /// A bias that the product cannot add is written to y first. The product or its unpacking then adds to y.
  void multiply(const MatrixProductArguments& arguments, void* y, Stream stream) const {
    if (product_with_bias_ && product_with_bias_->takes(arguments)) return product_with_bias_->run(arguments, stream);
    if (has_bias_) add_bias_(stream, arguments.bias, y);
    if (product_) return product_->run(arguments, stream);
    with_element(type_, [&]<class T>() {
      if (result_type_ == type_) return launch_small<T, T>(arguments, stream);
      launch_small<T, Accumulate<T>>(arguments, stream);
    });
  }

  template <class T, class Y>
  void launch_small(const MatrixProductArguments& arguments, Stream stream) const {
    const SmallProduct shape{plan_.batch,      plan_.rows,       plan_.columns,   plan_.depth,
                             strides(plan_.a), strides(plan_.b), strides(plan_.c)};
    const Geometry geometry{{blocks_for(shape.elements(), kSmallProductThreads)}, {kSmallProductThreads}};
    launch(multiply_small<T, Y>, geometry, stream, shape, static_cast<const T*>(arguments.b),
           static_cast<const T*>(arguments.a), static_cast<Y*>(arguments.d), accumulate_);
  }

  EinsumPlan plan_;
  DType type_;
  bool has_bias_;
  DType result_type_ = DType::f32;  ///< type of the product's result
  bool accumulate_ = false;         ///< the product adds to its result
  std::shared_ptr<MatrixProduct> product_;
  std::shared_ptr<MatrixProduct> product_with_bias_;
  PermuteFunction pack_a_;
  PermuteFunction pack_b_;
  PermuteFunction unpack_;
  PermuteFunction add_bias_;
  WorkspacePlan workspace_;
  std::int64_t a_offset_ = 0;
  std::int64_t b_offset_ = 0;
  std::int64_t c_offset_ = 0;
};

}  // namespace

std::optional<std::string> unsupported_linear(const OpInstance& op) {
  for (const auto* list : {&op.operands, &op.results}) {
    for (const OperandDescription& each : *list) {
      if (each.dims.size() > StridedIndex::kMaxDims) return "[" + join(each.dims) + "] has too many dims";
    }
  }
  return devices::unsupported_einsum(op.operands[0], op.operands[1], op.results[0]);
}

std::optional<std::string> unsupported_linear_bias(const OpInstance& op) {
  if (auto reason = unsupported_linear(op)) return reason;
  const DType bias = op.operands[2].dtype;
  const DType result = op.results[0].dtype;
  if (!can_permute(bias, result)) {
    return "adds no bias of " + std::string(to_string(bias)) + " to a result of " + std::string(to_string(result));
  }
  return devices::unsupported_broadcast(op.results[0], op.operands[2]);
}

PreparedKernel prepare_linear(const OpInstance& op, const CudaEnvironment& environment) {
  const auto einsum = std::make_shared<Einsum>(op, environment.matrices());
  return {[einsum](const KernelArguments& arguments) { einsum->run(arguments); }, einsum->workspace_bytes()};
}

void register_linear(Registration& registration) {
  registration.add(kernel({"linear", "tt", "r", prepare_linear, true, unsupported_linear}));
  registration.add(kernel({"linear_bias", "ttt", "r", prepare_linear, true, unsupported_linear_bias}));
}

}  // namespace strata::cuda

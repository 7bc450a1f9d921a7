#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "device/cuda_kernel.hpp"
#include "kernels/activation.cuh"
#include "kernels/element_run.cuh"
#include "kernels/strided_index.cuh"
#include "language/launch.hpp"
#include "launchers/permute.hpp"
#include "matrix/matrix_product.hpp"
#include "ops/activation.hpp"
#include "shared/broadcast.hpp"
#include "shared/einsum.hpp"

namespace strata::cuda {
namespace {

using devices::EinsumPlan;

MatrixPlacement placement(const devices::MatrixLayout& layout) { return {layout.leading, layout.batch_stride}; }

}  // namespace

EinsumPlan plan_of(const OpInstance& op) {
  return devices::plan_einsum(op.operands[0], op.operands[1], op.results[0], devices::MatrixLayouts::strided);
}

MatrixProductShape transposed_product(const EinsumPlan& plan) {
  MatrixProductShape shape;
  shape.batch = plan.batch;
  shape.rows = plan.columns;
  shape.columns = plan.rows;
  shape.depth = plan.depth;
  shape.transpose_a = plan.b.transposed;
  shape.transpose_b = plan.a.transposed;
  shape.a = placement(plan.b);
  shape.b = placement(plan.a);
  shape.d = placement(plan.c);
  return shape;
}

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
  return devices::prepared<Einsum>(op, environment.matrices());
}

// Products with GELU: one kernel if the library offers GELU as an epilogue, otherwise two kernels.

namespace {

using devices::EinsumPlan;

/// The library's product with an epilogue. Null if it has none for tensors with this layout.
std::shared_ptr<MatrixProduct> product_with(MatrixEpilogue epilogue, const EinsumPlan& plan, const OpInstance& op,
                                            MatrixLibrary& library) {
  if (plan.pack_a || plan.pack_b || plan.unpack) return nullptr;
  MatrixProductShape shape = transposed_product(plan);
  shape.operand = op.operands[0].dtype;
  shape.result = op.results[0].dtype;
  shape.epilogue = epilogue;
  return library.product(shape);
}

/// The fused kernel, and the two kernels that replace it for arrays that it does not support.
struct FusedProduct {
  std::shared_ptr<MatrixProduct> product;
  bool swapped = false;  ///< the plan's a is the second operand
  PreparedKernel first;
  PreparedKernel second;

  [[nodiscard]] std::int64_t workspace_bytes() const {
    return std::max({product ? product->workspace_bytes() : 0, first.workspace_bytes, second.workspace_bytes});
  }

  /// Runs the fused kernel. \return false if the two kernels are needed.
  bool run(const KernelArguments& arguments, const void* bias, void* aux) const {
    if (!product) return false;
    const void* a = arguments.operands[swapped ? 1 : 0];
    const void* b = arguments.operands[swapped ? 0 : 1];
    const MatrixProductArguments arrays{b, a, bias, arguments.results[0], arguments.workspace, aux};
    if (!product->takes(arrays)) return false;
    product->run(arrays, arguments.stream);
    return true;
  }
};

std::optional<std::string> unsupported_fusion(const OpInstance& op) {
  if (op.attributes.word("kind") != GeluTanh::kKind) return "only gelu_tanh is part of a product";
  if (op.accumulate) return "a product with an activation is not added to anything";
  return std::nullopt;
}

std::optional<std::string> unsupported_linear_bias_activation(const OpInstance& op) {
  if (auto reason = unsupported_fusion(op)) return reason;
  return unsupported_linear_bias(op);
}

std::optional<std::string> unsupported_linear_activation_gradient(const OpInstance& op) {
  if (auto reason = unsupported_fusion(op)) return reason;
  return unsupported_linear(op);
}

PreparedKernel prepare_linear_bias_activation(const OpInstance& op, const CudaEnvironment& environment) {
  const bool saves_input = op.results.size() > 1;
  OpInstance linear = op;
  linear.results = {op.results.back()};
  OpInstance activation = op;
  activation.operands = linear.results;
  activation.results.resize(1);

  FusedProduct fused;
  fused.first = prepare_linear(linear, environment);
  fused.second = prepare_activation(activation);
  const EinsumPlan plan = plan_of(op);
  fused.swapped = plan.swapped;
  if (devices::is_over_columns(plan, op.operands[2], op.results[0])) {
    const auto epilogue = saves_input ? MatrixEpilogue::gelu_aux_bias : MatrixEpilogue::gelu_bias;
    fused.product = product_with(epilogue, plan, op, environment.matrices());
  }
  const auto launch = [fused](const KernelArguments& arguments) {
    void* u = arguments.results.back();
    if (fused.run(arguments, arguments.operands[2], arguments.results.size() > 1 ? u : nullptr)) return;
    KernelArguments first = arguments;
    first.results = arguments.results.last(1);
    fused.first.launch(first);
    const std::array<const void*, 1> read = {u};
    KernelArguments second = arguments;
    second.operands = read;
    fused.second.launch(second);
  };
  return {launch, fused.workspace_bytes()};
}

PreparedKernel prepare_linear_activation_gradient(const OpInstance& op, const CudaEnvironment& environment) {
  OpInstance linear = op;
  linear.operands.resize(2);
  OpInstance gradient = op;
  gradient.operands = {op.results[0], op.operands[2]};

  FusedProduct fused;
  fused.first = prepare_linear(linear, environment);
  fused.second = prepare_activation_gradient(gradient);
  const EinsumPlan plan = plan_of(op);
  fused.swapped = plan.swapped;
  fused.product = product_with(MatrixEpilogue::dgelu, plan, op, environment.matrices());
  const auto launch = [fused](const KernelArguments& arguments) {
    // The library only reads aux here.
    if (fused.run(arguments, nullptr, const_cast<void*>(arguments.operands[2]))) return;
    KernelArguments first = arguments;
    first.operands = arguments.operands.first(2);
    fused.first.launch(first);
    const std::array<const void*, 2> read = {arguments.results[0], arguments.operands[2]};
    KernelArguments second = arguments;
    second.operands = read;
    fused.second.launch(second);
  };
  return {launch, fused.workspace_bytes()};
}

}  // namespace

void register_linear(Registration& registration) {
  add(registration, {"linear", "tt", "r", true, unsupported_linear}, prepare_linear);
  add(registration, {"linear_bias", "ttt", "r", true, unsupported_linear_bias}, prepare_linear);
  // "Accumulates" is set so that unsupported_fusion() is asked about accumulating instances, which it refuses.
  add(registration, {"linear_bias_activation", "ttt", "t*", true, unsupported_linear_bias_activation},
      prepare_linear_bias_activation);
  add(registration, {"linear_activation_gradient", "ttt", "t", true, unsupported_linear_activation_gradient},
      prepare_linear_activation_gradient);
}

}  // namespace strata::cuda

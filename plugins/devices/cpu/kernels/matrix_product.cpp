#include "kernels/matrix_product.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "kernels/onednn.hpp"
#include "kernels/vector_kernels.hpp"
namespace strata::cpu {
namespace {

using DataType = dnnl::memory::data_type;

/// Elements of b from which the product of few rows has kernels of its own.
constexpr std::int64_t kLargeMatrix = 4096;

std::string describe(const MatrixProductShape& shape) {
  return "[" + std::to_string(shape.rows) + ", " + std::to_string(shape.depth) + "] x [" + std::to_string(shape.depth) +
         ", " + std::to_string(shape.columns) + "]";
}

/// The description of a matrix [rows, columns], which may be stored transposed.
dnnl::memory::desc matrix(std::int64_t rows, std::int64_t columns, bool transposed, DataType type) {
  using Dims = dnnl::memory::dims;
  return {Dims{rows, columns}, type, transposed ? Dims{1, rows} : Dims{columns, 1}};
}

DataType data_type(Element element) { return element == Element::bf16 ? DataType::bf16 : DataType::f32; }

/// The f32 copies of the operands of one product, one after another in the workspace.
struct WideOperands {
  float* a;
  float* b;
  float* bias;
  float* c;
};

}  // namespace

struct MatrixProduct::State {
  State(const MatrixProductShape& wanted, int thread_count) : shape(wanted), threads(thread_count) {
    if (is_empty() || has_few_rows()) return;
    const OneDnnThreads scope(threads);
    widen = shape.element == Element::f16 || (shape.element == Element::bf16 && !prepare_bf16());
    if (shape.element == Element::bf16 && !widen) return;
    // dnnl_sgemm is faster than the primitive unless b is transposed, but it cannot add a bias.
    call_sgemm = !shape.bias && !shape.transpose_b;
    if (!call_sgemm) prepare(Element::f32, Element::f32);
  }

  bool is_empty() const { return shape.rows == 0 || shape.columns == 0 || shape.depth == 0; }
  /// True for a product that reading b limits, as for a single token. oneDNN copies b first.
  bool has_few_rows() const {
    return shape.rows <= kProductRows && !shape.transpose_a && shape.depth * shape.columns >= kLargeMatrix;
  }
  /// True if the product writes f32 and the result has a shorter type.
  bool narrows() const { return widen && shape.result != Element::f32; }
  bool product_accumulates() const { return shape.accumulate && !narrows(); }

  /// Prepares a product by bf16 instructions. \return false if oneDNN has none on this processor. Its other bf16
  /// products are slower than converting to f32.
  bool prepare_bf16() {
    try {
      prepare(Element::bf16, shape.result);
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented) throw;
      return false;
    }
    return implementation.find("bf16") != std::string::npos;
  }

  void prepare(Element element, Element result) {
    const auto a_desc = matrix(shape.rows, shape.depth, shape.transpose_a, data_type(element));
    const auto b_desc = matrix(shape.depth, shape.columns, shape.transpose_b, data_type(element));
    const auto c_desc = matrix(shape.rows, shape.columns, false, data_type(result));
    const auto bias_desc = matrix(1, shape.columns, false, data_type(element));
    dnnl::primitive_attr attributes;
    if (product_accumulates()) {
      dnnl::post_ops operations;
      operations.append_sum(1.0F);
      attributes.set_post_ops(operations);
    }
    const auto operation =
        shape.bias ? dnnl::matmul::desc(a_desc, b_desc, bias_desc, c_desc) : dnnl::matmul::desc(a_desc, b_desc, c_desc);
    const dnnl::matmul::primitive_desc description(operation, attributes, one_dnn_engine());
    implementation = description.impl_info_str();
    primitive.emplace(description);
    const auto operand = [](const dnnl::memory::desc& desc) { return dnnl::memory(desc, one_dnn_engine(), nullptr); };
    a_memory.emplace(operand(a_desc));
    b_memory.emplace(operand(b_desc));
    c_memory.emplace(operand(c_desc));
    bias_memory.emplace(operand(bias_desc));
    arguments = {{DNNL_ARG_SRC, *a_memory}, {DNNL_ARG_WEIGHTS, *b_memory}, {DNNL_ARG_DST, *c_memory}};
    if (shape.bias) arguments.emplace(DNNL_ARG_BIAS, *bias_memory);
  }

  std::int64_t a_size() const { return shape.rows * shape.depth; }
  std::int64_t b_size() const { return shape.depth * shape.columns; }
  std::int64_t bias_size() const { return shape.bias ? shape.columns : 0; }
  std::int64_t c_size() const { return shape.rows * shape.columns; }

  WideOperands wide_operands(void* workspace) const {
    auto* a = static_cast<float*>(workspace);
    return {a, a + a_size(), a + a_size() + b_size(), a + a_size() + b_size() + bias_size()};
  }

  void run_sgemm(const float* a, const float* b, float* c) const {
    const std::int64_t a_stride = shape.transpose_a ? shape.rows : shape.depth;
    const std::int64_t b_stride = shape.transpose_b ? shape.depth : shape.columns;
    const auto status =
        dnnl_sgemm(shape.transpose_a ? 'T' : 'N', shape.transpose_b ? 'T' : 'N', shape.rows, shape.columns, shape.depth,
                   1.0F, a, a_stride, b, b_stride, product_accumulates() ? 1.0F : 0.0F, c, shape.columns);
    if (status != dnnl_success) throw std::runtime_error("oneDNN cannot multiply " + describe(shape));
  }

  void run_product(const void* a, const void* b, const void* bias, void* c) {
    if (call_sgemm) {
      return run_sgemm(static_cast<const float*>(a), static_cast<const float*>(b), static_cast<float*>(c));
    }
    // oneDNN's handles are not const, although inputs are only read.
    a_memory->set_data_handle(const_cast<void*>(a));
    b_memory->set_data_handle(const_cast<void*>(b));
    c_memory->set_data_handle(c);
    if (shape.bias) bias_memory->set_data_handle(const_cast<void*>(bias));
    primitive->execute(stream, arguments);
    stream.wait();
  }

  void run_few_rows(const void* a, const void* b, const void* bias, void* c) const {
    const RowProductShape product{shape.rows, shape.columns, shape.depth, shape.transpose_b, shape.accumulate};
    const auto run = [&]<class T>(const RowProductKernels<T>& kernels) {
      kernels.multiply(product, static_cast<const T*>(a), static_cast<const T*>(b),
                       shape.bias ? static_cast<const T*>(bias) : nullptr, shape.result, c, threads);
    };
    const auto& kernels = row_product_kernels(best_instruction_set());
    if (shape.element == Element::f32) return run(kernels.f32);
    if (shape.element == Element::bf16) return run(kernels.bf16);
    run(kernels.f16);
  }

  void run_widened(const void* a, const void* b, const void* bias, void* c, void* workspace) {
    const ConversionKernels& kernels = conversion_kernels(best_instruction_set());
    const WideOperands wide = wide_operands(workspace);
    const Element element = shape.element;
    kernels.convert(a_size(), element, a, Element::f32, wide.a, false, threads);
    kernels.convert(b_size(), element, b, Element::f32, wide.b, false, threads);
    if (shape.bias) kernels.convert(bias_size(), element, bias, Element::f32, wide.bias, false, threads);
    if (!narrows()) return run_product(wide.a, wide.b, wide.bias, c);
    run_product(wide.a, wide.b, wide.bias, wide.c);
    kernels.convert(c_size(), Element::f32, wide.c, shape.result, c, shape.accumulate, threads);
  }

  /// Computes the product for depth 0.
  void run_empty(const void* bias, void* c) const {
    if (shape.accumulate && !shape.bias) return;
    const ConversionKernels& kernels = conversion_kernels(best_instruction_set());
    const std::size_t row_bytes =
        static_cast<std::size_t>(shape.columns) * (shape.result == Element::f32 ? sizeof(float) : sizeof(BFloat16));
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      char* to = static_cast<char*>(c) + static_cast<std::size_t>(row) * row_bytes;
      if (shape.bias) {
        kernels.convert(shape.columns, shape.element, bias, shape.result, to, shape.accumulate, threads);
      } else {
        std::fill_n(to, row_bytes, char{0});
      }
    }
  }

  MatrixProductShape shape;
  int threads;
  bool call_sgemm = false;
  bool widen = false;
  std::string implementation;
  std::optional<dnnl::matmul> primitive;
  std::optional<dnnl::memory> a_memory, b_memory, c_memory, bias_memory;
  std::unordered_map<int, dnnl::memory> arguments;
  dnnl::stream stream{one_dnn_engine()};
};

MatrixProduct::MatrixProduct(const MatrixProductShape& shape, int threads) {
  try {
    state_ = std::make_unique<State>(shape, threads);
  } catch (const dnnl::error& error) {
    throw std::runtime_error("oneDNN cannot multiply " + describe(shape) + ": " + error.what());
  }
}

MatrixProduct::~MatrixProduct() = default;
MatrixProduct::MatrixProduct(MatrixProduct&&) noexcept = default;
MatrixProduct& MatrixProduct::operator=(MatrixProduct&&) noexcept = default;

std::int64_t MatrixProduct::workspace_bytes() const {
  const State& state = *state_;
  if (!state.widen) return 0;
  const std::int64_t elements =
      state.a_size() + state.b_size() + state.bias_size() + (state.narrows() ? state.c_size() : 0);
  return elements * static_cast<std::int64_t>(sizeof(float));
}

void MatrixProduct::run(const void* a, const void* b, const void* bias, void* c, void* workspace) const {
  State& state = *state_;
  if (state.is_empty()) return state.run_empty(bias, c);
  if (state.has_few_rows()) return state.run_few_rows(a, b, bias, c);
  const OneDnnThreads scope(state.threads);
  if (state.widen) return state.run_widened(a, b, bias, c, workspace);
  state.run_product(a, b, bias, c);
}

}  // namespace strata::cpu

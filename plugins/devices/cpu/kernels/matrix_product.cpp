#include "kernels/matrix_product.hpp"

#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "kernels/kernel_library.hpp"
#include "kernels/one_dnn_threads.hpp"

namespace strata::cpu {
namespace {

using DataType = dnnl::memory::data_type;

/// One engine for the process: it holds nothing but the kind of device.
const dnnl::engine& engine() {
  static const dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

std::string describe(const MatrixProductShape& shape) {
  return "[" + std::to_string(shape.rows) + ", " + std::to_string(shape.depth) + "] x [" + std::to_string(shape.depth) +
         ", " + std::to_string(shape.columns) + "]";
}

/// The description of a matrix [rows, columns] that is stored as it is or transposed.
dnnl::memory::desc matrix(std::int64_t rows, std::int64_t columns, std::int64_t stride, bool transposed,
                          DataType type) {
  using Dims = dnnl::memory::dims;
  return {Dims{rows, columns}, type, transposed ? Dims{1, stride} : Dims{stride, 1}};
}

}  // namespace

struct MatrixProduct::State {
  State(const MatrixProductShape& wanted, int thread_count) : shape(wanted), threads(thread_count) {
    if (shape.a_stride == 0) shape.a_stride = shape.transpose_a ? shape.rows : shape.depth;
    if (shape.b_stride == 0) shape.b_stride = shape.transpose_b ? shape.depth : shape.columns;
    if (shape.c_stride == 0) shape.c_stride = shape.columns;
    if (is_empty()) return;
    const OneDnnThreads scope(threads);
    if (shape.element == MatrixElement::bf16) widen = !prepare_bf16();
    // dnnl_sgemm beats the primitive except where b is transposed, but it adds no bias.
    if (shape.element == MatrixElement::f32 || widen) {
      call_sgemm = !shape.bias && !shape.transpose_b;
      if (!call_sgemm) prepare(DataType::f32);
    }
  }

  bool is_empty() const { return shape.rows == 0 || shape.columns == 0 || shape.depth == 0; }

  /// False where oneDNN has no product by bf16 instructions on this processor: what it has then, if anything, is slower
  /// than widening to f32.
  bool prepare_bf16() {
    try {
      prepare(DataType::bf16);
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented) throw;
      return false;
    }
    return implementation.find("bf16") != std::string::npos;
  }

  void prepare(DataType type) {
    const auto a_desc = matrix(shape.rows, shape.depth, shape.a_stride, shape.transpose_a, type);
    const auto b_desc = matrix(shape.depth, shape.columns, shape.b_stride, shape.transpose_b, type);
    const auto c_desc = matrix(shape.rows, shape.columns, shape.c_stride, false, DataType::f32);
    const auto bias_desc = matrix(1, shape.columns, shape.columns, false, DataType::f32);
    dnnl::primitive_attr attributes;
    if (shape.accumulate) {
      dnnl::post_ops operations;
      operations.append_sum(1.0F);
      attributes.set_post_ops(operations);
    }
    const auto operation =
        shape.bias ? dnnl::matmul::desc(a_desc, b_desc, bias_desc, c_desc) : dnnl::matmul::desc(a_desc, b_desc, c_desc);
    const dnnl::matmul::primitive_desc description(operation, attributes, engine());
    implementation = description.impl_info_str();
    primitive.emplace(description);
    const auto operand = [](const dnnl::memory::desc& desc) { return dnnl::memory(desc, engine(), nullptr); };
    a_memory.emplace(operand(a_desc));
    b_memory.emplace(operand(b_desc));
    c_memory.emplace(operand(c_desc));
    bias_memory.emplace(operand(bias_desc));
    arguments = {{DNNL_ARG_SRC, *a_memory}, {DNNL_ARG_WEIGHTS, *b_memory}, {DNNL_ARG_DST, *c_memory}};
    if (shape.bias) arguments.emplace(DNNL_ARG_BIAS, *bias_memory);
  }

  std::int64_t a_size() const { return (shape.transpose_a ? shape.depth : shape.rows) * shape.a_stride; }
  std::int64_t b_size() const { return (shape.transpose_b ? shape.columns : shape.depth) * shape.b_stride; }

  void run_sgemm(const float* a, const float* b, float* c) const {
    const auto status =
        dnnl_sgemm(shape.transpose_a ? 'T' : 'N', shape.transpose_b ? 'T' : 'N', shape.rows, shape.columns, shape.depth,
                   1.0F, a, shape.a_stride, b, shape.b_stride, shape.accumulate ? 1.0F : 0.0F, c, shape.c_stride);
    if (status != dnnl_success) throw std::runtime_error("oneDNN cannot multiply " + describe(shape));
  }

  void run_primitive(const void* a, const void* b, const float* bias, float* c) {
    // oneDNN's handles are not const, but inputs are only read.
    a_memory->set_data_handle(const_cast<void*>(a));
    b_memory->set_data_handle(const_cast<void*>(b));
    c_memory->set_data_handle(c);
    if (shape.bias) bias_memory->set_data_handle(const_cast<float*>(bias));
    primitive->execute(stream, arguments);
    stream.wait();
  }

  MatrixProductShape shape;
  int threads;
  bool call_sgemm = false;
  bool widen = false;
  std::string implementation;
  std::optional<dnnl::matmul> primitive;
  std::optional<dnnl::memory> a_memory, b_memory, c_memory, bias_memory;
  std::unordered_map<int, dnnl::memory> arguments;
  dnnl::stream stream{engine()};
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
  if (!state_->widen) return 0;
  return (state_->a_size() + state_->b_size()) * static_cast<std::int64_t>(sizeof(float));
}

void MatrixProduct::run(const void* a, const void* b, const float* bias, float* c, void* workspace) const {
  State& state = *state_;
  const MatrixProductShape& shape = state.shape;
  if (state.is_empty()) {
    for (std::int64_t row = 0; row < shape.rows && !shape.accumulate; ++row) {
      for (std::int64_t i = 0; i < shape.columns; ++i) c[row * shape.c_stride + i] = shape.bias ? bias[i] : 0.0F;
    }
    return;
  }
  const OneDnnThreads scope(state.threads);
  if (state.widen) {
    const CastKernels& cast = kernel_library(best_instruction_set()).cast;
    float* wide_a = static_cast<float*>(workspace);
    float* wide_b = wide_a + state.a_size();
    cast.bf16_to_f32(state.a_size(), static_cast<const std::uint16_t*>(a), wide_a, state.threads);
    cast.bf16_to_f32(state.b_size(), static_cast<const std::uint16_t*>(b), wide_b, state.threads);
    a = wide_a;
    b = wide_b;
  }
  if (state.call_sgemm) return state.run_sgemm(static_cast<const float*>(a), static_cast<const float*>(b), c);
  state.run_primitive(a, b, bias, c);
}

}  // namespace strata::cpu

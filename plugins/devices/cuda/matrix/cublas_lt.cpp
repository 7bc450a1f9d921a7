#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "matrix/matrix_product.hpp"
#include "strata/error.hpp"

/// \file
/// Products by cuBLASLt.

namespace strata::cuda {
namespace {

/// What a product may take at most; NVIDIA's advice for the hungriest architecture.
constexpr std::uint64_t kWorkspaceLimit = 32 << 20;
/// What the fast algorithms ask of addresses.
constexpr std::uint32_t kFastAlignment = 16;

void check(cublasStatus_t status, const std::string& what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw RuntimeError("cuBLASLt: " + what + ": " + cublasLtGetStatusString(status));
}

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return CUDA_R_64F;
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      throw VerificationError("cuBLASLt: no products of " + std::string(to_string(dtype)));
  }
}

/// Whether GELU epilogues are part of the product's kernel: elsewhere they are slower than a kernel behind the product.
bool fuses_gelu(int major) { return major == 9 || major == 10; }

cublasLtEpilogue_t library_epilogue(MatrixEpilogue epilogue) {
  switch (epilogue) {
    case MatrixEpilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case MatrixEpilogue::gelu_bias:
      return CUBLASLT_EPILOGUE_GELU_BIAS;
    case MatrixEpilogue::gelu_aux_bias:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case MatrixEpilogue::dgelu:
      return CUBLASLT_EPILOGUE_DGELU;
    default:
      return CUBLASLT_EPILOGUE_DEFAULT;
  }
}

/// Owns what cuBLASLt calls a descriptor.
template <class Handle, cublasStatus_t (*kDestroy)(Handle)>
class Descriptor {
 public:
  Descriptor() = default;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (handle_ != nullptr) kDestroy(handle_);
  }
  [[nodiscard]] Handle get() const { return handle_; }
  [[nodiscard]] Handle* created() { return &handle_; }

 private:
  Handle handle_ = nullptr;
};

using LibraryHandle = Descriptor<cublasLtHandle_t, cublasLtDestroy>;

class Operation : public Descriptor<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> {
 public:
  explicit Operation(const MatrixProductShape& shape) {
    const bool is_f64 = shape.operand == DType::f64;
    // CUBLAS_COMPUTE_32F computes f32 in full: the shorter TF32 has a type of its own.
    check(cublasLtMatmulDescCreate(created(), is_f64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                   is_f64 ? CUDA_R_64F : CUDA_R_32F),
          "creating an operation");
    set<std::int32_t>(CUBLASLT_MATMUL_DESC_TRANSA, shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set<std::int32_t>(CUBLASLT_MATMUL_DESC_TRANSB, shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set<std::uint32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE, library_epilogue(shape.epilogue));
    if (has_aux(shape.epilogue)) set<std::int64_t>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, shape.d.leading);
  }

  /// The heuristic reads of the addresses how the arrays are aligned.
  void set_epilogue_arrays(MatrixEpilogue epilogue, const void* bias, void* aux) {
    if (has_bias(epilogue)) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    if (has_aux(epilogue)) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
  }

 private:
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    check(cublasLtMatmulDescSetAttribute(get(), attribute, &value, sizeof(value)), "describing an operation");
  }
};

class Layout : public Descriptor<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> {
 public:
  Layout(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t batch, const MatrixPlacement& placement) {
    check(cublasLtMatrixLayoutCreate(created(), data_type(dtype), static_cast<std::uint64_t>(rows),
                                     static_cast<std::uint64_t>(columns), placement.leading),
          "describing a matrix");
    if (batch == 1) return;
    if (batch > std::numeric_limits<std::int32_t>::max()) throw RuntimeError("cuBLASLt: too many matrices in a batch");
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, placement.batch_stride);
  }

 private:
  template <class T>
  void set(cublasLtMatrixLayoutAttribute_t attribute, T value) {
    check(cublasLtMatrixLayoutSetAttribute(get(), attribute, &value, sizeof(value)), "describing a matrix");
  }
};

class Preference : public Descriptor<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> {
 public:
  explicit Preference(std::uint32_t alignment) {
    check(cublasLtMatmulPreferenceCreate(created()), "creating a preference");
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceLimit);
    // Where a sum is split, its parts are added in order and in the type of the sum.
    set<std::uint32_t>(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      set(attribute, alignment);
    }
  }

 private:
  template <class T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    check(cublasLtMatmulPreferenceSetAttribute(get(), attribute, &value, sizeof(value)), "describing a preference");
  }
};

bool is_aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % kFastAlignment == 0; }

bool are_aligned(const MatrixProductArguments& arguments) {
  return is_aligned(arguments.a) && is_aligned(arguments.b) && is_aligned(arguments.bias) && is_aligned(arguments.d) &&
         is_aligned(arguments.aux);
}

class LtProduct final : public MatrixProduct {
 public:
  LtProduct(std::shared_ptr<LibraryHandle> library, const MatrixProductShape& shape)
      : library_(std::move(library)),
        is_f64_(shape.operand == DType::f64),
        accumulate_(shape.accumulate),
        epilogue_(shape.epilogue),
        operation_(shape),
        a_(shape.operand, shape.transpose_a ? shape.depth : shape.rows, shape.transpose_a ? shape.rows : shape.depth,
           shape.batch, shape.a),
        b_(shape.operand, shape.transpose_b ? shape.columns : shape.depth,
           shape.transpose_b ? shape.depth : shape.columns, shape.batch, shape.b),
        d_(shape.result, shape.rows, shape.columns, shape.batch, shape.d),
        any_(has_gelu(epilogue_) ? std::nullopt : algorithm(static_cast<std::uint32_t>(size_of(shape.operand)))),
        fast_(algorithm(kFastAlignment)) {
    if (!fast_) fast_ = any_;
  }

  [[nodiscard]] bool is_possible() const { return any_ || (epilogue_ != MatrixEpilogue::none && fast_); }

  [[nodiscard]] std::int64_t workspace_bytes() const override {
    const std::size_t of_any = any_ ? any_->workspaceSize : 0;
    return static_cast<std::int64_t>(std::max(of_any, fast_->workspaceSize));
  }

  [[nodiscard]] bool takes(const MatrixProductArguments& arguments) const override {
    return any_ || are_aligned(arguments);
  }

  void run(const MatrixProductArguments& arguments, Stream stream) override {
    const cublasLtMatmulHeuristicResult_t& chosen = are_aligned(arguments) ? *fast_ : *any_;
    operation_.set_epilogue_arrays(epilogue_, arguments.bias, arguments.aux);
    check(cublasLtMatmul(library_->get(), operation_.get(), factor(1), arguments.a, a_.get(), arguments.b, b_.get(),
                         factor(accumulate_ ? 1 : 0), arguments.d, d_.get(), arguments.d, d_.get(), &chosen.algo,
                         arguments.workspace, chosen.workspaceSize, static_cast<cudaStream_t>(stream)),
          "launch of a matrix product");
  }

 private:
  using Algorithm = std::optional<cublasLtMatmulHeuristicResult_t>;

  /// 0 or 1 in the type of the sum.
  [[nodiscard]] const void* factor(int value) const {
    static constexpr std::array<float, 2> kF32 = {0.0F, 1.0F};
    static constexpr std::array<double, 2> kF64 = {0.0, 1.0};
    const auto index = static_cast<std::size_t>(value);
    return is_f64_ ? static_cast<const void*>(&kF64[index]) : &kF32[index];
  }

  /// The fastest by cuBLASLt's heuristic for arrays that are aligned to `alignment` bytes.
  Algorithm algorithm(std::uint32_t alignment) {
    auto* const somewhere = reinterpret_cast<void*>(static_cast<std::uintptr_t>(alignment));
    operation_.set_epilogue_arrays(epilogue_, somewhere, somewhere);
    const Preference preference(alignment);
    std::array<cublasLtMatmulHeuristicResult_t, 4> found{};
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(library_->get(), operation_.get(), a_.get(), b_.get(), d_.get(), d_.get(),
                                       preference.get(), static_cast<int>(found.size()), found.data(), &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return std::nullopt;
    // So it says that it lacks some combinations of types and an epilogue.
    if (status == CUBLAS_STATUS_INVALID_VALUE && has_gelu(epilogue_)) return std::nullopt;
    check(status, "choosing an algorithm");
    for (int i = 0; i < count; ++i) {
      const auto& each = found[static_cast<std::size_t>(i)];
      if (each.state == CUBLAS_STATUS_SUCCESS) return each;
    }
    return std::nullopt;
  }

  std::shared_ptr<LibraryHandle> library_;
  bool is_f64_;
  bool accumulate_;
  MatrixEpilogue epilogue_;
  Operation operation_;
  Layout a_;
  Layout b_;
  Layout d_;
  Algorithm any_;   ///< for elements anywhere
  Algorithm fast_;  ///< for arrays at multiples of kFastAlignment
};

class LtLibrary final : public MatrixLibrary {
 public:
  explicit LtLibrary(int major) : fuses_gelu_(fuses_gelu(major)) {
    check(cublasLtCreate(handle_->created()), "starting the library");
  }

  std::shared_ptr<MatrixProduct> product(const MatrixProductShape& shape) override {
    if (has_gelu(shape.epilogue) && !(fuses_gelu_ && may_have_gelu(shape))) return nullptr;
    const auto known = products_.find(shape);
    if (known != products_.end()) return known->second;
    auto made = std::make_shared<LtProduct>(handle_, shape);
    return products_[shape] = made->is_possible() ? std::move(made) : nullptr;
  }

 private:
  bool fuses_gelu_;
  std::shared_ptr<LibraryHandle> handle_ = std::make_shared<LibraryHandle>();
  std::map<MatrixProductShape, std::shared_ptr<MatrixProduct>> products_;
};

}  // namespace

std::unique_ptr<MatrixLibrary> make_matrix_library(int major) { return std::make_unique<LtLibrary>(major); }

}  // namespace strata::cuda

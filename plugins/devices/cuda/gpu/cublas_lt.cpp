#include <cublasLt.h>

#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/runtime.hpp"
#include "matrix/chosen_product.hpp"
#include "strata/error.hpp"

/// \file
/// Matrix products by cuBLASLt.

namespace strata::cuda {
namespace {

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

/// True if cuBLASLt computes GELU epilogues inside the product's kernel. On other architectures they are slower than a
/// separate kernel.
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

/// Owns a cuBLASLt descriptor.
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
    // CUBLAS_COMPUTE_32F computes full f32. TF32 would be a compute type of its own.
    check(cublasLtMatmulDescCreate(created(), is_f64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                   is_f64 ? CUDA_R_64F : CUDA_R_32F),
          "creating an operation");
    set<std::int32_t>(CUBLASLT_MATMUL_DESC_TRANSA, shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set<std::int32_t>(CUBLASLT_MATMUL_DESC_TRANSB, shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set<std::uint32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE, library_epilogue(shape.epilogue));
    if (has_aux(shape.epilogue)) set<std::int64_t>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, shape.d.leading);
  }

  /// The heuristic derives the alignment of the arrays from these addresses.
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
  explicit Preference(const ArrayAlignments& alignments) {
    check(cublasLtMatmulPreferenceCreate(created()), "creating a preference");
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(ChosenProduct::kWorkspaceLimit));
    // Split sums are added in order and in the type of the sum, so that results are reproducible.
    set<std::uint32_t>(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignments.a);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignments.b);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignments.d);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignments.d);
  }

 private:
  template <class T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    check(cublasLtMatmulPreferenceSetAttribute(get(), attribute, &value, sizeof(value)), "describing a preference");
  }
};

/// Captures work on a stream and discards it, so that nothing is executed. The thread may load code during the capture.
class Rehearsal {
 public:
  explicit Rehearsal(cudaStream_t stream) : stream_(stream) {
    captures_ = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed) == cudaSuccess;
  }
  ~Rehearsal() {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    // Instantiating the graph loads the code of its kernels.
    if (captures_ && cudaStreamEndCapture(stream_, &graph) == cudaSuccess) {
      static_cast<void>(cudaGraphInstantiate(&executable, graph, 0));
    }
    if (executable != nullptr) static_cast<void>(cudaGraphExecDestroy(executable));
    if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
    // Clear the error, which the next call would report otherwise.
    static_cast<void>(cudaGetLastError());
  }
  Rehearsal(const Rehearsal&) = delete;
  Rehearsal& operator=(const Rehearsal&) = delete;

  [[nodiscard]] bool captures() const { return captures_; }

 private:
  cudaStream_t stream_;
  bool captures_ = false;
};

/// State that all products of a device share.
struct Library {
  LibraryHandle handle;
  /// The stream on which launches are rehearsed.
  std::shared_ptr<void> stream = runtime::create_stream(false);
};

class LtCalls final : public ProductCalls {
 public:
  LtCalls(std::shared_ptr<Library> library, const MatrixProductShape& shape)
      : library_(std::move(library)),
        is_f64_(shape.operand == DType::f64),
        accumulate_(shape.accumulate),
        epilogue_(shape.epilogue),
        operation_(shape),
        a_(shape.operand, shape.transpose_a ? shape.depth : shape.rows, shape.transpose_a ? shape.rows : shape.depth,
           shape.batch, shape.a),
        b_(shape.operand, shape.transpose_b ? shape.columns : shape.depth,
           shape.transpose_b ? shape.depth : shape.columns, shape.batch, shape.b),
        d_(shape.result, shape.rows, shape.columns, shape.batch, shape.d) {}

  AlgorithmOffers offers(const ArrayAlignments& alignments, int count) override {
    operation_.set_epilogue_arrays(epilogue_, address_of(alignments.bias), address_of(alignments.aux));
    const Preference preference(alignments);
    std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(count));
    int found_count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(library_->handle.get(), operation_.get(), a_.get(), b_.get(), d_.get(), d_.get(),
                                       preference.get(), count, found.data(), &found_count);
    AlgorithmOffers answer;
    // cuBLASLt returns NOT_SUPPORTED or INVALID_VALUE if it lacks a combination of types, layout and epilogue.
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) {
      answer.refusal = cublasLtGetStatusString(status);
      return answer;
    }
    check(status, "choosing an algorithm");
    for (int i = 0; i < found_count; ++i) answer.offers.push_back(offer(found[static_cast<std::size_t>(i)]));
    return answer;
  }

  std::optional<std::string> refusal(const MatrixAlgorithm& algorithm) override {
    const cublasLtMatmulAlgo_t native = native_algorithm(algorithm);
    cublasLtMatmulHeuristicResult_t result{};
    const cublasStatus_t status = cublasLtMatmulAlgoCheck(library_->handle.get(), operation_.get(), a_.get(), b_.get(),
                                                          d_.get(), d_.get(), &native, &result);
    if (status != CUBLAS_STATUS_SUCCESS) return cublasLtGetStatusString(status);
    if (result.workspaceSize <= static_cast<std::size_t>(algorithm.workspace_bytes)) return std::nullopt;
    return "its algorithm needs more workspace than it said";
  }

  void load(const MatrixAlgorithm& algorithm) override {
    // Loading ahead is only a precaution. A failure here recurs in run(), which reports it.
    const auto stream = static_cast<cudaStream_t>(library_->stream.get());
    const Rehearsal rehearsal(stream);
    if (!rehearsal.captures()) return;
    const MatrixProductArguments arguments{.a = address_of(1 << 12),
                                           .b = address_of(2 << 12),
                                           .bias = address_of(3 << 12),
                                           .d = address_of(4 << 12),
                                           .workspace = address_of(5 << 12),
                                           .aux = address_of(6 << 12)};
    static_cast<void>(launch(algorithm, arguments, stream));
  }

  void run(const MatrixAlgorithm& algorithm, const MatrixProductArguments& arguments, Stream stream) override {
    check(launch(algorithm, arguments, static_cast<cudaStream_t>(stream)), "launch of a matrix product");
  }

 private:
  static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(MatrixAlgorithm::description));

  static void* address_of(std::uint32_t number) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(number)); }

  static AlgorithmOffers::Offer offer(const cublasLtMatmulHeuristicResult_t& found) {
    AlgorithmOffers::Offer offer;
    std::memcpy(offer.algorithm.description.data(), &found.algo, sizeof found.algo);
    offer.algorithm.workspace_bytes = static_cast<std::int64_t>(found.workspaceSize);
    offer.works = found.state == CUBLAS_STATUS_SUCCESS;
    return offer;
  }
  static cublasLtMatmulAlgo_t native_algorithm(const MatrixAlgorithm& algorithm) {
    cublasLtMatmulAlgo_t native{};
    std::memcpy(&native, algorithm.description.data(), sizeof native);
    return native;
  }

  /// Points to 0 or 1 in the type of the sum.
  [[nodiscard]] const void* factor(int value) const {
    static constexpr std::array<float, 2> kF32 = {0.0F, 1.0F};
    static constexpr std::array<double, 2> kF64 = {0.0, 1.0};
    const auto index = static_cast<std::size_t>(value);
    return is_f64_ ? static_cast<const void*>(&kF64[index]) : &kF32[index];
  }

  cublasStatus_t launch(const MatrixAlgorithm& algorithm, const MatrixProductArguments& arguments,
                        cudaStream_t stream) {
    const cublasLtMatmulAlgo_t native = native_algorithm(algorithm);
    operation_.set_epilogue_arrays(epilogue_, arguments.bias, arguments.aux);
    return cublasLtMatmul(library_->handle.get(), operation_.get(), factor(1), arguments.a, a_.get(), arguments.b,
                          b_.get(), factor(accumulate_ ? 1 : 0), arguments.d, d_.get(), arguments.d, d_.get(), &native,
                          arguments.workspace, static_cast<std::size_t>(algorithm.workspace_bytes), stream);
  }

  std::shared_ptr<Library> library_;
  bool is_f64_;
  bool accumulate_;
  MatrixEpilogue epilogue_;
  Operation operation_;
  Layout a_;
  Layout b_;
  Layout d_;
};

class LtLibrary final : public MatrixLibrary {
 public:
  explicit LtLibrary(int major) : fuses_gelu_(fuses_gelu(major)) {
    check(cublasLtCreate(library_->handle.created()), "starting the library");
  }

  std::shared_ptr<MatrixProduct> product(const MatrixProductShape& shape) override {
    if (has_gelu(shape.epilogue) && !(fuses_gelu_ && may_have_gelu(shape))) return nullptr;
    const auto known = products_.find(shape);
    if (known != products_.end()) return known->second;
    return products_[shape] = choose_product(shape, std::make_unique<LtCalls>(library_, shape));
  }

 private:
  bool fuses_gelu_;
  std::shared_ptr<Library> library_ = std::make_shared<Library>();
  std::map<MatrixProductShape, std::shared_ptr<MatrixProduct>> products_;
};

}  // namespace

std::unique_ptr<MatrixLibrary> make_matrix_library(int major) { return std::make_unique<LtLibrary>(major); }

}  // namespace strata::cuda

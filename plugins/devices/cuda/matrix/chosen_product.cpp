#include "matrix/chosen_product.hpp"

#include <algorithm>
#include <utility>

#include "device/runtime.hpp"
#include "strata/error.hpp"

namespace strata::cuda {
namespace {

constexpr std::uint32_t kFast = ChosenProduct::kFastAlignment;
constexpr ArrayAlignments kFastArrays{kFast, kFast, kFast, kFast, kFast};
/// Alignment of each part of the workspace, equal to that of GPU allocations.
constexpr std::int64_t kPieceAlignment = 256;

std::int64_t rounded_up(std::int64_t bytes) {
  return (bytes + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment;
}

bool is_fast(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % kFast == 0; }

/// True if all arrays that a product with this epilogue uses are aligned for the fast algorithm.
bool are_fast(const MatrixProductArguments& arguments, MatrixEpilogue epilogue) {
  return is_fast(arguments.a) && is_fast(arguments.b) && is_fast(arguments.d) &&
         (!has_bias(epilogue) || is_fast(arguments.bias)) && (!has_aux(epilogue) || is_fast(arguments.aux));
}

/// Parts of the workspace, into which unaligned arrays are copied.
class Pieces {
 public:
  explicit Pieces(void* begin) : next_(static_cast<char*>(begin)) {}
  void* take(std::int64_t bytes) { return std::exchange(next_, next_ + rounded_up(bytes)); }

 private:
  char* next_;
};

}  // namespace

ChosenProduct::ChosenProduct(const MatrixProductShape& shape, std::unique_ptr<ProductCalls> calls)
    : shape_(shape),
      calls_(std::move(calls)),
      a_(bytes_of(shape.a, shape.transpose_a ? shape.depth : shape.rows, shape.transpose_a ? shape.rows : shape.depth,
                  shape.operand)),
      b_(bytes_of(shape.b, shape.transpose_b ? shape.columns : shape.depth,
                  shape.transpose_b ? shape.depth : shape.columns, shape.operand)),
      d_(bytes_of(shape.d, shape.rows, shape.columns, shape.result)),
      // A separate kernel after a fast product is faster than GELU in a slow one.
      any_(has_gelu(shape.epilogue) ? std::nullopt : choose(of_elements())),
      fast_(choose(kFastArrays)) {
  if (!fast_) fast_ = any_;
  if (fast_) refusal_.clear();
}

ArrayAlignments ChosenProduct::of_elements() const {
  const auto operand = static_cast<std::uint32_t>(size_of(shape_.operand));
  const auto result = static_cast<std::uint32_t>(size_of(shape_.result));
  return {.a = operand, .b = operand, .d = result, .bias = result, .aux = result};
}

ChosenProduct::ArrayBytes ChosenProduct::bytes_of(const MatrixPlacement& placement, std::int64_t rows,
                                                  std::int64_t columns, DType dtype) const {
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  return {.width = rows * element,
          .pitch = placement.leading * element,
          .columns = columns,
          .stride = placement.batch_stride * element,
          .matrices = shape_.batch};
}

ChosenProduct::Algorithm ChosenProduct::choose(const ArrayAlignments& alignments) {
  const AlgorithmOffers answer = calls_->offers(alignments, kOffers);
  std::string found = answer.refusal.empty() ? "no algorithm" : answer.refusal;
  for (const auto& [algorithm, works] : answer.offers) {
    if (!works) {
      found = "only algorithms that do not work here";
    } else if (algorithm.workspace_bytes > kWorkspaceLimit) {
      found = "only algorithms that need a larger workspace";
    } else if (const auto reason = calls_->refusal(algorithm)) {
      found = *reason;
    } else {
      calls_->load(algorithm);
      return algorithm;
    }
  }
  refusal_ = found;
  return std::nullopt;
}

std::int64_t ChosenProduct::workspace_bytes() const {
  std::int64_t bytes = fast_->workspace_bytes;
  if (any_) bytes = std::max(bytes, any_->workspace_bytes);
  if (!packs() || shape_.epilogue != MatrixEpilogue::none) return bytes;
  return rounded_up(bytes) + rounded_up(a_.span()) + rounded_up(b_.span()) + rounded_up(d_.span());
}

bool ChosenProduct::takes(const MatrixProductArguments& arguments) const {
  return !packs() || shape_.epilogue == MatrixEpilogue::none || are_fast(arguments, shape_.epilogue);
}

void ChosenProduct::run(const MatrixProductArguments& arguments, Stream stream) {
  if (are_fast(arguments, shape_.epilogue)) return calls_->run(*fast_, arguments, stream);
  if (!packs()) return calls_->run(*any_, arguments, stream);
  run_packed(arguments, stream);
}

void ChosenProduct::run_packed(MatrixProductArguments arguments, Stream stream) {
  Pieces pieces(static_cast<char*>(arguments.workspace) + rounded_up(fast_->workspace_bytes));
  const auto pack = [&](const void* from, const ArrayBytes& bytes) -> const void* {
    if (is_fast(from)) return from;
    void* to = pieces.take(bytes.span());
    runtime::copy(stream, to, from, bytes.span());
    return to;
  };
  arguments.a = pack(arguments.a, a_);
  arguments.b = pack(arguments.b, b_);
  if (is_fast(arguments.d)) return calls_->run(*fast_, arguments, stream);

  // Copy back only the columns of d, because the memory between them may belong to other tensors.
  void* const d = arguments.d;
  arguments.d = pieces.take(d_.span());
  const auto copy_columns = [&](void* to, const void* from) {
    for (std::int64_t i = 0; i < d_.matrices; ++i) {
      runtime::copy_rows(stream, static_cast<char*>(to) + i * d_.stride, d_.pitch,
                         static_cast<const char*>(from) + i * d_.stride, d_.pitch, d_.width, d_.columns);
    }
  };
  if (shape_.accumulate) copy_columns(arguments.d, d);
  calls_->run(*fast_, arguments, stream);
  copy_columns(d, arguments.d);
}

std::shared_ptr<MatrixProduct> choose_product(const MatrixProductShape& shape, std::unique_ptr<ProductCalls> calls) {
  auto product = std::make_shared<ChosenProduct>(shape, std::move(calls));
  if (product->refusal().empty()) return product;
  if (shape.epilogue != MatrixEpilogue::none) return nullptr;
  throw ConfigurationError("cuBLASLt cannot compute " + to_string(shape) + ": " + product->refusal());
}

std::string to_string(const MatrixProductShape& shape) {
  return std::to_string(shape.batch) + (shape.batch == 1 ? " product" : " products") + " of [" +
         std::to_string(shape.columns) + ", " + std::to_string(shape.depth) + "] and [" + std::to_string(shape.depth) +
         ", " + std::to_string(shape.rows) + "] in " + std::string(strata::to_string(shape.operand)) +
         " with results in " + std::string(strata::to_string(shape.result));
}

}  // namespace strata::cuda

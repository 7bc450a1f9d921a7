#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <string>

#include "device/cuda_kernel.hpp"
#include "emulator/execution.hpp"
#include "kernels/activation.cuh"
#include "language/language.hpp"
#include "matrix/chosen_product.hpp"

/// \file
/// Matrix products by plain loops. The shapes are checked as strictly as by cuBLASLt.

namespace strata::cuda {
namespace {

/// Every product overwrites its workspace, so that tests notice a caller that keeps data there.
constexpr std::int64_t kWorkspaceBytes = 192;
constexpr int kScribble = 0xFF;

void require(bool condition, const std::string& what) {
  if (!condition) throw RuntimeError("emulated matrix product: " + what);
}

/// Fields of an algorithm's description.
enum Field : std::size_t { kind, operand_alignment, result_alignment };
enum Kind : std::uint64_t { refused, sound };

bool is_multiple(const void* address, std::uint64_t of) { return reinterpret_cast<std::uintptr_t>(address) % of == 0; }

/// The arithmetic of a product.
class EmulatedProduct {
 public:
  explicit EmulatedProduct(const MatrixProductShape& shape) : shape_(shape) {}

  void multiply(const MatrixProductArguments& arguments) const {
    std::memset(arguments.workspace, kScribble, kWorkspaceBytes);
    with_element(shape_.operand, [&]<class T>() {
      if (shape_.result == shape_.operand) {
        multiply_as<T, T>(arguments);
      } else {
        multiply_as<T, float>(arguments);
      }
    });
  }

 private:
  template <class T, class Y>
  void multiply_as(const MatrixProductArguments& arguments) const {
    const auto* bias = static_cast<const Y*>(arguments.bias);
    auto* aux = static_cast<Y*>(arguments.aux);
    for (std::int64_t i = 0; i < shape_.batch; ++i) {
      const T* a = static_cast<const T*>(arguments.a) + i * shape_.a.batch_stride;
      const T* b = static_cast<const T*>(arguments.b) + i * shape_.b.batch_stride;
      Y* d = static_cast<Y*>(arguments.d) + i * shape_.d.batch_stride;
      for (std::int64_t column = 0; column < shape_.columns; ++column) {
        for (std::int64_t row = 0; row < shape_.rows; ++row) {
          Y& to = d[row + column * shape_.d.leading];
          Accumulate<T> sum = dot(a, b, row, column);
          if (shape_.accumulate) sum += widen(to);
          if (has_bias(shape_.epilogue)) sum += widen(bias[row]);
          to = finished<Y>(sum, aux, row + column * shape_.d.leading);
        }
      }
    }
  }

  /// Applies the epilogue to one sum.
  template <class Y, class Sum>
  Y finished(Sum sum, Y* aux, std::int64_t at) const {
    switch (shape_.epilogue) {
      case MatrixEpilogue::gelu_aux_bias:
        aux[at] = narrow<Y>(sum);
        [[fallthrough]];
      case MatrixEpilogue::gelu_bias:
        return narrow<Y>(GeluTanh::value(sum));
      case MatrixEpilogue::dgelu:
        return narrow<Y>(sum * GeluTanh::derivative(static_cast<Sum>(widen(aux[at]))));
      default:
        return narrow<Y>(sum);
    }
  }

  template <class T>
  Accumulate<T> dot(const T* a, const T* b, std::int64_t row, std::int64_t column) const {
    const T* left = a + row * (shape_.transpose_a ? shape_.a.leading : 1);
    const T* right = b + column * (shape_.transpose_b ? 1 : shape_.b.leading);
    const std::int64_t left_step = shape_.transpose_a ? 1 : shape_.a.leading;
    const std::int64_t right_step = shape_.transpose_b ? shape_.b.leading : 1;
    if (sizeof(T) == 2 && emulator::is_rough()) {
      return sum_of_matrix_units([&](std::int64_t k) -> double {
        return static_cast<double>(widen(left[k * left_step])) * static_cast<double>(widen(right[k * right_step]));
      });
    }
    Accumulate<T> sum = 0;
    for (std::int64_t k = 0; k < shape_.depth; ++k) sum += widen(left[k * left_step]) * widen(right[k * right_step]);
    return sum;
  }

  template <class Term>
  float sum_of_matrix_units(const Term& term) const {
    constexpr auto kTerms = static_cast<std::int64_t>(emulator::kTermsOfRoughUnit);
    float sum = 0;
    for (std::int64_t begin = 0; begin < shape_.depth; begin += kTerms) {
      std::array<double, kTerms + 1> terms{};
      const std::int64_t count = std::min(kTerms, shape_.depth - begin);
      for (std::int64_t k = 0; k < count; ++k) terms[static_cast<std::size_t>(k)] = term(begin + k);
      terms[kTerms] = sum;
      sum = emulator::matrix_unit_sum(terms);
    }
    return sum;
  }

  MatrixProductShape shape_;
};

/// The calls for products of one shape. The heuristic offers failing algorithms before working ones. For a third of the
/// shapes it offers none for unaligned arrays. For sizes beyond 32 bits it offers none at all.
class EmulatedCalls final : public ProductCalls {
 public:
  explicit EmulatedCalls(const MatrixProductShape& shape) : shape_(shape) {
    const bool is_short = shape.operand == DType::bf16 || shape.operand == DType::f16;
    require(shape.result == shape.operand || (is_short && shape.result == DType::f32), "result of another type");
    require(std::min({shape.batch, shape.rows, shape.columns, shape.depth}) > 0, "an empty matrix");
    require(shape.a.leading >= (shape.transpose_a ? shape.depth : shape.rows), "columns of a overlap");
    require(shape.b.leading >= (shape.transpose_b ? shape.columns : shape.depth), "columns of b overlap");
    require(shape.d.leading >= shape.rows, "columns of d overlap");
    require(shape.batch == 1 || shape.d.batch_stride > 0, "matrices of d overlap");
  }

  AlgorithmOffers offers(const ArrayAlignments& alignments, int count) override {
    require(alignments.a % size_of(shape_.operand) == 0 && alignments.b % size_of(shape_.operand) == 0 &&
                alignments.d % size_of(shape_.result) == 0,
            "arrays within an element");
    const bool lacks_slow = (shape_.rows + shape_.columns + shape_.depth) % 3 == 0;
    const std::uint32_t least = std::min({alignments.a, alignments.b, alignments.d, alignments.bias, alignments.aux});
    AlgorithmOffers answer;
    if (std::max({shape_.rows, shape_.columns, shape_.depth}) > std::numeric_limits<std::int32_t>::max() ||
        (lacks_slow && least < ChosenProduct::kFastAlignment)) {
      answer.refusal = "emulated refusal";
      return answer;
    }
    const auto offer = [&](Kind kind, bool works) {
      MatrixAlgorithm algorithm{.workspace_bytes = kWorkspaceBytes};
      algorithm.description[Field::kind] = kind;
      algorithm.description[Field::operand_alignment] = std::min(alignments.a, alignments.b);
      algorithm.description[Field::result_alignment] = std::min({alignments.d, alignments.bias, alignments.aux});
      return AlgorithmOffers::Offer{algorithm, works};
    };
    answer.offers = {offer(Kind::sound, false), offer(Kind::refused, true), offer(Kind::sound, true)};
    answer.offers.resize(std::min(answer.offers.size(), static_cast<std::size_t>(count)));
    return answer;
  }

  std::optional<std::string> refusal(const MatrixAlgorithm& algorithm) override {
    if (algorithm.description[Field::kind] == Kind::sound) return std::nullopt;
    return "emulated refusal";
  }

  void load(const MatrixAlgorithm& algorithm) override { loaded_.insert(algorithm.description); }

  void run(const MatrixAlgorithm& algorithm, const MatrixProductArguments& arguments, Stream stream) override {
    require(loaded_.contains(algorithm.description), "an algorithm that was not loaded");
    const std::uint64_t of_operands = algorithm.description[Field::operand_alignment];
    const std::uint64_t of_results = algorithm.description[Field::result_alignment];
    require(is_multiple(arguments.a, of_operands) && is_multiple(arguments.b, of_operands) &&
                is_multiple(arguments.d, of_results) &&
                (!has_bias(shape_.epilogue) || is_multiple(arguments.bias, of_results)) &&
                (!has_aux(shape_.epilogue) || is_multiple(arguments.aux, of_results)),
            "arrays at addresses that the algorithm doesn't take");
    require(is_aligned(arguments.workspace), "workspace at an address that is not aligned");
    auto* const emulated = static_cast<emulator::EmulatedStream*>(stream);
    emulator::enqueue(emulated, [product = EmulatedProduct(shape_), arguments, emulated] {
      const emulator::RoughArithmetic arithmetic(emulated == nullptr ? emulator::Roughness::exact
                                                                     : emulated->roughness);
      product.multiply(arguments);
    });
  }

 private:
  MatrixProductShape shape_;
  std::set<decltype(MatrixAlgorithm::description)> loaded_;
};

class EmulatedLibrary final : public MatrixLibrary {
 public:
  std::shared_ptr<MatrixProduct> product(const MatrixProductShape& shape) override {
    if (has_gelu(shape.epilogue) && !may_have_gelu(shape)) return nullptr;
    return choose_product(shape, std::make_unique<EmulatedCalls>(shape));
  }
};

}  // namespace

std::unique_ptr<MatrixLibrary> make_matrix_library(int /*major*/) { return std::make_unique<EmulatedLibrary>(); }

}  // namespace strata::cuda

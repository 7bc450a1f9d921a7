// The cuda device's choice among the algorithms that cuBLASLt offers for a product. The test substitutes a library.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <vector>

#include "matrix/chosen_product.hpp"
#include "strata/error.hpp"

namespace strata::cuda {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr ArrayAlignments kFast{16, 16, 16, 16, 16};

/// An offer of the algorithm with this number.
AlgorithmOffers::Offer offer(std::uint64_t number, bool works = true, std::int64_t workspace = 64) {
  return {{.description = {number}, .workspace_bytes = workspace}, works};
}

bool is_fast(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

/// The calls that a library received, and its answers.
struct Log {
  std::vector<ArrayAlignments> questions;
  std::vector<int> counts;
  std::vector<std::uint64_t> loaded;
  std::vector<std::uint64_t> run;
  std::vector<MatrixProductArguments> arguments;
};

class ScriptedCalls final : public ProductCalls {
 public:
  using Answer = std::function<AlgorithmOffers(const ArrayAlignments&)>;

  ScriptedCalls(const MatrixProductShape& shape, Answer answer, Log& log)
      : shape_(shape), answer_(std::move(answer)), log_(log) {}

  AlgorithmOffers offers(const ArrayAlignments& alignments, int count) override {
    log_.questions.push_back(alignments);
    log_.counts.push_back(count);
    return answer_(alignments);
  }
  /// Algorithms from 100 on are refused.
  std::optional<std::string> refusal(const MatrixAlgorithm& algorithm) override {
    if (algorithm.description[0] < 100) return std::nullopt;
    return "algorithm " + std::to_string(algorithm.description[0]) + " is not for this device";
  }
  void load(const MatrixAlgorithm& algorithm) override { log_.loaded.push_back(algorithm.description[0]); }
  /// d (+)= a · b in f32, without transposes.
  void run(const MatrixAlgorithm& algorithm, const MatrixProductArguments& arguments, Stream /*stream*/) override {
    log_.run.push_back(algorithm.description[0]);
    log_.arguments.push_back(arguments);
    const auto* a = static_cast<const float*>(arguments.a);
    const auto* b = static_cast<const float*>(arguments.b);
    auto* d = static_cast<float*>(arguments.d);
    for (std::int64_t batch = 0; batch < shape_.batch; ++batch) {
      for (std::int64_t column = 0; column < shape_.columns; ++column) {
        for (std::int64_t row = 0; row < shape_.rows; ++row) {
          float& to = d[batch * shape_.d.batch_stride + column * shape_.d.leading + row];
          if (!shape_.accumulate) to = 0;
          for (std::int64_t k = 0; k < shape_.depth; ++k) {
            to += a[batch * shape_.a.batch_stride + k * shape_.a.leading + row] *
                  b[batch * shape_.b.batch_stride + column * shape_.b.leading + k];
          }
        }
      }
    }
  }

 private:
  MatrixProductShape shape_;
  Answer answer_;
  Log& log_;
};

/// Two products of [2, 3] and [3, 2] in f32. The columns of the results have a gap of one element between them.
MatrixProductShape small_shape() {
  return {.batch = 2, .rows = 2, .columns = 2, .depth = 3, .a = {2, 6}, .b = {3, 6}, .d = {3, 6}};
}

ScriptedCalls::Answer always(std::vector<AlgorithmOffers::Offer> offers) {
  return [offers = std::move(offers)](const ArrayAlignments&) {
    AlgorithmOffers answer;
    answer.offers = offers;
    return answer;
  };
}

/// Offers algorithm 1 for aligned arrays and none for others.
AlgorithmOffers only_for_aligned(const ArrayAlignments& alignments) {
  AlgorithmOffers answer;
  if (alignments == kFast) {
    answer.offers = {offer(1)};
  } else {
    answer.refusal = "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return answer;
}

class MatrixChoice : public ::testing::Test {
 protected:
  std::shared_ptr<MatrixProduct> choose(const MatrixProductShape& shape, const ScriptedCalls::Answer& answer) {
    return choose_product(shape, std::make_unique<ScriptedCalls>(shape, answer, log_));
  }

  /// Fills the arrays, multiplies those that begin `offset` elements into their memory, and returns that of d.
  std::array<float, 16> multiply(MatrixProduct& product, std::size_t offset_a, std::size_t offset_b,
                                 std::size_t offset_d) {
    alignas(16) std::array<float, 16> a{};
    alignas(16) std::array<float, 16> b{};
    alignas(16) std::array<float, 16> d{};
    for (std::size_t i = 0; i < 12; ++i) {
      a[offset_a + i] = static_cast<float>(i);
      b[offset_b + i] = static_cast<float>(2 * i) - 5.0F;
    }
    for (std::size_t i = 0; i < d.size(); ++i) d[i] = 100.0F * static_cast<float>(i);
    std::vector<char> workspace(static_cast<std::size_t>(product.workspace_bytes()) + 256);
    void* begin = workspace.data();
    std::size_t space = workspace.size();
    std::align(256, static_cast<std::size_t>(product.workspace_bytes()), begin, space);
    product.run({.a = a.data() + offset_a, .b = b.data() + offset_b, .d = d.data() + offset_d, .workspace = begin},
                nullptr);
    return d;
  }

  Log log_;
};

TEST_F(MatrixChoice, TakesTheFirstAlgorithmThatWorks) {
  const auto product =
      choose(small_shape(), always({offer(1, false), offer(100), offer(2, true, 33 << 20), offer(3), offer(4)}));
  EXPECT_THAT(log_.counts, Each(8));
  EXPECT_THAT(log_.loaded, Each(3)) << "its code is on the GPU before the first launch, and no other's";
  static_cast<void>(multiply(*product, 0, 0, 0));
  EXPECT_THAT(log_.run, ElementsAre(3));
}

TEST_F(MatrixChoice, AsksForTheAlignmentOfEachArray) {
  MatrixProductShape shape = small_shape();
  shape.operand = DType::bf16;
  shape.result = DType::f32;
  static_cast<void>(choose(shape, always({offer(1)})));
  EXPECT_THAT(log_.questions, ElementsAre(ArrayAlignments{2, 2, 4, 4, 4}, kFast))
      << "an array of f32 never begins at an odd multiple of 2 bytes";
}

TEST_F(MatrixChoice, NeedsNoAlgorithmForArraysThatAreNotAlignedIfAllAre) {
  const auto product = choose(small_shape(), only_for_aligned);
  const auto d = multiply(*product, 0, 0, 0);
  EXPECT_THAT(log_.run, ElementsAre(1));
  EXPECT_THAT(d, ElementsAre(-10, -19, 200, 26, 35, 500, 224, 251, 800, 368, 413, 1100, 1200, 1300, 1400, 1500));
}

TEST_F(MatrixChoice, CopiesArraysThatNoAlgorithmTakes) {
  for (const bool accumulate : {false, true}) {
    MatrixProductShape shape = small_shape();
    shape.accumulate = accumulate;
    const auto product = choose(shape, only_for_aligned);
    const std::array<float, 16> aligned = multiply(*product, 0, 0, 0);
    const std::array<std::array<std::size_t, 3>, 4> offsets{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {3, 1, 2}}};
    for (const auto& [a, b, d] : offsets) {
      SCOPED_TRACE(std::to_string(a) + std::to_string(b) + std::to_string(d));
      const std::array<float, 16> found = multiply(*product, a, b, d);
      for (std::size_t i = 0; i < found.size(); ++i) {
        const std::size_t at = i - d;
        const bool is_result = i >= d && at < 12 && at % 3 != 2;
        const float before = 100.0F * static_cast<float>(i);
        const float shift = accumulate ? 100.0F * static_cast<float>(d) : 0.0F;
        EXPECT_EQ(found[i], is_result ? aligned[at] + shift : before) << "element " << i;
      }
    }
  }
  EXPECT_THAT(log_.run, Each(1));
  for (const MatrixProductArguments& each : log_.arguments) {
    EXPECT_TRUE(is_fast(each.a) && is_fast(each.b) && is_fast(each.d));
  }
}

TEST_F(MatrixChoice, HasAnAlgorithmOfItsOwnForArraysThatAreNotAligned) {
  const auto product = choose(small_shape(), [](const ArrayAlignments& alignments) {
    return always({offer(alignments == kFast ? 1 : 2)})(alignments);
  });
  static_cast<void>(multiply(*product, 0, 0, 0));
  static_cast<void>(multiply(*product, 1, 0, 0));
  static_cast<void>(multiply(*product, 0, 0, 1));
  EXPECT_THAT(log_.run, ElementsAre(1, 2, 2));
  EXPECT_THAT(log_.loaded, ElementsAre(2, 1));
  EXPECT_EQ(product->workspace_bytes(), 64) << "nothing is copied";
}

TEST_F(MatrixChoice, UsesForAllArraysWhatTakesAny) {
  const auto product = choose(small_shape(), [](const ArrayAlignments& alignments) {
    return alignments == kFast ? AlgorithmOffers{} : always({offer(2)})(alignments);
  });
  static_cast<void>(multiply(*product, 0, 0, 0));
  EXPECT_THAT(log_.run, ElementsAre(2));
}

TEST_F(MatrixChoice, SaysWhichProductTheLibraryRefusesAndInWhichWords) {
  MatrixProductShape shape = small_shape();
  shape.operand = DType::f16;
  const auto refused = [&](const ScriptedCalls::Answer& answer) {
    return [&, answer] { static_cast<void>(choose(shape, answer)); };
  };
  EXPECT_THAT(
      refused([](const ArrayAlignments&) {
        AlgorithmOffers answer;
        answer.refusal = "CUBLAS_STATUS_INVALID_VALUE";
        return answer;
      }),
      ThrowsMessage<ConfigurationError>(AllOf(HasSubstr("2 products of [2, 3] and [3, 2] in f16 with results in f32"),
                                              HasSubstr("CUBLAS_STATUS_INVALID_VALUE"))));
  EXPECT_THAT(refused(always({})), ThrowsMessage<ConfigurationError>(HasSubstr("no algorithm")));
  EXPECT_THAT(refused(always({offer(101)})),
              ThrowsMessage<ConfigurationError>(HasSubstr("algorithm 101 is not for this device")));
}

TEST_F(MatrixChoice, DoesWithoutAnEpilogueThatTheLibraryLacks) {
  MatrixProductShape shape = small_shape();
  for (const MatrixEpilogue epilogue : {MatrixEpilogue::bias, MatrixEpilogue::gelu_bias, MatrixEpilogue::dgelu}) {
    shape.epilogue = epilogue;
    EXPECT_EQ(choose(shape, always({})), nullptr);
    const auto product = choose(shape, only_for_aligned);
    ASSERT_NE(product, nullptr);
    alignas(16) std::array<float, 8> array{};
    MatrixProductArguments arguments{array.data(), array.data(), array.data(), array.data(), nullptr, array.data()};
    EXPECT_TRUE(product->takes(arguments));
    arguments.a = array.data() + 1;
    EXPECT_FALSE(product->takes(arguments));
    EXPECT_EQ(product->workspace_bytes(), 64) << "such arrays go another way";
  }
}

}  // namespace
}  // namespace strata::cuda

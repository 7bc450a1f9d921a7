#include <algorithm>

#include "device/operands.hpp"
#include "kernels/permute.cuh"
#include "language/launch.hpp"
#include "launchers/permute.hpp"

namespace strata::cuda {
namespace {

constexpr unsigned kLargestGridY = 65535;

template <class From, class To>
constexpr bool has_kernels() {
  return std::is_same_v<From, To> || std::is_same_v<From, float> || std::is_same_v<From, double> ||
         std::is_same_v<To, float>;
}

/// The dims of a permutation except some inner ones.
class OuterDims {
 public:
  OuterDims(const devices::Permutation& permutation, std::size_t without, std::size_t or_without) {
    std::int64_t write_stride = permutation.elements();
    for (std::size_t i = 0; i < permutation.sizes.size(); ++i) {
      const std::int64_t size = permutation.sizes[i];
      write_stride /= size;
      if (i == without || i == or_without) continue;
      count_ *= size;
      append(read_, size, permutation.strides[i]);
      append(write_, size, write_stride);
    }
  }

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] const StridedIndex& read() const { return read_; }
  [[nodiscard]] const StridedIndex& write() const { return write_; }

 private:
  static void append(StridedIndex& index, std::int64_t size, std::int64_t stride) {
    index.sizes[index.count] = size;
    index.strides[index.count] = stride;
    ++index.count;
  }

  std::int64_t count_ = 1;
  StridedIndex read_;
  StridedIndex write_;
};

/// True if every offset of an index is a multiple of `length` elements.
bool is_multiple(const StridedIndex& index, int length) {
  return std::all_of(index.strides, index.strides + index.count,
                     [length](std::int64_t stride) { return stride % length == 0; });
}

Geometry rows_geometry(const PermutedRows& shape, int run) {
  constexpr unsigned kThreads = kPermuteThreads;
  constexpr std::int64_t kRunsOfThread = 4;
  const std::int64_t runs = (shape.columns + run - 1) / run;
  unsigned lanes = 1;
  while (lanes < kThreads && lanes < runs) lanes *= 2;
  const unsigned pieces = std::min(blocks_for(runs, lanes * kRunsOfThread), kLargestGridY);
  return {.grid = {blocks_for(shape.rows, kThreads / lanes), pieces}, .block = {lanes, kThreads / lanes}};
}

template <class From, class To>
PermuteFunction permute_by_rows(const PermutedRows& shape, bool accumulate) {
  constexpr int kRun = kRunLength<From, To>;
  const bool has_runs = shape.columns % kRun == 0 && is_multiple(shape.read, kRun);
  return [=](Stream stream, const void* from, void* to) {
    const auto* read = static_cast<const From*>(from);
    auto* write = static_cast<To*>(to);
    if (has_runs && are_aligned(read, write)) {
      launch(permute_rows<From, To, kRun>, rows_geometry(shape, kRun), stream, shape, read, write, accumulate);
    } else {
      launch(permute_rows<From, To, 1>, rows_geometry(shape, 1), stream, shape, read, write, accumulate);
    }
  };
}

template <class From, class To>
PermuteFunction permute_by_tiles(const PermutedMatrices& shape, bool accumulate) {
  constexpr int kRead = kPackedElements<From>;
  constexpr int kWrite = kPackedElements<To>;
  const bool has_runs = shape.rows % kRead == 0 && shape.read_stride % kRead == 0 && is_multiple(shape.read, kRead) &&
                        shape.columns % kWrite == 0 && shape.write_stride % kWrite == 0 &&
                        is_multiple(shape.write, kWrite);
  const std::int64_t tiles = shape.count * PermutedMatrices::tiles(shape.rows) * PermutedMatrices::tiles(shape.columns);
  const Geometry geometry{.grid = {static_cast<unsigned>(tiles)}, .block = {kPermuteThreads}};
  return [=](Stream stream, const void* from, void* to) {
    const auto* read = static_cast<const From*>(from);
    auto* write = static_cast<To*>(to);
    if (has_runs && are_aligned(read, write)) {
      launch(permute_matrices<From, To, kRead, kWrite>, geometry, stream, shape, read, write, accumulate);
    } else {
      launch(permute_matrices<From, To, 1, 1>, geometry, stream, shape, read, write, accumulate);
    }
  };
}

template <class From, class To>
PermuteFunction prepare_permute_of(const devices::Permutation& permutation, bool accumulate) {
  const std::size_t last = permutation.sizes.size() - 1;
  const auto contiguous = static_cast<std::size_t>(
      std::find(permutation.strides.begin(), permutation.strides.end(), 1) - permutation.strides.begin());
  if (permutation.strides[last] == 1) {
    const OuterDims outer(permutation, last, last);
    return permute_by_rows<From, To>({outer.count(), permutation.sizes[last], outer.read()}, accumulate);
  }
  if (contiguous > last || permutation.strides[last] == 0) {
    // Rows of one element.
    const OuterDims outer(permutation, last + 1, last + 1);
    return permute_by_rows<From, To>({outer.count(), 1, outer.read()}, accumulate);
  }
  const OuterDims outer(permutation, contiguous, last);
  PermutedMatrices shape;
  shape.rows = permutation.sizes[contiguous];
  shape.columns = permutation.sizes[last];
  shape.read_stride = permutation.strides[last];
  shape.write_stride = 1;
  for (std::size_t i = contiguous + 1; i <= last; ++i) shape.write_stride *= permutation.sizes[i];
  shape.count = outer.count();
  shape.read = outer.read();
  shape.write = outer.write();
  return permute_by_tiles<From, To>(shape, accumulate);
}

}  // namespace

bool can_permute(DType from, DType to) {
  return with_element(
      from, [&]<class From>() { return with_element(to, [&]<class To>() { return has_kernels<From, To>(); }); });
}

PermuteFunction prepare_permute(const devices::Permutation& permutation, DType from, DType to, bool accumulate) {
  return with_element(from, [&]<class From>() {
    return with_element(to, [&]<class To>() -> PermuteFunction {
      if constexpr (has_kernels<From, To>()) {
        return prepare_permute_of<From, To>(permutation, accumulate);
      } else {
        throw VerificationError("the cuda device cannot permute " + std::string(to_string(from)) + " to " +
                                std::string(to_string(to)));
      }
    });
  });
}

}  // namespace strata::cuda

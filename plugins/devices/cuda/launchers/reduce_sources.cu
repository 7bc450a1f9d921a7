#include "device/operands.hpp"
#include "kernels/reduce_sources.cuh"
#include "language/launch.hpp"
#include "strata/error.hpp"

namespace strata::cuda {
namespace {

/// Calls function.operator()<T>() with the kernels' element type for a DType that can be reduced.
template <class Function>
void with_reduced(DType dtype, const Function& function) {
  switch (dtype) {
    case DType::i32:
      return function.template operator()<std::int32_t>();
    case DType::i64:
      return function.template operator()<std::int64_t>();
    case DType::i8:
      throw VerificationError("i8 holds quantised numbers, which cannot be reduced");
    default:
      return with_element(dtype, function);
  }
}

template <class T, class Combine>
void launch_combine(Stream stream, const Combine& combine, void* destination, const ReducedSources& sources,
                    std::int64_t elements) {
  bool packed = is_aligned(destination);
  for (int j = 0; j < sources.count; ++j) packed = packed && is_aligned(sources.at[j]);
  launch(reduce_sources<T, Combine>, {{blocks_for(elements, kReduceThreads * kRunLength<T>)}, {kReduceThreads}}, stream,
         sources, combine, elements, packed, static_cast<T*>(destination));
}

}  // namespace

void launch_reduce(Stream stream, Reduction reduction, DType dtype, void* destination,
                   std::span<const void* const> sources, std::int64_t elements) {
  if (sources.empty()) throw VerificationError("a reduction needs at least one source");
  if (sources.size() > kMaxReducedSources) {
    throw VerificationError("a reduction of " + std::to_string(sources.size()) +
                            " sources; the cuda device takes up to " + std::to_string(kMaxReducedSources));
  }
  ReducedSources addresses;
  for (const void* source : sources) addresses.at[addresses.count++] = source;
  with_reduced(dtype, [&]<class T>() {
    if (reduction == Reduction::max) return launch_combine<T>(stream, Greatest{}, destination, addresses, elements);
    launch_combine<T>(stream, Sum{}, destination, addresses, elements);
  });
}

}  // namespace strata::cuda

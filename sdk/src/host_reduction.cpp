#include <algorithm>
#include <cstdint>
#include <span>

#include "strata/error.hpp"
#include "strata/half.hpp"
#include "strata/host_memory_device.hpp"

namespace strata {
namespace {

/// Elements per block. All sources of a block fit into the innermost cache.
constexpr std::int64_t kReduceBlock = 512;

template <class Element, class Sum>
void reduce_elements(Reduction reduction, void* destination, std::span<const void* const> sources,
                     std::int64_t elements, auto&& load, auto&& store) {
  const auto reduce = [&](auto&& combine) {
    Sum sums[kReduceBlock];
    for (std::int64_t begin = 0; begin < elements; begin += kReduceBlock) {
      const std::int64_t size = std::min(kReduceBlock, elements - begin);
      const auto source = [&](std::size_t j) { return static_cast<const Element*>(sources[j]) + begin; };
      const Element* first = source(0);
      // Most groups are pairs, so the first two sources are read in one pass.
      if (const Element* second = sources.size() > 1 ? source(1) : nullptr) {
        for (std::int64_t i = 0; i < size; ++i) sums[i] = combine(load(first[i]), load(second[i]));
      } else {
        for (std::int64_t i = 0; i < size; ++i) sums[i] = load(first[i]);
      }
      for (std::size_t j = 2; j < sources.size(); ++j) {
        const Element* next = source(j);
        for (std::int64_t i = 0; i < size; ++i) sums[i] = combine(sums[i], load(next[i]));
      }
      Element* reduced = static_cast<Element*>(destination) + begin;
      for (std::int64_t i = 0; i < size; ++i) reduced[i] = store(sums[i]);
    }
  };
  if (reduction == Reduction::sum) {
    reduce([](Sum left, Sum right) { return left + right; });
  } else {
    reduce([](Sum left, Sum right) { return std::max(left, right); });
  }
}

template <class Element>
void reduce_plain(Reduction reduction, void* destination, std::span<const void* const> sources, std::int64_t elements) {
  const auto same = [](Element value) { return value; };
  reduce_elements<Element, Element>(reduction, destination, sources, elements, same, same);
}

}  // namespace

/// Uses the calling thread alone, because the communication stream must not take cores from the compute stream.
void HostMemoryDevice::reduce(StreamKind /*stream*/, Reduction reduction, DType dtype, void* destination,
                              std::span<const void* const> sources, std::int64_t elements) {
  if (sources.empty()) throw VerificationError("a reduction needs at least one source");
  switch (dtype) {
    case DType::f64:
      return reduce_plain<double>(reduction, destination, sources, elements);
    case DType::f32:
      return reduce_plain<float>(reduction, destination, sources, elements);
    case DType::i32:
      return reduce_plain<std::int32_t>(reduction, destination, sources, elements);
    case DType::i64:
      return reduce_plain<std::int64_t>(reduction, destination, sources, elements);
    case DType::bf16:
      return reduce_elements<std::uint16_t, float>(
          reduction, destination, sources, elements, [](std::uint16_t bits) { return from_bf16(bits); },
          [](float value) { return to_bf16(value); });
    case DType::f16:
      return reduce_elements<std::uint16_t, float>(
          reduction, destination, sources, elements, [](std::uint16_t bits) { return from_f16(bits); },
          [](float value) { return to_f16(value); });
    case DType::i8:
      throw VerificationError("i8 holds quantised numbers, which cannot be reduced");
  }
}

}  // namespace strata

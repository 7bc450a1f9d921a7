#include "kernels/conversion.hpp"

#include "kernels/vector/parallel.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

void convert(std::int64_t size, Element from, const void* x, Element to, void* y, int threads) {
  with_elements(from, x, [&](const auto* source) {
    with_elements(to, y, [&](auto* destination) {
      parallel_elements(threads, size, [=](std::int64_t begin, std::int64_t end) {
        map_range(begin, end, source, destination, [](Float a) { return a; });
      });
    });
  });
}

void accumulate(std::int64_t size, Element from, const void* x, Element to, void* y, int threads) {
  with_elements(from, x, [&](const auto* source) {
    with_elements(to, y, [&](auto* destination) {
      parallel_elements(threads, size, [=](std::int64_t begin, std::int64_t end) {
        map_range(begin, end, destination, source, destination, [](Float a, Float b) { return a + b; });
      });
    });
  });
}

}  // namespace

const ConversionKernels conversion_kernels = {convert, accumulate};

}  // namespace strata::cpu::STRATA_CPU_TARGET

#include "runtime/element.hpp"

#include <array>
#include <cstddef>
#include <cstring>

#include "strata/reference_kernel.hpp"

namespace strata::host {
namespace {

/// Memory for one element of any dtype. The elements of an array in a file may lie at any address.
struct alignas(double) AlignedElement {
  std::array<std::byte, sizeof(double)> bytes = {};
};

}  // namespace

double load_element(DType dtype, const void* array, std::int64_t index) {
  const std::size_t size = size_of(dtype);
  AlignedElement element;
  std::memcpy(element.bytes.data(), static_cast<const std::byte*>(array) + static_cast<std::size_t>(index) * size,
              size);
  return reference::Reader(element.bytes.data(), dtype)[0];
}

void store_element(DType dtype, void* array, std::int64_t index, double value) {
  const std::size_t size = size_of(dtype);
  AlignedElement element;
  reference::Writer(element.bytes.data(), dtype, false).overwrite(0, value);
  std::memcpy(static_cast<std::byte*>(array) + static_cast<std::size_t>(index) * size, element.bytes.data(), size);
}

}  // namespace strata::host

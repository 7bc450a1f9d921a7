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

std::vector<double> load_elements(DType dtype, std::span<const std::byte> array) {
  std::vector<double> values(array.size() / size_of(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = load_element(dtype, array.data(), static_cast<std::int64_t>(i));
  }
  return values;
}

std::vector<std::byte> store_elements(DType dtype, std::span<const double> values) {
  std::vector<std::byte> array(values.size() * size_of(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    store_element(dtype, array.data(), static_cast<std::int64_t>(i), values[i]);
  }
  return array;
}

}  // namespace strata::host

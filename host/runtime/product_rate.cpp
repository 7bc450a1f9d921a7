#include "runtime/product_rate.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/element.hpp"
#include "strata/compiler_ops.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

constexpr std::int64_t kSmallestSide = 128;
constexpr std::int64_t kLargestSide = 8192;
constexpr int kRepetitions = 4;
/// A product that takes this long is large enough to reach the device's rate.
constexpr double kEnoughSeconds = 0.02;

OpInstance square_product(DType type, std::int64_t side) {
  OpInstance instance;
  instance.op = ops::kLinear;
  instance.name = "rate of products";
  instance.attributes = {{"result", std::string("rows columns")}};
  instance.operands = {{type, {"rows", "depth"}, {side, side}}, {type, {"depth", "columns"}, {side, side}}};
  instance.results = {{type, {"rows", "columns"}, {side, side}}};
  for (const char* dim : {"rows", "depth", "columns"}) instance.index_maps[dim] = IndexMap::whole(side);
  return instance;
}

/// A matrix of numbers from -1 to 1. Zeros would take a GPU less power, and so make it faster than it is.
std::shared_ptr<void> make_matrix(Device& device, DType type, std::int64_t side) {
  std::vector<std::byte> values(static_cast<std::size_t>(side * side) * size_of(type));
  for (std::int64_t i = 0; i < side; ++i) {
    store_element(type, values.data(), i, static_cast<double>((i * 37) % 97) / 48.5 - 1);
  }
  const std::size_t row = static_cast<std::size_t>(side) * size_of(type);
  for (std::size_t at = row; at < values.size(); at += row) std::copy_n(values.data(), row, values.data() + at);
  std::shared_ptr<void> matrix = device.allocate(static_cast<std::int64_t>(values.size()));
  device.copy_from_host(StreamKind::compute, matrix.get(), values.data(), static_cast<std::int64_t>(values.size()));
  device.synchronize(StreamKind::compute);
  return matrix;
}

/// The shortest time of one product.
double product_seconds(Device& device, DType type, std::int64_t side) {
  using Clock = std::chrono::steady_clock;
  const OpInstance instance = square_product(type, side);
  const std::unique_ptr<Kernel> kernel = device.prepare(instance);
  const std::shared_ptr<void> workspace = device.allocate(std::max<std::int64_t>(device.workspace_bytes(instance), 1));
  const std::array<std::shared_ptr<void>, 3> memory = {make_matrix(device, type, side), make_matrix(device, type, side),
                                                       make_matrix(device, type, side)};
  const std::array<const void*, 2> operands = {memory[0].get(), memory[1].get()};
  const std::array<void*, 1> results = {memory[2].get()};
  double shortest = 0;
  for (int i = 0; i <= kRepetitions; ++i) {
    const Clock::time_point begin = Clock::now();
    kernel->launch({operands, results, workspace.get(), {}});
    device.synchronize(StreamKind::compute);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    // The first launch warms up.
    if (i == 1 || seconds < shortest) shortest = seconds;
  }
  return shortest;
}

}  // namespace

double measure_product_rate(Device& device, DType type) {
  double rate = 0;
  for (std::int64_t side = kSmallestSide; side <= kLargestSide; side *= 2) {
    if (device.unsupported(square_product(type, side))) break;
    double seconds = 0;
    try {
      seconds = product_seconds(device, type, side);
    } catch (const RuntimeError&) {
      // The device has too little memory for larger products.
      break;
    }
    rate = std::max(rate, 2.0 * static_cast<double>(side * side * side) / seconds);
    if (seconds > kEnoughSeconds) break;
  }
  return rate;
}

}  // namespace strata::host

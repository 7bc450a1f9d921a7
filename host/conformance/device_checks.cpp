#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "conformance/check.hpp"
#include "conformance/subject.hpp"
#include "setup/run_setup.hpp"
#include "strata/error.hpp"
#include "verify/graph_evaluator.hpp"
#include "verify/verification.hpp"

namespace strata::host {
namespace {

constexpr StreamKind kStream = StreamKind::communication;
using Numbers = std::vector<double>;

std::shared_ptr<void> filled(Device& device, DType dtype, const Numbers& values) {
  auto memory = device.allocate(static_cast<std::int64_t>(values.size() * size_of(dtype)));
  upload(device, memory.get(), dtype, values);
  return memory;
}

void require_contents(Device& device, const std::shared_ptr<void>& memory, DType dtype, const Numbers& wanted,
                      const std::string& what) {
  device.synchronize(kStream);
  const Numbers found = download(device, memory.get(), dtype, static_cast<std::int64_t>(wanted.size()));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (found[i] == wanted[i]) continue;
    throw CheckFailed(what + " of " + std::string(to_string(dtype)) + ": element " + std::to_string(i) + " is " +
                      std::to_string(found[i]) + " in place of " + std::to_string(wanted[i]));
  }
}

/// In f32, 2^24 + 1 - 2^24 is 0 in this order and 1 in another order.
void try_order_of_reduction(Device& device) {
  const auto a = filled(device, DType::f32, {0x1p24, 1, 5});
  const auto b = filled(device, DType::f32, {1, 2, -7});
  const auto c = filled(device, DType::f32, {-0x1p24, 4, 6});
  const auto result = filled(device, DType::f32, {9, 9, 9});
  const void* const order[] = {a.get(), b.get(), c.get()};
  device.reduce(kStream, Reduction::sum, DType::f32, result.get(), order, 3);
  require_contents(device, result, DType::f32, {0, 7, 4}, "the sum in the order of the sources");
  const void* const other_order[] = {a.get(), c.get(), b.get()};
  device.reduce(kStream, Reduction::sum, DType::f32, result.get(), other_order, 3);
  require_contents(device, result, DType::f32, {1, 7, 4}, "the sum in another order of the sources");
  device.reduce(kStream, Reduction::max, DType::f32, result.get(), order, 3);
  require_contents(device, result, DType::f32, {0x1p24, 4, 6}, "the maximum");
}

/// The result of `count` sources overwrites one of them.
void try_reduction_in_place(Device& device, DType dtype, std::size_t count, std::size_t in_place) {
  constexpr std::size_t kCount = 1501;
  std::vector<std::shared_ptr<void>> memory;
  std::vector<const void*> sources;
  Numbers sum(kCount);
  for (std::size_t j = 0; j < count; ++j) {
    Numbers values;
    for (std::size_t i = 0; i < kCount; ++i) values.push_back(static_cast<double>((i * 7 + j * 5) % 23) - 11);
    std::ranges::transform(sum, values, sum.begin(), std::plus<>());
    memory.push_back(filled(device, dtype, values));
    sources.push_back(memory.back().get());
  }
  device.reduce(kStream, Reduction::sum, dtype, memory[in_place].get(), sources, static_cast<std::int64_t>(kCount));
  require_contents(device, memory[in_place], dtype, sum,
                   "the sum of " + std::to_string(count) + " in place of source " + std::to_string(in_place));
}

}  // namespace

void try_memory(Device& device) {
  if (device.description().empty()) throw CheckFailed("the device has no description");
  if (device.memory_bytes() <= 0) throw CheckFailed("the device offers no memory");
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1}, std::int64_t{4096}, std::int64_t{9} << 20U}) {
    const auto memory = device.allocate(bytes);
    const std::string what = "the memory of " + std::to_string(bytes) + " bytes ";
    if (memory == nullptr) throw CheckFailed(what + "is missing (a null pointer)");
    if (reinterpret_cast<std::uintptr_t>(memory.get()) % 256 != 0) {
      throw CheckFailed(what + "is not aligned to 256 bytes");
    }
    std::vector<unsigned char> found(static_cast<std::size_t>(bytes), 1);
    device.copy_to_host(kStream, found.data(), memory.get(), bytes);
    const bool is_zero = std::ranges::all_of(found, [](unsigned char byte) { return byte == 0; });
    if (!is_zero) throw CheckFailed(what + "is not zeroed");
  }
}

void try_copies(Device& device) {
  const auto numbers = filled(device, DType::i32, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const auto rows = filled(device, DType::i32, Numbers(8, -1));
  // The middle two columns of [3, 4] into the left two of [3, 3], of which the last row is cut short.
  device.copy_rows(kStream, rows.get(), 12, static_cast<const char*>(numbers.get()) + 4, 16, 8, 3);
  require_contents(device, rows, DType::i32, {1, 2, -1, 5, 6, -1, 9, 10}, "a copy of rows");
  device.copy_rows(kStream, rows.get(), 8, numbers.get(), 8, 8, 4);
  require_contents(device, rows, DType::i32, {0, 1, 2, 3, 4, 5, 6, 7}, "a copy of rows that follow one another");
  const auto source = filled(device, DType::f32, {1, 2, 3, 4});
  const auto destination = filled(device, DType::f32, {9, 9, 9, 9});
  device.copy(kStream, destination.get(), source.get(), 12);
  require_contents(device, destination, DType::f32, {1, 2, 3, 9}, "a copy");
  device.fill_zero(kStream, destination.get(), 8);
  require_contents(device, destination, DType::f32, {0, 0, 3, 9}, "clearing");
}

void try_streams(Device& device) {
  const auto event = device.record(StreamKind::compute);
  if ((event == nullptr) != device.is_host_memory()) {
    throw CheckFailed("record() returns " + std::string(event == nullptr ? "no event" : "an event") +
                      "; accepted: null events from a device in host memory, and events from others");
  }
  device.wait(kStream, event);
  device.wait(kStream, nullptr);
  constexpr std::int64_t kCount = 3'000'001;
  std::vector<std::int32_t> numbers(kCount);
  std::iota(numbers.begin(), numbers.end(), 1);
  const std::int64_t bytes = kCount * 4;
  const auto first = device.allocate(bytes);
  const auto second = device.allocate(bytes);
  device.copy_from_host(StreamKind::transfer, first.get(), numbers.data(), bytes);
  // The caller may change its host memory now.
  std::ranges::fill(numbers, 0);
  device.wait(StreamKind::compute, device.record(StreamKind::transfer));
  device.copy(StreamKind::compute, second.get(), first.get(), bytes);
  device.wait(kStream, device.record(StreamKind::compute));
  device.copy_to_host(kStream, numbers.data(), second.get(), bytes);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] == static_cast<std::int32_t>(i) + 1) continue;
    throw CheckFailed("copies on three streams that events order: element " + std::to_string(i) + " is " +
                      std::to_string(numbers[i]) + " in place of " + std::to_string(i + 1));
  }
}

void try_reductions(Device& device) {
  try_order_of_reduction(device);
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i32, DType::i64}) {
    for (const std::size_t count : {1U, 2U, 3U}) {
      for (std::size_t in_place = 0; in_place < count; ++in_place)
        try_reduction_in_place(device, dtype, count, in_place);
    }
  }
  // 1 + 2^-8 + 2^-8 is 1 if each sum is rounded to bf16, and 1 + 2^-7 if the last one is.
  const auto a = filled(device, DType::bf16, {1});
  const auto b = filled(device, DType::bf16, {0x1p-8});
  const auto result = filled(device, DType::bf16, {0});
  const void* const sources[] = {a.get(), b.get(), b.get()};
  device.reduce(kStream, Reduction::sum, DType::bf16, result.get(), sources, 1);
  require_contents(device, result, DType::bf16, {1 + 0x1p-7}, "the sum, rounded once");
}

namespace {

/// A run's setup and the device of its first rank.
struct DeviceUnderTest {
  RunSetup setup;
  std::unique_ptr<Device> device;

  explicit DeviceUnderTest(Subject& subject) : setup(prepare(subject.configuration(), subject.plugins())) {
    try {
      device = setup.make_device(0, 1);
    } catch (const ConfigurationError& error) {
      throw CheckSkipped(std::string("this machine lacks what it needs: ") + error.what());
    }
  }
};

std::string check_device_memory(Subject& subject) {
  const DeviceUnderTest under_test(subject);
  try_memory(*under_test.device);
  try_copies(*under_test.device);
  try_streams(*under_test.device);
  return under_test.device->description();
}

std::string check_device_reductions(Subject& subject) {
  try_reductions(*DeviceUnderTest(subject).device);
  return "";
}

std::string check_device_stacks(Subject& subject) {
  static_cast<void>(DeviceUnderTest(subject));
  return prove_with_every_strategy(subject, false);
}

StackResult train_once(Subject& subject) {
  const RunSetup setup = prepare(subject.configuration(), subject.plugins());
  return run_setup_stack(setup, DType::f32, 3, devices_of(setup));
}

/// Compares bits, so that NaN equals NaN.
bool is_equal(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
}

std::string check_determinism(Subject& subject) {
  const StackResult first = train_once(subject);
  const StackResult second = train_once(subject);
  if (!is_equal(first.losses, second.losses)) throw CheckFailed("the losses of two equal runs differ");
  if (!is_equal(first.gradient_norms, second.gradient_norms)) {
    throw CheckFailed("the gradient norms of two equal runs differ");
  }
  for (const auto& [name, values] : first.parameters) {
    if (!is_equal(values, second.parameters.at(name))) {
      throw CheckFailed("parameter '" + name + "' differs after two equal runs");
    }
  }
  return std::to_string(first.parameters.size()) + " parameters";
}

}  // namespace

std::vector<Check> device_checks() {
  return {
      {"V01", "Memory is aligned and zeroed, copies are exact, and events order streams.",
       "Runs compute with wrong numbers now and then.", check_device_memory},
      {"V02", "Reductions add in the order of their sources, in f32 for short types, also in place.",
       "Layouts give different results, or short types lose their sums.", check_device_reductions},
      {"V03", "Each installed strategy trains on it in f64 as one rank of the reference device, or is refused.",
       "Real runs fail although each kernel works.", check_device_stacks},
  };
}

std::vector<Check> determinism_checks() {
  return {
      {"R01", "Two equal runs in f32 are bitwise equal.", "No result can be reproduced.", check_determinism},
  };
}

}  // namespace strata::host

#include "reference_device.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernel.hpp"
#include "kernel_table.hpp"
#include "strata/error.hpp"
#include "strata/half.hpp"

namespace strata::reference {
namespace {

constexpr std::int64_t kAlignment = 64;

/// `Sum` is the type in which sources are added.
template <class Element, class Sum>
void reduce_elements(Reduction reduction, Element* destination, std::span<const void* const> sources,
                     std::int64_t elements, auto&& load, auto&& store) {
  for (std::int64_t i = 0; i < elements; ++i) {
    Sum result = load(static_cast<const Element*>(sources[0])[i]);
    for (std::size_t j = 1; j < sources.size(); ++j) {
      const Sum value = load(static_cast<const Element*>(sources[j])[i]);
      result = reduction == Reduction::max ? std::max(result, value) : static_cast<Sum>(result + value);
    }
    destination[i] = store(result);
  }
}

template <class Element>
void reduce_plain(Reduction reduction, void* destination, std::span<const void* const> sources, std::int64_t elements) {
  const auto same = [](Element value) { return value; };
  reduce_elements<Element, Element>(reduction, static_cast<Element*>(destination), sources, elements, same, same);
}

}  // namespace

std::string ReferenceDevice::description() const { return "reference, 1 thread"; }

std::int64_t ReferenceDevice::memory_bytes() const {
  return static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE) / ranks_on_host_;
}

std::optional<std::string> ReferenceDevice::unsupported(const OpInstance& instance) const {
  const KernelEntry* entry = find_kernel(instance.op);
  if (entry == nullptr) return "the reference device has no kernel for op '" + instance.op + "'";
  return mismatch(*entry, instance);
}

std::int64_t ReferenceDevice::workspace_bytes(const OpInstance& instance) const {
  const KernelEntry* entry = find_kernel(instance.op);
  return entry == nullptr || entry->workspace == nullptr ? 0 : entry->workspace(instance);
}

std::unique_ptr<Kernel> ReferenceDevice::prepare(const OpInstance& instance) {
  if (const auto reason = unsupported(instance)) throw ConfigurationError(*reason);
  return make_kernel(*find_kernel(instance.op), instance);
}

std::shared_ptr<void> ReferenceDevice::allocate(std::int64_t bytes) {
  const std::int64_t size = std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  void* memory = std::aligned_alloc(kAlignment, static_cast<std::size_t>(size));
  if (memory == nullptr) throw RuntimeError("the reference device cannot allocate " + std::to_string(bytes) + " bytes");
  std::memset(memory, 0, static_cast<std::size_t>(size));
  return {memory, std::free};
}

void ReferenceDevice::copy_from_host(StreamKind stream, void* device, const void* host, std::int64_t bytes) {
  copy(stream, device, host, bytes);
}

void ReferenceDevice::copy_to_host(StreamKind stream, void* host, const void* device, std::int64_t bytes) {
  copy(stream, host, device, bytes);
}

void ReferenceDevice::copy(StreamKind /*stream*/, void* destination, const void* source, std::int64_t bytes) {
  if (bytes > 0) std::memmove(destination, source, static_cast<std::size_t>(bytes));
}

void ReferenceDevice::copy_rows(StreamKind stream, void* destination, std::int64_t destination_pitch,
                                const void* source, std::int64_t source_pitch, std::int64_t width, std::int64_t rows) {
  for (std::int64_t row = 0; row < rows; ++row) {
    copy(stream, static_cast<char*>(destination) + row * destination_pitch,
         static_cast<const char*>(source) + row * source_pitch, width);
  }
}

void ReferenceDevice::reduce(StreamKind /*stream*/, Reduction reduction, DType dtype, void* destination,
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
      return reduce_elements<std::uint16_t, float>(reduction, static_cast<std::uint16_t*>(destination), sources,
                                                   elements, from_bf16, to_bf16);
    case DType::f16:
      return reduce_elements<std::uint16_t, float>(reduction, static_cast<std::uint16_t*>(destination), sources,
                                                   elements, from_f16, to_f16);
  }
}

void ReferenceDevice::fill_zero(StreamKind /*stream*/, void* destination, std::int64_t bytes) {
  if (bytes > 0) std::memset(destination, 0, static_cast<std::size_t>(bytes));
}

std::shared_ptr<Event> ReferenceDevice::record(StreamKind /*stream*/) { return nullptr; }
void ReferenceDevice::wait(StreamKind /*stream*/, const std::shared_ptr<Event>& /*event*/) {}
void ReferenceDevice::synchronize(StreamKind /*stream*/) {}

const OptionSchema& ReferenceDeviceFactory::options() const { return options_; }

std::unique_ptr<Device> ReferenceDeviceFactory::create(const Options& /*options*/, const DeviceRequest& request) const {
  return std::make_unique<ReferenceDevice>(std::max(1, request.ranks_on_host));
}

}  // namespace strata::reference

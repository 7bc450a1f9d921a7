#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strata/device.hpp"
#include "strata/error.hpp"

namespace strata::testing {

inline float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16U); }

/// Rounds to nearest, ties to even. Tests have no NaN.
inline std::uint16_t to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

/// The smallest device: host memory, copies and reductions, no ops. Work is done when a call returns.
class HostDevice : public Device {
 public:
  [[nodiscard]] std::string description() const override { return "host memory"; }
  [[nodiscard]] std::int64_t memory_bytes() const override { return std::int64_t{1} << 30; }
  [[nodiscard]] bool is_host_memory() const override { return true; }
  [[nodiscard]] std::optional<std::string> unsupported(const OpInstance& instance) const override {
    return "no op '" + instance.op + "'";
  }
  [[nodiscard]] std::int64_t workspace_bytes(const OpInstance&) const override { return 0; }
  [[nodiscard]] std::unique_ptr<Kernel> prepare(const OpInstance& instance) override {
    throw ConfigurationError("no op '" + instance.op + "'");
  }
  [[nodiscard]] std::shared_ptr<void> allocate(std::int64_t bytes) override {
    return std::shared_ptr<void>(std::calloc(static_cast<std::size_t>(bytes) + 1, 1), std::free);
  }
  void copy_from_host(StreamKind stream, void* device, const void* host, std::int64_t bytes) override {
    copy(stream, device, host, bytes);
  }
  void copy_to_host(StreamKind stream, void* host, const void* device, std::int64_t bytes) override {
    copy(stream, host, device, bytes);
  }
  void copy(StreamKind, void* destination, const void* source, std::int64_t bytes) override {
    if (bytes > 0) std::memcpy(destination, source, static_cast<std::size_t>(bytes));
  }
  void copy_rows(StreamKind stream, void* destination, std::int64_t destination_pitch, const void* source,
                 std::int64_t source_pitch, std::int64_t width, std::int64_t rows) override {
    for (std::int64_t row = 0; row < rows; ++row) {
      copy(stream, static_cast<std::byte*>(destination) + row * destination_pitch,
           static_cast<const std::byte*>(source) + row * source_pitch, width);
    }
  }
  void reduce(StreamKind, Reduction reduction, DType dtype, void* destination, std::span<const void* const> sources,
              std::int64_t elements) override {
    if (dtype == DType::f64) return reduce_as<double>(reduction, destination, sources, elements);
    if (dtype == DType::f32) return reduce_as<float>(reduction, destination, sources, elements);
    if (dtype != DType::bf16) throw RuntimeError("cannot reduce " + std::string(to_string(dtype)));
    for (std::int64_t i = 0; i < elements; ++i) {
      float result = from_bf16(static_cast<const std::uint16_t*>(sources[0])[i]);
      for (std::size_t j = 1; j < sources.size(); ++j) {
        result = combine(reduction, result, from_bf16(static_cast<const std::uint16_t*>(sources[j])[i]));
      }
      static_cast<std::uint16_t*>(destination)[i] = to_bf16(result);
    }
  }
  void fill_zero(StreamKind, void* destination, std::int64_t bytes) override {
    if (bytes > 0) std::memset(destination, 0, static_cast<std::size_t>(bytes));
  }
  [[nodiscard]] std::shared_ptr<Event> record(StreamKind) override { return nullptr; }
  void wait(StreamKind, const std::shared_ptr<Event>&) override {}
  void synchronize(StreamKind) override {}

 private:
  template <class T>
  static T combine(Reduction reduction, T left, T right) {
    return reduction == Reduction::sum ? left + right : (left < right ? right : left);
  }

  template <class T>
  static void reduce_as(Reduction reduction, void* destination, std::span<const void* const> sources,
                        std::int64_t elements) {
    for (std::int64_t i = 0; i < elements; ++i) {
      T result = static_cast<const T*>(sources[0])[i];
      for (std::size_t j = 1; j < sources.size(); ++j) {
        result = combine(reduction, result, static_cast<const T*>(sources[j])[i]);
      }
      static_cast<T*>(destination)[i] = result;
    }
  }
};

}  // namespace strata::testing

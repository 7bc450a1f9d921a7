#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "communicator/host_device.hpp"
#include "communicator/stream_device.hpp"

namespace strata::testing {

/// Three ops on f64, enough to see what the executor hands to kernels:
/// - "number": i32 ids -> f64
/// - "affine": y = factor · x + offset · micro_batch + learning_rate
/// - "total": x -> scalar sum, accumulated if asked
/// With an attribute `fails`, `throws_number` or `throws_standard` the launch throws.
class ToyKernel final : public Kernel {
 public:
  using Enqueue = std::function<void(std::function<void()>)>;

  ToyKernel(OpInstance instance, Enqueue enqueue) : instance_(std::move(instance)), enqueue_(std::move(enqueue)) {}

  void launch(const KernelArguments& arguments) override {
    if (instance_.attributes.has("fails")) throw RuntimeError("the kernel is out of order");
    if (instance_.attributes.has("throws_number")) throw 42;
    if (instance_.attributes.has("throws_standard")) throw std::out_of_range("too far");
    const void* input = arguments.operands[0];
    void* output = arguments.results[0];
    enqueue_([this, input, output, context = arguments.context] { run(input, output, context); });
  }

 private:
  void run(const void* input, void* output, const StepContext& context) const {
    const std::int64_t count = element_count(instance_.operands[0].shape);
    const auto* x = static_cast<const double*>(input);
    auto* y = static_cast<double*>(output);
    if (instance_.op == "number") {
      for (std::int64_t i = 0; i < count; ++i) y[i] = static_cast<const std::int32_t*>(input)[i];
    } else if (instance_.op == "affine") {
      const double offset = instance_.attributes.number("offset") * context.micro_batch + context.learning_rate;
      for (std::int64_t i = 0; i < count; ++i) y[i] = instance_.attributes.number("factor") * x[i] + offset;
    } else {
      double sum = instance_.accumulate ? *y : 0;
      for (std::int64_t i = 0; i < count; ++i) sum += x[i];
      *y = sum;
    }
  }

  OpInstance instance_;
  Enqueue enqueue_;
};

/// A test device with those ops. `Base` is HostDevice, StreamDevice or a class derived from one.
template <class Base>
class ToyDevice final : public Base {
 public:
  [[nodiscard]] std::optional<std::string> unsupported(const OpInstance& instance) const override {
    const bool known = instance.op == "number" || instance.op == "affine" || instance.op == "total";
    return known ? std::nullopt : std::optional<std::string>("no op '" + instance.op + "'");
  }
  [[nodiscard]] std::unique_ptr<Kernel> prepare(const OpInstance& instance) override {
    if (const auto why = unsupported(instance)) throw ConfigurationError(*why);
    if constexpr (std::is_base_of_v<StreamDevice, Base>) {
      return std::make_unique<ToyKernel>(
          instance, [this](std::function<void()> work) { this->enqueue(StreamKind::compute, std::move(work)); });
    } else {
      return std::make_unique<ToyKernel>(instance, [](const std::function<void()>& work) { work(); });
    }
  }
};

/// The bases for tests that run on both devices.
using ToyBases = ::testing::Types<HostDevice, StreamDevice>;
struct ToyBaseNames {
  template <class Base>
  static std::string GetName(int) {
    return std::is_same_v<Base, HostDevice> ? "host" : "streams";
  }
};

}  // namespace strata::testing

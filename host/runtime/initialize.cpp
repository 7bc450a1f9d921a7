#include "runtime/initialize.hpp"

#include <cmath>
#include <string>

#include "runtime/element.hpp"
#include "strata/error.hpp"
#include "strata/random.hpp"

namespace strata::host {
namespace {

/// Initial values of one parameter by the global, row-major index of the element.
class StartingValues {
 public:
  StartingValues(const StoredParameter& parameter, std::uint64_t seed)
      : parameter_(parameter), key_(random::stream_key(seed, "init/" + parameter.name, 0)) {
    for (const ShardedDim& dim : parameter.dims) shape_.push_back(dim.global_size);
    index_.resize(shape_.size());
    elements_ = element_count(shape_);
  }

  /// The value of an element of the tensor. Replicas along loose axes, whose tensors follow one another, begin alike.
  [[nodiscard]] double operator()(std::int64_t element) {
    element %= elements_;
    const Initialization& start = parameter_.initialization;
    switch (start.kind) {
      case Initialization::Kind::constant:
        return start.value;
      case Initialization::Kind::normal:
        return start.value * random::normal(key_, static_cast<std::uint64_t>(element));
      case Initialization::Kind::custom:
        return custom(element);
    }
    return 0;
  }

 private:
  double custom(std::int64_t element) {
    for (std::size_t i = shape_.size(); i-- > 0;) {
      index_[i] = element % shape_[i];
      element /= shape_[i];
    }
    const double value = call();
    if (!std::isfinite(value)) fail("gives " + std::to_string(value));
    return value;
  }

  double call() {
    if (parameter_.initialization.initializer == nullptr) fail("is missing (a null pointer)");
    try {
      return parameter_.initialization.initializer->value(index_, shape_, key_);
    } catch (...) {
      fail("threw " + current_exception_text());
    }
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw RuntimeError("the initializer of parameter '" + parameter_.name + "' " + what);
  }

  const StoredParameter& parameter_;
  std::uint64_t key_;
  Shape shape_;
  std::int64_t elements_ = 1;
  std::vector<std::int64_t> index_;
};

/// Sets a parameter's values or one of its states to the initial values or to zero.
void set(Executor& executor, const StoredParameter& parameter, BufferId buffer, bool to_zero, std::uint64_t seed) {
  const Program& program = executor.program();
  const Shard shard = shard_of(program, parameter, buffer, executor.rank());
  if (shard.local_elements() == 0) return;
  const DType dtype = program.buffer(buffer).dtype;
  const std::size_t bytes = static_cast<std::size_t>(shard.local_elements()) * size_of(dtype);
  const auto values = to_zero ? std::vector<std::byte>(bytes) : initial_values(parameter, shard, dtype, seed);
  executor.write(shard.slice(buffer), values.data());
}

}  // namespace

std::vector<std::byte> initial_values(const StoredParameter& parameter, const Shard& shard, DType dtype,
                                      std::uint64_t seed) {
  std::vector<std::byte> values(static_cast<std::size_t>(shard.local_elements()) * size_of(dtype));
  StartingValues start(parameter, seed);
  const bool through_f32 = size_of(dtype) < sizeof(float);
  shard.for_each_run([&](std::int64_t local, std::int64_t global, std::int64_t length) {
    for (std::int64_t i = 0; i < length; ++i) {
      const double value = start(global + i);
      store_element(dtype, values.data(), local + i, through_f32 ? static_cast<float>(value) : value);
    }
  });
  return values;
}

bool begins_as_value(const StoredParameter& parameter, const std::string& state) {
  const auto traits = parameter.traits.find(state);
  return state == kMasterState || (traits != parameter.traits.end() && traits->second.begins_as_value);
}

void initialize(Executor& executor, std::uint64_t seed) {
  clear_flat_buffers(executor.program(),
                     [&](const BufferSlice& slice, const void* values) { executor.write(slice, values); });
  for (const StoredParameter& parameter : executor.program().parameters) {
    set(executor, parameter, parameter.value, false, seed);
    for (const auto& [name, state] : parameter.states) {
      set(executor, parameter, state, !begins_as_value(parameter, name), seed);
    }
  }
}

void initialize_constants(Executor& executor, std::uint64_t seed) {
  for (const StoredParameter& parameter : executor.program().parameters) {
    if (parameter.role == ParameterRole::constant) set(executor, parameter, parameter.value, false, seed);
  }
}

}  // namespace strata::host

#include "runtime/initialize.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "strata/error.hpp"
#include "strata/internal/derived_initializer.hpp"
#include "strata/random.hpp"
#include "strata/reference_kernel.hpp"

namespace strata::host {
namespace {

/// A tensor whose initial values the host computes.
struct InitialTensor {
  const std::string& name;
  Shape shape;
  const Initialization& initialization;
};

[[noreturn]] void fail(const std::string& parameter, const std::string& what) {
  throw RuntimeError("the initializer of parameter '" + parameter + "' " + what);
}

/// Calls a function of a plugin's initializer.
template <class Call>
auto ask(const std::string& parameter, const Call& call) {
  try {
    return call();
  } catch (...) {
    fail(parameter, "threw " + current_exception_text());
  }
}

/// Initial values of one tensor by the global, row-major index of the element.
class StartingValues {
 public:
  StartingValues(InitialTensor tensor, std::uint64_t seed)
      : tensor_(std::move(tensor)),
        key_(random::stream_key(seed, "init/" + tensor_.name, 0)),
        elements_(element_count(tensor_.shape)),
        index_(tensor_.shape.size()) {}

  /// The value of an element of the tensor. Replicas along unsynchronized axes, whose tensors follow one another, begin
  /// alike.
  [[nodiscard]] double operator()(std::int64_t element) {
    element %= elements_;
    const Initialization& start = tensor_.initialization;
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
    const Shape& shape = tensor_.shape;
    for (std::size_t i = shape.size(); i-- > 0;) {
      index_[i] = element % shape[i];
      element /= shape[i];
    }
    const auto& initializer = tensor_.initialization.initializer;
    if (initializer == nullptr) fail(tensor_.name, "is missing (a null pointer)");
    const double value = ask(tensor_.name, [&] { return initializer->value(index_, shape, key_); });
    if (!std::isfinite(value)) fail(tensor_.name, "gives " + std::to_string(value));
    return value;
  }

  InitialTensor tensor_;
  std::uint64_t key_;
  std::int64_t elements_;
  std::vector<std::int64_t> index_;
};

/// The values that the source of a derived parameter would have.
std::vector<float> starting_source(const DerivedInitializer& initializer, std::uint64_t seed) {
  const DerivedInitializer::Source& source = initializer.source();
  StartingValues start({source.name, source.shape, source.initialization}, seed);
  std::vector<float> values(static_cast<std::size_t>(element_count(source.shape)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(start(static_cast<std::int64_t>(i)));
  return values;
}

Shape global_shape(const StoredParameter& parameter) {
  Shape shape;
  for (const ShardedDim& dim : parameter.dims) shape.push_back(dim.global_size);
  return shape;
}

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
  if (const DerivedInitializer* derived = derived_initializer(parameter.initialization)) {
    return derived_values(parameter, starting_source(*derived, seed), shard, dtype);
  }
  std::vector<std::byte> values(static_cast<std::size_t>(shard.local_elements()) * size_of(dtype));
  StartingValues start({parameter.name, global_shape(parameter), parameter.initialization}, seed);
  const reference::Writer writer(values.data(), dtype, false);
  for_each_run(shard.part(), [&](std::int64_t local, std::int64_t global, std::int64_t length) {
    for (std::int64_t i = 0; i < length; ++i) writer.overwrite(local + i, start(global + i));
  });
  return values;
}

std::vector<std::byte> derived_values(const StoredParameter& parameter, std::span<const float> source,
                                      const Shard& shard, DType dtype) {
  const std::vector<float> whole =
      ask(parameter.name, [&] { return derived_initializer(parameter.initialization)->derive(source); });
  const std::int64_t elements = element_count(global_shape(parameter));
  if (static_cast<std::int64_t>(whole.size()) != elements) {
    fail(parameter.name, "derives " + std::to_string(whole.size()) + " values of " + std::to_string(elements));
  }
  const auto bad = std::ranges::find_if_not(whole, [](float value) { return std::isfinite(value); });
  if (bad != whole.end()) fail(parameter.name, "derives " + std::to_string(*bad));
  std::vector<std::byte> values(static_cast<std::size_t>(shard.local_elements()) * size_of(dtype));
  const reference::Writer writer(values.data(), dtype, false);
  for_each_run(shard.part(), [&](std::int64_t local, std::int64_t global, std::int64_t length) {
    for (std::int64_t i = 0; i < length; ++i) {
      // Replicas along unsynchronized axes, whose tensors follow one another, begin alike.
      writer.overwrite(local + i, whole[static_cast<std::size_t>((global + i) % elements)]);
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

#include "verify/disturbance.hpp"

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/element.hpp"
#include "runtime/initialize.hpp"
#include "runtime/shards.hpp"
#include "strata/random.hpp"

namespace strata::host {
namespace {

void disturb(Executor& executor, const StoredParameter& parameter, BufferId buffer, const Disturbance& disturbance) {
  const Program& program = executor.program();
  const Shard shard = shard_of(program, parameter, buffer, executor.rank());
  if (shard.local_elements() == 0) return;
  const DType dtype = program.buffer(buffer).dtype;
  const std::uint64_t key = random::stream_key(disturbance.seed, "disturbance/" + parameter.name, 0);
  std::vector<std::byte> values(static_cast<std::size_t>(shard.local_elements()) * size_of(dtype));
  executor.read(shard.slice(buffer), values.data());
  shard.for_each_run([&](std::int64_t local, std::int64_t global, std::int64_t length) {
    for (std::int64_t i = 0; i < length; ++i) {
      const bool grows = random::below(key, static_cast<std::uint64_t>(global + i), 2) == 1;
      const double value = load_element(dtype, values.data(), local + i);
      store_element(dtype, values.data(), local + i, value * (grows ? 1 + disturbance.unit : 1 - disturbance.unit));
    }
  });
  executor.write(shard.slice(buffer), values.data());
}

}  // namespace

void disturb_parameters(Executor& executor, const Disturbance& disturbance) {
  if (disturbance.unit == 0) return;
  for (const StoredParameter& parameter : executor.program().parameters) {
    if (parameter.role == ParameterRole::constant) continue;
    disturb(executor, parameter, parameter.value, disturbance);
    for (const auto& [name, state] : parameter.states) {
      if (begins_as_value(parameter, name)) disturb(executor, parameter, state, disturbance);
    }
  }
}

}  // namespace strata::host

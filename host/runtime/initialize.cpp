#include "runtime/initialize.hpp"

#include <string>

#include "runtime/element.hpp"
#include "runtime/shards.hpp"
#include "strata/error.hpp"
#include "strata/random.hpp"

namespace strata::host {

std::vector<std::byte> initial_values(const Program& program, const StoredParameter& parameter, int rank,
                                      std::uint64_t seed) {
  const Buffer& buffer = program.buffer(parameter.value);
  const Shard shard(parameter, program.mesh, rank);
  if (shard.local_elements() != buffer.elements()) {
    throw VerificationError("parameter '" + parameter.name + "' has " + std::to_string(shard.local_elements()) +
                            " elements on rank " + std::to_string(rank) + ", its buffer " +
                            std::to_string(buffer.elements()));
  }
  std::vector<std::byte> values(static_cast<std::size_t>(buffer.bytes()));
  const std::uint64_t key = random::stream_key(seed, "init/" + parameter.name, 0);
  const Initialization& start = parameter.initialization;
  const bool draws = start.kind == Initialization::Kind::normal;
  shard.for_each_run([&](std::int64_t local, std::int64_t global, std::int64_t length) {
    for (std::int64_t i = 0; i < length; ++i) {
      const double factor = draws ? random::normal(key, static_cast<std::uint64_t>(global + i)) : 1.0;
      store_element(buffer.dtype, values.data(), local + i, start.value * factor);
    }
  });
  return values;
}

void initialize(Executor& executor, std::uint64_t seed) {
  const Program& program = executor.program();
  for (const StoredParameter& parameter : program.parameters) {
    std::vector<std::byte> values = initial_values(program, parameter, executor.rank(), seed);
    executor.write(parameter.value, values.data());
    for (const auto& [name, state] : parameter.states) {
      values.assign(static_cast<std::size_t>(program.buffer(state).bytes()), std::byte{0});
      executor.write(state, values.data());
    }
  }
}

}  // namespace strata::host

#include "runtime/initialize.hpp"

#include <string>

#include "runtime/element.hpp"
#include "strata/random.hpp"

namespace strata::host {

std::vector<std::byte> initial_values(const StoredParameter& parameter, const Shard& shard, DType dtype,
                                      std::uint64_t seed) {
  std::vector<std::byte> values(static_cast<std::size_t>(shard.local_elements()) * size_of(dtype));
  const std::uint64_t key = random::stream_key(seed, "init/" + parameter.name, 0);
  const Initialization& start = parameter.initialization;
  const bool draws = start.kind == Initialization::Kind::normal;
  const bool through_f32 = size_of(dtype) < sizeof(float);
  shard.for_each_run([&](std::int64_t local, std::int64_t global, std::int64_t length) {
    for (std::int64_t i = 0; i < length; ++i) {
      const double factor = draws ? random::normal(key, static_cast<std::uint64_t>(global + i)) : 1.0;
      const double value = start.value * factor;
      store_element(dtype, values.data(), local + i, through_f32 ? static_cast<float>(value) : value);
    }
  });
  return values;
}

void initialize(Executor& executor, std::uint64_t seed) {
  const Program& program = executor.program();
  const auto write = [&](const BufferSlice& slice, const void* values) { executor.write(slice, values); };
  clear_flat_buffers(program, write);
  for (const StoredParameter& parameter : program.parameters) {
    const auto set = [&](BufferId buffer, bool to_zero) {
      const Shard shard = shard_of(program, parameter, buffer, executor.rank());
      if (shard.local_elements() == 0) return;
      const DType dtype = program.buffer(buffer).dtype;
      const std::size_t bytes = static_cast<std::size_t>(shard.local_elements()) * size_of(dtype);
      const auto values = to_zero ? std::vector<std::byte>(bytes) : initial_values(parameter, shard, dtype, seed);
      write(shard.slice(buffer), values.data());
    };
    set(parameter.value, false);
    for (const auto& [name, state] : parameter.states) set(state, name != kMasterState);
  }
}

}  // namespace strata::host

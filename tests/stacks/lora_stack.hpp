#pragma once

#include <map>
#include <string>

#include "stack_row.hpp"
#include "verify/stack_run.hpp"

namespace strata::testing {

using ModelOptions = std::map<std::string, OptionValue>;

/// A Llama with grouped queries for tests of lora.
inline host::PluginSection lora_model(const ModelOptions& options = {}) {
  ModelOptions all{{"layers", std::int64_t{2}}, {"heads", std::int64_t{4}}, {"kv_heads", std::int64_t{2}},
                   {"embed", std::int64_t{16}}, {"ffn", std::int64_t{24}},  {"context", std::int64_t{8}},
                   {"vocab", std::int64_t{16}}, {"attention_dropout", 0.1}};
  for (const auto& [name, value] : options) all[name] = value;
  return {"model", "llama", all};
}

inline host::RunConfiguration lora_configuration(const std::string& strategies, const ModelOptions& options = {}) {
  host::RunConfiguration configuration = small_gpt2(strategies, 4, 2);
  configuration.model = lora_model(options);
  return configuration;
}

/// The results of a few steps of lora_model() on one rank, in f64.
inline host::StackResult train_lora_model(const std::string& strategies, int steps) {
  BuiltPlugins plugins;
  const host::RunSetup setup = host::prepare(lora_configuration(strategies), plugins);
  return host::run_setup_stack(setup, DType::f64, steps, [&](int rank) -> std::shared_ptr<Device> {
    return setup.make_device(rank, setup.stack.mesh.rank_count());
  });
}

}  // namespace strata::testing

#pragma once

#include <gtest/gtest.h>

#include <string>

#include "build_paths.hpp"
#include "plan/plan_space.hpp"

namespace strata::testing {

/// A GPT-2 of six blocks with four heads, on two nodes of four devices.
class Plans : public ::testing::Test {
 protected:
  static constexpr const char* kConfiguration = R"(
[run]
steps = 2
[model]
plugin = "gpt2"
layers = 4
heads = 4
embed = 32
context = 16
[data]
plugin = "text"
path = "no such file"
tokenizer = "bytes"
[batch]
global = 16
[[strategy]]
plugin = "precision"
compute = "bf16"
[[strategy]]
plugin = "ddp"
size = 2
)";

  static host::Cluster two_nodes() {
    host::Cluster cluster;
    cluster.name = "two nodes";
    cluster.groups.resize(1);
    cluster.groups[0].nodes = 2;
    cluster.groups[0].devices = 4;
    cluster.groups[0].device.memory_bytes = 1 << 30;
    return cluster;
  }

  host::PlanSpace space(host::PlanDemands demands = {}) {
    return {host::parse_configuration(kConfiguration, "plan.toml"), registry_, cluster_, 256, std::move(demands)};
  }

  host::PluginRegistry registry_{{plugin_folder()}};
  host::Cluster cluster_ = two_nodes();
};

}  // namespace strata::testing

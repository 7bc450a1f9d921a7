#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "build_paths.hpp"
#include "compiler/stack.hpp"
#include "loading/resolved_plugins.hpp"
#include "refusal.hpp"
#include "sample_files.hpp"
#include "strata/registration.hpp"

/// \file
/// Plugins that a configuration names: their options, their ops and kernels, and errors with their place in the
/// configuration.

namespace strata::host {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

/// A configuration whose first six lines are these.
constexpr const char* kSections = R"([model]
plugin = "gpt2"
[data]
path = "input.txt"
[batch]
global = 4
)";

/// The samples together with the plugins of this build.
class ResolvedPluginsTest : public testing::Test {
 protected:
  RunConfiguration parse(const std::string& tables) {
    return parse_configuration(kSections + tables, "c.toml", {"device.plugin=reference", "model.vocab=8"});
  }

  /// The refusal of a stack with the plugin `faulty`, whose table begins in line 7.
  std::string fault(const std::string& fault) {
    RunConfiguration configuration = parse("[[strategy]]\nplugin = \"faulty\"\nfault = \"" + fault + "\"\n" +
                                           "[[library]]\nplugin = \"sample_ops\"\n");
    return refusal([&] {
      const ResolvedPlugins plugins = resolve_plugins(configuration, registry_);
      return with_places(configuration, [&] {
        OpRegistry ops;
        KernelRegistry kernels;
        provide_vocabulary(plugins, ops, kernels);
        const auto& strategy = plugins.strategies.at(0);
        return strategy.create("create",
                               [&](const StrategyFactory& factory) { return factory.create(strategy.options); });
      });
    });
  }

  PluginRegistry registry_{{sample_plugin_folder(), plugin_folder()}};
};

TEST_F(ResolvedPluginsTest, FillInDefaults) {
  RunConfiguration configuration = parse("[[strategy]]\nplugin = \"sample\"\nsize = 2\n");
  const ResolvedPlugins plugins = resolve_plugins(configuration, registry_);
  EXPECT_EQ(plugins.strategies.at(0).options.word("mode"), "plain");
  EXPECT_EQ(configuration.strategies[0].options.at("mode"), OptionValue("plain"));
  EXPECT_EQ(plugins.strategies[0].origin.label, "strategy 1 'sample'");
  EXPECT_EQ(plugins.model.origin.label, "model 'gpt2'");
  EXPECT_TRUE(plugins.libraries.empty());
}

TEST_F(ResolvedPluginsTest, MessagesCarryThePlaceInTheConfiguration) {
  RunConfiguration configuration = parse("[[strategy]]\nplugin = \"sample\"\nsize = 13\n");
  PluginRegistry empty({"/nowhere/plugins"});
  EXPECT_THAT(refusal([&] { return resolve_plugins(configuration, empty); }),
              StartsWith("c.toml:2:10: model.plugin: model plugin 'gpt2' not found; accepted: none; searched: "));

  const ResolvedPlugins plugins = resolve_plugins(configuration, registry_);
  const auto create = [&] {
    return with_places(configuration, [&] {
      return plugins.strategies[0].create(
          "create", [&](const StrategyFactory& factory) { return factory.create(plugins.strategies[0].options); });
    });
  };
  EXPECT_EQ(refusal(create), "c.toml:9:8: strategy.0.size: found 13; accepted: luckier numbers");

  configuration.strategies[0].options["size"] = 65;
  EXPECT_EQ(refusal([&] { return resolve_plugins(configuration, registry_); }),
            "c.toml:9:8: strategy.0.size: found the integer 65; accepted: an integer from 1 to 64");
}

/// The message names the place of the option if the section has it. Otherwise it names the plugin and its place.
TEST_F(ResolvedPluginsTest, ErrorsOfThePluginAndOfTheHostAboutItNameThePlugin) {
  const RunConfiguration configuration = parse("[[strategy]]\nplugin = \"sample\"\nsize = 2\n");
  const NamedStrategy strategy{"strategy 1 'sample'", nullptr, 0};
  EXPECT_STREQ(located(configuration, strategy.error("decides on the weather")).what(),
               "c.toml:7:1: strategy.0: strategy 1 'sample' decides on the weather");
  EXPECT_STREQ(located(configuration, PluginError(strategy.origin(), "place", "size", "too few")).what(),
               "c.toml:9:8: strategy.0.size: too few");
  EXPECT_STREQ(located(configuration, PluginError(strategy.origin(), "place", "colour", "too red")).what(),
               "c.toml:7:1: strategy.0: strategy 1 'sample': colour: too red");
  const PluginOrigin device{PluginKind::device, -1, "device 'reference'"};
  EXPECT_STREQ(located(configuration, PluginError(device, "create", "", "no memory")).what(),
               "--set device.plugin=reference: device: device 'reference': no memory");
}

TEST_F(ResolvedPluginsTest, WhateverAPluginThrowsIsNamed) {
  EXPECT_EQ(fault("none"), "accepted");
  EXPECT_EQ(fault("option"), "c.toml:9:9: strategy.0.fault: found a fault; accepted: none");
  const std::string begin = "c.toml:7:1: strategy.0: strategy 1 'faulty': ";
  EXPECT_EQ(fault("another option"), begin + "colour: found a fault; accepted: none");
  EXPECT_EQ(fault("configuration"), begin + "found no sense in this");
  EXPECT_EQ(fault("number"), begin + "hook 'create' threw an exception of type int");
  EXPECT_EQ(fault("standard"), begin + "hook 'create' threw std::out_of_range: too far");
  EXPECT_EQ(fault("nothing"), begin + "hook 'create' returned nothing (a null pointer)");
  EXPECT_EQ(fault("provides a number"), begin + "hook 'provide' threw an exception of type int");
  EXPECT_EQ(
      fault("provides no kernel"),
      "c.toml:7:1: strategy.0: strategy 1 'faulty' registers a kernel for op 'doubled': it has no function 'prepare'");
  EXPECT_EQ(fault("provides another version"),
            begin +
                "op 'doubled' is registered by library 1 'sample_ops' in version 1 and by strategy 1 'faulty' in "
                "version 2; accepted: one version");
}

TEST_F(ResolvedPluginsTest, OptionsThatCannotBeAreThePluginsFault) {
  const auto message = [&](const std::string& plugin) {
    RunConfiguration configuration = parse("[[strategy]]\nplugin = \"" + plugin + "\"\nsize = 2\n");
    return refusal([&] { return resolve_plugins(configuration, registry_); });
  };
  EXPECT_EQ(message("repeating"), "c.toml:7:1: strategy.0: strategy 1 'repeating' declares option 'size' twice");
  EXPECT_EQ(message("nameless"), "c.toml:7:1: strategy.0: strategy 1 'nameless' declares an option without a name");
  EXPECT_EQ(message("throwing"),
            "c.toml:7:1: strategy.0: strategy 1 'throwing': hook 'options' threw an exception of type int");
}

std::vector<std::string> kernels_of_doubled(const KernelRegistry& kernels) {
  std::vector<std::string> found;
  for (const auto& each : kernels.all("doubled")) {
    found.push_back(each->origin + " " + std::to_string(each->definition.rank));
  }
  return found;
}

TEST_F(ResolvedPluginsTest, LibrariesBringOpsAndKernels) {
  RunConfiguration configuration =
      parse("[[library]]\nplugin = \"sample_ops\"\n[[library]]\nplugin = \"sample_ops\"\nfast = false\n");
  const ResolvedPlugins plugins = resolve_plugins(configuration, registry_);
  ASSERT_EQ(plugins.libraries.size(), 2U);
  OpRegistry ops;
  KernelRegistry kernels;
  provide_vocabulary(plugins, ops, kernels);
  EXPECT_EQ(ops.origin("doubled"), "library 1 'sample_ops'");
  EXPECT_EQ(ops.origin("linear"), "libstrata");
  // The plugin registers once, with the options of its first table.
  EXPECT_THAT(kernels_of_doubled(kernels), ElementsAre("library 1 'sample_ops' 100", "library 1 'sample_ops' 0"));
}

/// The reference device runs the reference kernel. A device that looks for fast kernels runs the fast kernel.
TEST_F(ResolvedPluginsTest, DevicesFindTheKernelsOfLibraries) {
  RunConfiguration configuration = parse("[[library]]\nplugin = \"sample_ops\"\n");
  const ResolvedPlugins plugins = resolve_plugins(configuration, registry_);
  OpRegistry ops;
  KernelRegistry kernels;
  provide_vocabulary(plugins, ops, kernels);
  OpInstance doubled;
  doubled.op = doubled.name = "doubled";
  doubled.operands = doubled.results = {{DType::f32, {"n"}, {3}}};
  const KernelEnvironment environment("host", 1);
  const KernelSelector fast("the device", kernels, environment);
  const KernelSelector plain("the device", kernels, environment, KernelPolicy::reference_only);
  const float x[] = {1, 2, 3};
  for (const KernelSelector* selector : {&fast, &plain}) {
    EXPECT_EQ(selector->choice(doubled).value().origin, "library 1 'sample_ops'");
    EXPECT_FALSE(selector->choice(doubled)->is_last_resort);
    float y[] = {0, 0, 0};
    const void* operands[] = {x};
    void* results[] = {y};
    selector->prepare(doubled).launch({operands, results, nullptr, {}});
    EXPECT_THAT(y, ElementsAre(2, 4, 6));
  }
  doubled.operands = doubled.results = {{DType::bf16, {"n"}, {3}}};
  EXPECT_TRUE(fast.choice(doubled).value().is_last_resort) << "the fast kernel takes f32 only";
  EXPECT_FALSE(plain.choice(doubled).value().is_last_resort) << "the device looks for nothing else";
}

}  // namespace
}  // namespace strata::host

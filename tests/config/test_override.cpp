#include <gtest/gtest.h>

#include "config/run_configuration.hpp"
#include "example.hpp"

namespace strata::host {
namespace {

RunConfiguration with(const std::vector<std::string>& overrides) {
  return parse_configuration(kExample, "c.toml", overrides);
}

std::string refusal_of(const std::string& override) {
  try {
    (void)with({override});
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Override, ReplacesAndAdds) {
  EXPECT_EQ(with({"model.layers=2"}).model.options.at("layers"), OptionValue(2));
  EXPECT_EQ(with({"model.heads = 3"}).model.options.at("heads"), OptionValue(3));
  EXPECT_EQ(with({"strategy.1.size=8"}).strategies[1].options.at("size"), OptionValue(8));
  EXPECT_EQ(with({"optimizer.schedule.warmup=3"}).optimizer.schedule.warmup, 3);
  EXPECT_EQ(with({"optimizer.schedule={kind='constant'}"}).optimizer.schedule, ScheduleSection{});
  EXPECT_EQ(with({"optimizer.clip_value=0.5"}).optimizer.clip_value, 0.5);
  EXPECT_EQ(with({"optimizer.momentum=0.2"}).optimizer.optimizer.options.at("momentum"), OptionValue(0.2));
  EXPECT_EQ(with({"optimizer.group.1.lr_factor=3"}).optimizer.groups.at(1).lr_factor, 3.0);
  EXPECT_EQ(with({"optimizer.group.2.parameters=['a']"}).optimizer.groups.size(), 3U);
  EXPECT_EQ(with({"run.steps=1", "run.steps=2"}).run.steps, 2);
  EXPECT_EQ(parse_configuration(kShortest, "c.toml", {"run.steps=2"}).run.steps, 2);
}

TEST(Override, BareWordsAreStrings) {
  const auto path_with = [](const std::string& argument) {
    return std::get<std::string>(with({argument}).data.dataset.options.at("path"));
  };
  EXPECT_EQ(path_with("data.path=../shared/my text.txt"), "../shared/my text.txt");
  EXPECT_EQ(path_with("data.path=a=b.txt"), "a=b.txt");
  EXPECT_EQ(path_with("data.path='12'"), "12");
  EXPECT_EQ(with({"run.name=2024-01-01"}).run.name, "2024-01-01");
  EXPECT_EQ(with({"run.name=#1"}).run.name, "#1");
  EXPECT_EQ(with({"run.output=a\nseed = 3"}).run.output, "a\nseed = 3");
  EXPECT_EQ(with({"optimizer.plugin=adamw"}).optimizer.optimizer.plugin, "adamw");
}

TEST(Override, BuildsTheStack) {
  const RunConfiguration c = parse_configuration(
      kShortest, "c.toml", {"strategy.0.plugin=ddp", "strategy.0.size=4", "strategy.1.plugin=zero"});
  ASSERT_EQ(c.strategies.size(), 2U);
  EXPECT_EQ(c.strategies[0].plugin, "ddp");
  EXPECT_EQ(c.strategies[0].options.at("size"), OptionValue(4));
  EXPECT_EQ(c.strategies[1].plugin, "zero");
  EXPECT_TRUE(with({"strategy=[]"}).strategies.empty());
  EXPECT_EQ(with({"strategy=[]", "strategy.0.plugin=ddp"}).strategies.size(), 1U);
  EXPECT_EQ(parse_configuration(kShortest, "c.toml", {"library.0.plugin=my_kernels"}).libraries.size(), 1U);
  EXPECT_EQ(with({"library.1.plugin=others"}).libraries.size(), 2U);
  EXPECT_TRUE(with({"library=[]"}).libraries.empty());
}

/// The file's options belong to the plugin that the file names.
TEST(Override, AnotherPluginDropsTheOptionsOfTheOneBefore) {
  using Values = std::map<std::string, OptionValue>;
  EXPECT_EQ(with({"communicator.plugin=mpi"}).communicator.options, Values{});
  EXPECT_EQ(with({"communicator.plugin=mpi"}).communicator.plugin, "mpi");
  EXPECT_EQ(with({"communicator.plugin=other"}).communicator.options, (Values{{"timeout", 2.5}})) << "the same one";
  EXPECT_EQ(with({"strategy.1.plugin=context"}).strategies[1].options, Values{});
  EXPECT_EQ(with({"strategy.1.plugin=context"}).strategies[0].options.size(), 2U) << "another table";
  EXPECT_EQ(with({"library.0.plugin=others"}).libraries[0].options, Values{});
  // Options in other arguments belong to the new plugin, in any order of arguments.
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"strategy.1.plugin=context", "strategy.1.size=2"},
        {"strategy.1.size=2", "strategy.1.plugin=context"}}) {
    EXPECT_EQ(with(arguments).strategies[1].options, (Values{{"size", 2}}));
  }
  // A section that names no plugin has the default one.
  const std::string text = kShortest + "[device]\nthreads = 3\n";
  EXPECT_EQ(parse_configuration(text, "c.toml", {"device.plugin=reference"}).device.options, Values{});
  EXPECT_EQ(parse_configuration(text, "c.toml", {"device.plugin=cpu"}).device.options, (Values{{"threads", 3}}));
}

TEST(Override, IsNamedWhereItIsWrong) {
  EXPECT_EQ(refusal_of("model.layers"),
            "--set model.layers: found no '='; accepted: KEY=VALUE, as in model.layers=2 or strategy.0.size=4");
  EXPECT_EQ(refusal_of("run..seed=1"),
            "--set run..seed=1: run..seed: found an empty key; accepted: keys separated by dots");
  EXPECT_EQ(refusal_of("run.seed=x"),
            "--set run.seed=x: run.seed: found the string \"x\"; accepted: an integer of at least 0");
  EXPECT_EQ(refusal_of("run.sed=1").substr(0, 60), "--set run.sed=1: run.sed: unknown key; did you mean 'seed'?;");
  EXPECT_EQ(refusal_of("plugin=gpt2").substr(0, 50), "--set plugin=gpt2: plugin: unknown section; accept");
  EXPECT_EQ(refusal_of("batch.plugin=gpt2").substr(0, 57), "--set batch.plugin=gpt2: batch.plugin: unknown key; accep");
  EXPECT_EQ(refusal_of("model.plugin.x=1"),
            "--set model.plugin.x=1: model.plugin: is the string \"gpt2\", it has no key 'x'");
  EXPECT_EQ(refusal_of("strategy.3.size=1"),
            "--set strategy.3.size=1: strategy: found the index '3'; accepted: 0 to 2, where the last appends a table");
  EXPECT_EQ(refusal_of("strategy.one.size=1").substr(0, 61),
            "--set strategy.one.size=1: strategy: found the index 'one'; a");
  EXPECT_EQ(refusal_of("model.layers.x=1"),
            "--set model.layers.x=1: model.layers: is the integer 6, it has no key 'x'");
  EXPECT_EQ(refusal_of("optimizer.betas=[0.1").substr(0, 60),
            "--set optimizer.betas=[0.1: '[0.1' is not a TOML value; acce");
  EXPECT_EQ(refusal_of("batch.micro=7"),
            "c.toml:24:10: batch.global: found 64; accepted: a multiple of batch.micro, which is 7");
}

}  // namespace
}  // namespace strata::host

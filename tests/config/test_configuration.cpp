#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "build_paths.hpp"
#include "config/run_configuration.hpp"
#include "example.hpp"

namespace strata::host {
namespace {

TEST(Configuration, ReadsEveryKey) {
  const RunConfiguration c = parse_configuration(kExample, "example.toml");
  EXPECT_EQ(c.run, (RunSection{.name = "example",
                               .steps = 300,
                               .seed = 7,
                               .output = "runs/elsewhere",
                               .checkpoint_every = 100,
                               .keep_checkpoints = 5,
                               .eval_every = 50,
                               .eval_batches = 4,
                               .log_every = 2,
                               .resume = "",
                               .accept_changed = {},
                               .stop_after = "",
                               .stop_before_job_end = "",
                               .watchdog = 60,
                               .stop_grace = 30,
                               .shrink = {}}));
  EXPECT_EQ(c.model.plugin, "gpt2");
  EXPECT_EQ(c.model.options, (std::map<std::string, OptionValue>{
                                 {"layers", 6}, {"dropout", 0.1}, {"sizes", std::vector<double>{1, 2}}}));
  EXPECT_EQ(c.data,
            (DataSection{{"data", "tokens", {{"path", std::string("input.txt")}, {"validation", 0.25}}}, true}));
  EXPECT_EQ(c.batch, (BatchSection{64, 8}));
  EXPECT_EQ(c.optimizer,
            (OptimizerSection{
                .optimizer = {"optimizer", "sgd", {{"momentum", 0.9}}},
                .lr = 1.0,
                .weight_decay = 0.2,
                .clip = 0.0,
                .schedule = ScheduleSection{"warmup_cosine", 20, WarmupType::logarithmic, 1e-4, 0, 1, {}, {}},
                .weight_decay_schedule = {},
                .average = {},
                .groups = {{.optimizer = {"optimizer.group.0", "", {}},
                            .parameters = {"*.bias"},
                            .lr_factor = 0.5,
                            .weight_decay_factor = 0.0,
                            .frozen = true},
                           {.optimizer = {"optimizer.group.1", "lion", {{"betas", std::vector<double>{0.8, 0.9}}}},
                            .parameters = {"wte", "wpe"}}}}));
  EXPECT_EQ(c.device.plugin, "reference");
  EXPECT_EQ(c.communicator.options, (std::map<std::string, OptionValue>{{"timeout", 2.5}}));
  ASSERT_EQ(c.strategies.size(), 2U);
  EXPECT_EQ(c.strategies[0].plugin, "pipeline");
  EXPECT_EQ(c.strategies[0].path, "strategy.0");
  EXPECT_EQ(c.strategies[1].options, (std::map<std::string, OptionValue>{{"size", 4}, {"sequence_parallel", true}}));
  ASSERT_EQ(c.libraries.size(), 1U);
  EXPECT_EQ(c.libraries[0].plugin, "my_kernels");
  EXPECT_EQ(c.libraries[0].path, "library.0");
  EXPECT_EQ(c.libraries[0].options, (std::map<std::string, OptionValue>{{"threads", 2}}));
}

TEST(Configuration, ReadsHowARunStartsAndStops) {
  const RunSection run = parse_configuration(kShortest, "short.toml",
                                             {"run.resume=auto", "run.accept_changed=[\"seed\"]", "run.stop_after=3h",
                                              "run.stop_before_job_end=10m"})
                             .run;
  EXPECT_EQ(run.resume, "auto");
  EXPECT_EQ(run.accept_changed, std::vector<std::string>{"seed"});
  EXPECT_EQ(run.stop_after, "3h");
  EXPECT_EQ(run.stop_before_job_end, "10m");
}

TEST(Configuration, ReadsTheRulesForBadSteps) {
  EXPECT_EQ(parse_configuration(
                kShortest, "short.toml",
                {"run.checkpoint_every=1", "health.not_finite=skip", "health.jump=rewind", "health.loss_jump=2",
                 "health.norm_jump=3.5", "health.window=50", "health.max_skips=4", "health.max_rewinds=2"})
                .health,
            (HealthSection{HealthAction::skip, HealthAction::rewind, 2, 3.5, 50, 4, 2}));
}

TEST(Configuration, FillsInDefaults) {
  const RunConfiguration c = parse_configuration(kShortest, "short.toml");
  EXPECT_EQ(c.run.name, "run");
  EXPECT_EQ(c.run.output, "runs/run");
  EXPECT_EQ(c.batch, (BatchSection{4, 1}));
  EXPECT_EQ(c.data.dataset.plugin, "text");
  EXPECT_FALSE(c.data.allow_changed);
  EXPECT_EQ(c.optimizer.optimizer.plugin, "adamw");
  EXPECT_TRUE(c.optimizer.groups.empty());
  EXPECT_EQ(c.optimizer.schedule, ScheduleSection{});
  EXPECT_EQ(c.health, (HealthSection{HealthAction::stop, HealthAction::stop, 0, 0, 100, 10, 3}));
  EXPECT_EQ(c.log, LogSection{});
  EXPECT_EQ(c.device.plugin, "cpu");
  EXPECT_EQ(c.communicator.plugin, "local");
  EXPECT_TRUE(c.strategies.empty());
  EXPECT_TRUE(c.libraries.empty());
}

TEST(Configuration, RemembersPlacesForLaterPhases) {
  const RunConfiguration c = parse_configuration(kExample, "example.toml", {"run.steps=5"});
  EXPECT_EQ(c.place("run.seed").text(), "example.toml:4:8");
  EXPECT_EQ(c.place("optimizer.schedule.warmup").text(), "example.toml:33:47");
  EXPECT_EQ(c.place("strategy.1.size").text(), "example.toml:60:8");
  EXPECT_EQ(c.place("run.steps").text(), "--set run.steps=5");
  // A key that is not written has the place of its section, or no place.
  EXPECT_EQ(c.place("strategy.1.axis").text(), "example.toml:58:1");
  EXPECT_EQ(c.place("nothing.at.all").text(), "example.toml");
  EXPECT_STREQ(c.error("run.seed", "found 1; accepted: 2").what(), "example.toml:4:8: run.seed: found 1; accepted: 2");
}

TEST(Configuration, TextParsesBackToTheSame) {
  for (const std::string& text : {kExample, kShortest}) {
    RunConfiguration c = parse_configuration(text, "before.toml", {R"(run.output="quo\"ted\\ \n name")"});
    c.model.options["odd key.é"] = "value";
    c.optimizer.lr = 0.1 + 0.2;
    c.run.checkpoint_mode = CheckpointMode::foreground;
    c.health = {HealthAction::skip, HealthAction::stop, 1.5, 0, 50, 4, 2};
    c.log = {true, NormGroups::optimizer_group, 1.5};
    EXPECT_EQ(parse_configuration(to_toml(c), "after.toml"), c) << to_toml(c);
  }
  RunConfiguration c = parse_configuration(kExample, "example.toml");
  c.strategies[1].options["size"] = 8;
  EXPECT_NE(parse_configuration(kExample, "example.toml"), c);
  c = parse_configuration(kExample, "example.toml");
  c.libraries[0].options["threads"] = 3;
  EXPECT_NE(parse_configuration(kExample, "example.toml"), c);
}

TEST(Configuration, ChecksPluginOptionsAgainstTheirSchema) {
  const RunConfiguration c = parse_configuration(kExample, "example.toml");
  const OptionSchema schema = {{.name = "layers", .type = OptionType::integer, .minimum = 1},
                               {.name = "dropout", .type = OptionType::number, .default_value = 0.5},
                               {.name = "sizes", .type = OptionType::numbers},
                               {.name = "heads", .type = OptionType::integer, .default_value = 12}};
  const Options options = resolve_options(c, c.model, schema);
  EXPECT_EQ(options.integer("layers"), 6);
  EXPECT_EQ(options.number("dropout"), 0.1);
  EXPECT_EQ(options.integer("heads"), 12);
}

TEST(Configuration, PublishedOnesAreSound) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_path("configs"))) {
    if (entry.path().extension() != ".toml") continue;
    EXPECT_NO_THROW((void)load_configuration(entry.path())) << entry.path();
    ++files;
  }
  EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace strata::host

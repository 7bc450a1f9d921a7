#include <gtest/gtest.h>

#include <filesystem>

#include "build_paths.hpp"
#include "config/run_configuration.hpp"
#include "example.hpp"

namespace strata::host {
namespace {

/// The example with one piece of its text replaced.
std::string edited(const std::string& piece, const std::string& replacement) {
  std::string text = kExample;
  const std::size_t at = text.find(piece);
  EXPECT_NE(at, std::string::npos) << piece;
  return text.replace(at, piece.size(), replacement);
}

std::string refusal(const std::string& text) {
  try {
    check_schedule_lengths(parse_configuration(text, "c.toml"));
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "accepted";
}

struct BadInput {
  const char* piece;
  const char* replacement;
  const char* message;

  friend void PrintTo(const BadInput& input, std::ostream* out) { *out << input.replacement; }
};

class BadConfiguration : public testing::TestWithParam<BadInput> {};

TEST_P(BadConfiguration, IsRefusedWithItsPlace) {
  const BadInput& input = GetParam();
  EXPECT_EQ(refusal(edited(input.piece, input.replacement)), input.message);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadConfiguration,
    testing::Values(
        // TOML
        BadInput{"seed = 7", "seed = ",
                 "c.toml:4:8: not valid TOML: error while parsing key-value pair: expected value, saw '\\n'"},
        BadInput{"seed = 7", "seed = 7\nseed = 8",
                 "c.toml:5:8: not valid TOML: error while parsing key-value pair: cannot redefine existing integer "
                 "'seed'"},
        BadInput{"[model]", "[model",
                 "c.toml:11:7: not valid TOML: error while parsing table header: expected ']', saw '\\n'"},
        BadInput{"seed = 7", "\"se\\u0000ed\" = 7",
                 "c.toml:4:1: found \"se\\u0000ed\"; accepted: text without the character \\u0000"},
        BadInput{"\"reference\"", "\"ref\\u0000erence\"",
                 "c.toml:47:10: found \"ref\\u0000erence\"; accepted: text without the character \\u0000"},
        BadInput{"\"wte\", ", "\"w\\u0000te\", ",
                 "c.toml:42:15: found \"w\\u0000te\"; accepted: text without the character \\u0000"},
        // unknown keys and sections, with the nearest known one
        BadInput{"seed = 7", "sead = 7",
                 "c.toml:4:1: run.sead: unknown key; did you mean 'seed'?; accepted: name, steps, stop_at_step, seed, "
                 "output, "
                 "checkpoint_every, keep_checkpoints, checkpoint_mode, eval_every, eval_batches, log_every, "
                 "data_threads, resume, "
                 "accept_changed, stop_after, stop_before_job_end, watchdog, stop_grace, shrink"},
        BadInput{"micro = 8", "micro = 8\nlr = 1",
                 "c.toml:26:1: batch.lr: unknown key; did you mean 'optimizer.lr'?; accepted: global, micro"},
        BadInput{"micro = 8", "micro = 8\nbatch_size = 1",
                 "c.toml:26:1: batch.batch_size: unknown key; it is called batch.global here; accepted: global, micro"},
        BadInput{
            "seed = 7", "learning_rate = 7",
            "c.toml:4:1: run.learning_rate: unknown key; it is called optimizer.lr here; accepted: name, steps, "
            "stop_at_step, seed, output, checkpoint_every, keep_checkpoints, checkpoint_mode, eval_every, "
            "eval_batches, log_every, data_threads, resume, accept_changed, stop_after, stop_before_job_end, watchdog, "
            "stop_grace, shrink"},
        BadInput{"warmup = 20", "warm_up = 20",
                 "c.toml:33:38: optimizer.schedule.warm_up: unknown key; did you mean 'warmup'?; accepted: kind, "
                 "warmup, warmup_type, min_lr, decay, power, steps, factors"},
        BadInput{"[batch]", "[bach]",
                 "c.toml:23:2: bach: unknown section; did you mean 'batch'?; accepted: run, model, data, batch, "
                 "optimizer, health, log, device, communicator, strategy, library, cluster"},
        BadInput{
            "[run]", "colour = 3\n[run]",
            "c.toml:1:1: colour: unknown section; accepted: run, model, data, batch, optimizer, health, log, device, "
            "communicator, strategy, library, cluster"},
        // wrong types
        BadInput{"steps = 300", "steps = \"many\"",
                 "c.toml:3:9: run.steps: found the string \"many\"; accepted: an integer of at least 1"},
        BadInput{"steps = 300", "steps = 3.5",
                 "c.toml:3:9: run.steps: found the number 3.5; accepted: an integer of at least 1"},
        BadInput{"\"runs/elsewhere\"", "2024-01-01",
                 "c.toml:5:10: run.output: found a date or time; accepted: a string"},
        BadInput{"layers = 6", "layers = [1, \"a\"]",
                 "c.toml:13:10: model.layers: found a list of mixed values; accepted: true, false, a number, a string, "
                 "a list of numbers or a list of strings"},
        BadInput{"parameters = [\"*.bias\"]", "parameters = \"all\"",
                 "c.toml:36:14: optimizer.group.0.parameters: found the string \"all\"; accepted: a list of strings"},
        BadInput{"[device]\nplugin = \"reference\"", "[[device]]\nplugin = \"reference\"",
                 "c.toml:46:1: device: found a list of tables; accepted: a table"},
        BadInput{"schedule = { kind = \"warmup_cosine\", warmup = 20, warmup_type = \"log\", min_lr = 1e-4 }",
                 "schedule = \"constant\"",
                 "c.toml:33:12: optimizer.schedule: found the string \"constant\"; accepted: a table"},
        // ranges and choices
        BadInput{"steps = 300", "steps = 0",
                 "c.toml:3:9: run.steps: found the integer 0; accepted: an integer of at least 1"},
        BadInput{"seed = 7", "seed = -1",
                 "c.toml:4:8: run.seed: found the integer -1; accepted: an integer of at least 0"},
        BadInput{"allow_changed = true", "allow_changed = 1",
                 "c.toml:20:17: data.allow_changed: found the integer 1; accepted: true or false"},
        BadInput{"lr = 1\n", "lr = nan\n",
                 "c.toml:29:6: optimizer.lr: found the number nan; accepted: a number of at least 0"},
        BadInput{"frozen = true", "colour = true",
                 "c.toml:39:1: optimizer.group.0.colour: unknown key; accepted: parameters, lr_factor, "
                 "weight_decay_factor, frozen, plugin; options of an optimizer follow a `plugin`"},
        BadInput{"parameters = [\"*.bias\"]\n", "",
                 "c.toml:35:1: optimizer.group.0.parameters: missing; accepted: a list of strings"},
        // missing keys
        BadInput{"plugin = \"tokens\"", "plugin = \"\"",
                 "c.toml:19:10: data.plugin: found \"\"; accepted: the name of a plugin"},
        BadInput{"[batch]\nglobal = 64\nmicro = 8\n", "",
                 "c.toml: batch.global: missing; accepted: an integer of at least 1"},
        BadInput{"plugin = \"tensor\"\n", "", "c.toml:58:1: strategy.1.plugin: missing; accepted: a string"},
        BadInput{"plugin = \"my_kernels\"\n", "", "c.toml:63:1: library.0.plugin: missing; accepted: a string"},
        BadInput{"plugin = \"tensor\"", "plugin = \"\"",
                 "c.toml:59:10: strategy.1.plugin: found \"\"; accepted: the name of a plugin"},
        // schedules
        BadInput{
            "schedule = { kind = \"warmup_cosine\", warmup = 20, warmup_type = \"log\", min_lr = 1e-4 }",
            "weight_decay_schedule = { kind = \"wsd\" }",
            "c.toml:33:25: optimizer.weight_decay_schedule.decay: found 0; accepted: an integer of at least 1 with "
            "the kind wsd"},
        BadInput{"schedule = { kind = \"warmup_cosine\", warmup = 20, warmup_type = \"log\", min_lr = 1e-4 }",
                 "weight_decay_schedule = { kind = \"cosine\", min_factor = 2 }",
                 "c.toml:33:57: optimizer.weight_decay_schedule.min_factor: found the number 2.0; accepted: a number "
                 "from 0 to 1"},
        BadInput{
            "schedule = { kind = \"warmup_cosine\", warmup = 20, warmup_type = \"log\", min_lr = 1e-4 }",
            "weight_decay_schedule = { kind = \"linear\", warmup = 301 }",
            "c.toml:33:53: optimizer.weight_decay_schedule.warmup: found 301; accepted: at most run.steps, which is "
            "300"},
        BadInput{"\"warmup_cosine\"", "\"cosin\"",
                 "c.toml:33:21: optimizer.schedule.kind: found the string \"cosin\"; accepted: one of \"constant\", "
                 "\"warmup\", \"warmup_cosine\", \"cosine\", \"linear\", \"polynomial\", \"inverse_sqrt\", \"wsd\", "
                 "\"points\"; did you mean \"cosine\"?"},
        BadInput{"warmup = 20", "warmup = 301",
                 "c.toml:33:47: optimizer.schedule.warmup: found 301; accepted: at most run.steps, which is 300"},
        BadInput{"\"warmup_cosine\", warmup = 20", "\"inverse_sqrt\", warmup = 301",
                 "c.toml:33:46: optimizer.schedule.warmup: found 301; accepted: at most run.steps, which is 300"},
        BadInput{"\"warmup_cosine\"", "\"polynomial\", power = 0",
                 "c.toml:33:43: optimizer.schedule.power: found the number 0.0; accepted: a number of at least 0.001"},
        BadInput{
            "\"warmup_cosine\"", "\"wsd\"",
            "c.toml:33:12: optimizer.schedule.decay: found 0; accepted: an integer of at least 1 with the kind wsd"},
        BadInput{"\"warmup_cosine\"", "\"wsd\", decay = 281",
                 "c.toml:33:36: optimizer.schedule.decay: found 281; accepted: at most run.steps - "
                 "optimizer.schedule.warmup, which is 280"},
        BadInput{"\"warmup_cosine\"", "\"points\"",
                 "c.toml:33:12: optimizer.schedule.steps: found []; accepted: one number or more, strictly ascending"},
        BadInput{"\"warmup_cosine\"", "\"points\", steps = [0, 5, 5], factors = [0, 1, 0]",
                 "c.toml:33:39: optimizer.schedule.steps: found [0.0, 5.0, 5.0]; accepted: one number or more, "
                 "strictly ascending"},
        BadInput{"\"warmup_cosine\"", "\"points\", steps = [0, 5], factors = [1]",
                 "c.toml:33:57: optimizer.schedule.factors: found [1.0]; accepted: as many numbers as "
                 "optimizer.schedule.steps, which has 2"},
        BadInput{"\"warmup_cosine\"", "\"points\", steps = [0, 5], factors = [1, 2]",
                 "c.toml:33:57: optimizer.schedule.factors: found the list [1.0, 2.0]; accepted: a list of numbers, "
                 "each from 0 to 1"},
        BadInput{"\"warmup_cosine\"", "\"points\", steps = 5, factors = [1]",
                 "c.toml:33:39: optimizer.schedule.steps: found the integer 5; accepted: a list of numbers, each of at "
                 "least 0"},
        BadInput{"[device]", "[health]\njump = \"pause\"\n[device]",
                 "c.toml:47:8: health.jump: found the string \"pause\"; accepted: one of \"stop\", \"skip\", "
                 "\"rewind\""},
        BadInput{"[device]", "[health]\nloss_jump = 0.5\n[device]",
                 "c.toml:47:13: health.loss_jump: found 0.5; accepted: 0, which finds no jumps, or a number above 1"},
        BadInput{"[device]", "[health]\nwindow = 1\n[device]",
                 "c.toml:47:10: health.window: found the integer 1; accepted: an integer from 2 to 10000"},
        // keys that contradict each other
        BadInput{
            "[device]", "[optimizer.average]\ndecay = 0.9\n[health]\nnot_finite = \"skip\"\n[device]",
            "c.toml:49:14: health.not_finite: found \"skip\", but optimizer.average moves in every step; accepted: "
            "optimizer.average.decay = 0, \"stop\" or \"rewind\""},
        BadInput{"global = 64", "global = 65",
                 "c.toml:24:10: batch.global: found 65; accepted: a multiple of batch.micro, which is 8"},
        BadInput{"min_lr = 1e-4", "min_lr = 2",
                 "c.toml:33:81: optimizer.schedule.min_lr: found 2.0; accepted: at most optimizer.lr, which is 1.0"}));

TEST(BadConfigurationFile, IsNamed) {
  const auto message = [](const std::filesystem::path& path) -> std::string {
    try {
      (void)load_configuration(path);
    } catch (const ConfigurationError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message("/nowhere/c.toml"), "/nowhere/c.toml: cannot be read: No such file or directory");
  EXPECT_EQ(message("/"), "/: cannot be read: it is a folder");
}

TEST(BadConfigurationFile, ScheduleMustFitUnlessTheCommandLineShortensTheRun) {
  const std::filesystem::path path = source_path("configs/ddp.toml");
  const RunConfiguration shortened = load_configuration(path, {"run.steps=2"});
  EXPECT_EQ(parse_configuration(to_toml(shortened), "checkpoint.json"), shortened);
  try {
    (void)load_configuration(path, {"optimizer.schedule.warmup=2000"});
    ADD_FAILURE() << "accepted";
  } catch (const ConfigurationError& error) {
    EXPECT_STREQ(error.what(),
                 "--set optimizer.schedule.warmup=2000: optimizer.schedule.warmup: found 2000; accepted: at most "
                 "run.steps, which is 1000");
  }
}

TEST(BadConfigurationFile, SingleTableOfAListIsExplained) {
  EXPECT_EQ(refusal(kShortest + "[strategy]\nplugin = \"ddp\"\n"),
            "c.toml:7:1: strategy: found a table; accepted: tables headed [[strategy]]");
  EXPECT_EQ(refusal(kShortest + "[library]\nplugin = \"my_kernels\"\n"),
            "c.toml:7:1: library: found a table; accepted: tables headed [[library]]");
}

TEST(BadConfigurationFile, NothingToGoBackToIsExplained) {
  EXPECT_EQ(
      refusal(kShortest + "[health]\nnot_finite = \"rewind\"\n"),
      "c.toml:8:14: health.not_finite: found \"rewind\", but run.checkpoint_every is 0, so there is no checkpoint to "
      "go back to; accepted: run.checkpoint_every of at least 1, \"stop\" or \"skip\"");
  EXPECT_EQ(refusal(kShortest + "[health]\njump = \"rewind\"\n"), "accepted") << "no jumps are looked for";
}

TEST(BadPluginOption, IsRefusedWithItsPlace) {
  const RunConfiguration c = parse_configuration(kExample, "c.toml", {"strategy.0.size=0"});
  const auto message = [&](const PluginSection& section, const OptionSchema& schema) -> std::string {
    try {
      (void)resolve_options(c, section, schema);
    } catch (const ConfigurationError& error) {
      return error.what();
    }
    return "accepted";
  };
  const OptionSpecification size{.name = "size", .type = OptionType::integer, .minimum = 1};
  const OptionSpecification schedule{.name = "schedule", .type = OptionType::word, .default_value = "gpipe"};
  EXPECT_EQ(message(c.strategies[0], {size, schedule}),
            "--set strategy.0.size=0: strategy.0.size: found the integer 0; accepted: an integer of at least 1");
  EXPECT_EQ(message(c.strategies[1], {size, {.name = "sequence_parallell", .type = OptionType::boolean}}),
            "c.toml:61:1: strategy.1.sequence_parallel: unknown option of plugin 'tensor'; did you mean "
            "'sequence_parallell'?; accepted: plugin, size, sequence_parallell");
  EXPECT_EQ(message(c.device, {{.name = "threads", .type = OptionType::integer, .documentation = "Threads."}}),
            "c.toml:46:1: device.threads: missing; accepted: an integer (Threads.)");
}

}  // namespace
}  // namespace strata::host

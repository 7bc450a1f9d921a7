#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "build_paths.hpp"
#include "config/run_configuration.hpp"
#include "train/command_runner.hpp"

namespace strata::host::test {
namespace {

using ::testing::HasSubstr;

std::string sample(const std::string& name) { return source_path("tests/foreign/samples/" + name); }

/// A file of the form that a program publishes, and what its configuration must have.
struct Sample {
  const char* file;
  std::vector<std::string> arguments;
  const char* vocabulary;
  int ranks;
  std::vector<const char*> lines;
};

const std::vector<Sample>& samples() {
  static const std::vector<Sample> all = {
      {"deepspeed-zero3.json",
       {},
       "50257",
       8,
       {"of deepspeed", "steps = 5000", "micro = 2", "lr = 3e-05", "betas = [0.8, 0.999]", "kind = \"linear\"",
        "stage = 3", "size = 8", "offload_param = \"host\"", "compute = \"bf16\"",
        ":28:5: zero_optimization.reduce_bucket_size: "}},
      {"deepspeed-zero2-auto.json",
       {"--ranks", "4"},
       "50257",
       4,
       {"clip = 0", "growth_interval = 500", "initial_scale = 65536", "loss_scale = \"dynamic\"", "stage = 2",
        "optimizer.params.lr: \"auto\"", "global = 4"}},
      {"accelerate-fsdp.yaml", {}, "50257", 16, {"replicate = 2", "size = 8", "stage = 3", "policy = \"full\""}},
      {"accelerate-deepspeed.yaml", {}, "50257", 8, {"offload_optimizer = \"host\"", "global = 64", "size = 8"}},
      {"axolotl-qlora.yml",
       {"--ranks", "2"},
       "32000",
       2,
       {"size = \"llama2-7b\"", "context = 512", "global = 32", "base = \"nf4\"", "rank = 32", "validation = 0.05",
        "kind = \"cosine\"", "warmup = 10", "output = \"./outputs/qlora-out\"", ":26:1: num_epochs: "}},
      {"torchtitan-llama3-70b.toml",
       {"--ranks", "64"},
       "128256",
       64,
       {"layers = 80", "global = 64", "micro = 8", "stage = 3", "size = 8", "sequence_parallel = true",
        "policy = \"full\"", ":34:1: parallelism.enable_async_tensor_parallel: "}},
      {"megatron-gpt3-175b.sh",
       {},
       "50257",
       256,
       {"plugin = \"gpt2\"", "embed = 12288", "vocab = 51200", "global = 1536", "size = 16", "size = 8", "warmup = 500",
        "min_lr = 6e-06", "compute = \"fp16\"", ":29:5: rampup-batch-size: "}},
      {"megatron-llama3-8b.sh",
       {},
       "128256",
       8,
       {"plugin = \"llama\"", "kv_heads = 8", "tied = \"no\"", "rope_base = 1e+06", "stage = 1", "steps = 15258789",
        "warmup = 30518", "reduce = \"bf16\"", ":39:1: if: ", ":41:9: fp8-format: "}},
      {"megatron-mixtral-8x7b.sh",
       {},
       "32000",
       32,
       {"plugin = \"mixture\"", "experts = 8", "choices = 2", "switch_loss = 0.01", "plugin = \"expert\"\nsize = 8",
        "also_over = [\"ep\"]", ":31:5: moe-aux-loss-coeff: "}},
      {"megatron-arguments.txt", {}, "50257", 1, {"layers = 24", "micro = 8", "global = 64", "warmup = 100"}}};
  return all;
}

TEST(ImportConfiguration, PublishedFilesBecomeConfigurationsThatCheckAccepts) {
  for (const Sample& each : samples()) {
    SCOPED_TRACE(each.file);
    const TemporaryFolder folder;
    const std::string out = (folder.path() / "run.toml").string();
    std::vector<std::string> arguments{"import-config", sample(each.file), out};
    arguments.insert(arguments.end(), each.arguments.begin(), each.arguments.end());
    const CommandResult made = run_command(arguments);
    ASSERT_EQ(made.exit_code, 0) << made.messages;
    const std::string text = read_file(out);
    for (const char* line : each.lines) EXPECT_THAT(text, HasSubstr(line));
    // As many layers as stages are enough for the stack.
    const CommandResult checked = run_command({"check", out, "--cluster", "dgx-h100", "--nodes", "32", "--vocab",
                                               each.vocabulary, "--set", "model.layers=16"});
    ASSERT_EQ(checked.exit_code, 0) << checked.messages;
    EXPECT_THAT(checked.out, HasSubstr("ok: " + std::to_string(each.ranks) + " rank"));
  }
}

/// A mistake in a file, and what the message says about it.
struct Mistake {
  const char* text;
  const char* message;
};

TEST(ImportConfiguration, SaysFileLineAndKey) {
  const std::vector<Mistake> mistakes = {
      {"{\"zero_optimization\": {\n \"stage\": 4}}",
       "bad.txt:2:11: zero_optimization.stage: found the integer 4; accepted: 0"},
      {"{\"train_batch_size\": \"many\"}",
       "bad.txt:1:22: train_batch_size: found the string \"many\"; accepted: an integer"},
      {"{\"train_batch_size\": 8,\n \"bf16\": {\"enabled\": true}", "bad.txt:2"},
      {"{\"train_batch_size\": 8,\n\"train_batch_size\": 8}",
       "bad.txt:2:1: train_batch_size: the key stands here twice"},
      {"{\"train_batch_size\": 30, \"train_micro_batch_size_per_gpu\": 4}",
       "bad.txt: global batch: found 30; accepted: multiples of 4"},
      {"distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: SOME\n",
       "bad.txt:3:27: fsdp_config.fsdp_sharding_strategy: found the string \"SOME\""},
      {"base_model: someone/unknown\n", "bad.txt:1:13: base_model: found the string \"someone/unknown\""},
      {"base_model: gpt2\nadapter: [1, 2]\n", "bad.txt:2:10: adapter: found the list"},
      {"base_model: &a [*a]\n", "bad.txt:1"},
      {"base_model: gpt2\n<<: *a\n", "bad.txt:2:5: not valid YAML or JSON: the referenced anchor is not defined"},
      {"base_model: gpt2\n<<: &a [*a]\n", "bad.txt:2:5: too many nested values"},
      {"base_model: gpt2\n<<: [{lora_r: 2}, 3]\n",
       "bad.txt:2:19: <<: found the integer 3; accepted: a table or a list of tables"},
      {"{\"train_batch_size\": 8, \"zero_optimization\": {\"stage\": 3, \"zero_hpz_partition_size\": -8}}",
       "bad.txt: sizes: found -8 for a degree of parallelism"},
      {"[training]\nsteps = 10\n[model]\nname = \"flux\"\n", "bad.txt:4:8: model.name: found the string \"flux\""},
      {"train --num-layers 2 --hidden-size $W",
       "bad.txt:1:22: hidden-size: found the string \"$W\"; accepted: an integer"},
      {"train --num-layers 2", "bad.txt: hidden-size: found nothing; accepted: --hidden-size with a number"},
      {"hello", "bad.txt: found no settings of a known program; accepted: --from and one of accelerate, axolotl"}};
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "bad.txt").string();
  for (const Mistake& each : mistakes) {
    std::ofstream(file) << each.text;
    const CommandResult result = run_command({"import-config", file});
    EXPECT_EQ(result.exit_code, 2) << each.text;
    EXPECT_THAT(result.messages, HasSubstr(each.message)) << each.text;
    EXPECT_EQ(result.out, "");
  }
}

/// `<<` merges tables: keys that stand beside it have priority, then those of the first table.
TEST(ImportConfiguration, YamlTablesAreMerged) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "axolotl.yaml").string();
  std::ofstream(file) << "base_model: gpt2\nadapter: lora\nsmall: &small {lora_r: 4, lora_alpha: 5}\n"
                         "large: &large {lora_alpha: 7, lora_dropout: 0.25, learning_rate: 0.5}\n<<: [*small, *large]\n"
                         "lora_r: 3\nlearning_rate:\n";
  const CommandResult result = run_command({"import-config", file});
  EXPECT_EQ(result.exit_code, 0) << result.messages;
  for (const char* line : {"rank = 3\n", "alpha = 5.0\n", "dropout = 0.25\n"}) EXPECT_THAT(result.out, HasSubstr(line));
  // A key beside << has priority, even without a value.
  EXPECT_THAT(result.out, Not(HasSubstr("lr = 0.5")));
}

/// The least number of devices has a whole partition of ZeRO++.
TEST(ImportConfiguration, PartitionsAreWhole) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "ds.json").string();
  std::ofstream(file) << "{\"zero_optimization\": {\"stage\": 3, \"zero_hpz_partition_size\": 8}}";
  const CommandResult result = run_command({"import-config", file});
  EXPECT_EQ(result.exit_code, 0) << result.messages;
  EXPECT_THAT(result.out, HasSubstr("hierarchical_partition = 8\nsize = 8\n"));
  std::ofstream(file) << "{\"zero_optimization\": {\"stage\": 3, \"zero_hpz_partition_size\": 0}}";
  EXPECT_EQ(run_command({"import-config", file}).exit_code, 0) << "0 is off";
}

TEST(ImportConfiguration, TheFormatCanBeSaid) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "ds.json").string();
  std::ofstream(file) << "{\"bf16\": {\"enabled\": true}, \"unknown\": {\"key\": 5}}";
  EXPECT_EQ(run_command({"import-config", file}).exit_code, 2);
  const CommandResult result = run_command({"import-config", file, "--from", "deepspeed", "--ranks", "8"});
  EXPECT_EQ(result.exit_code, 0) << result.messages;
  EXPECT_THAT(result.out, HasSubstr(":1:41: unknown.key: no counterpart\n"));
  EXPECT_THAT(result.out, HasSubstr("plugin = \"ddp\"\nsize = 8\n"));
  EXPECT_NO_THROW(static_cast<void>(parse_configuration(result.out, "printed")));
}

}  // namespace
}  // namespace strata::host::test

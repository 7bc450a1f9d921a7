/// Adapters in PEFT's format that are imported, and the types of exported tensors.

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "build_paths.hpp"
#include "checkpoint/safetensors.hpp"
#include "command_runner.hpp"
#include "huggingface/import_model.hpp"
#include "small_run.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct Family {
  const char* name;
  std::string model;
  /// Names of matrices that get adapters, by the strategy that has them.
  std::vector<std::string> targets;

  friend void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }
};

class ImportAdapters : public ::testing::TestWithParam<Family> {
 protected:
  /// Runs a command in the folder of the test. \return what it prints.
  std::string run(std::vector<std::string> arguments) {
    const test::CommandResult result = test::run_command(arguments);
    EXPECT_EQ(result.exit_code, 0) << arguments.front() << ": " << result.messages;
    return result.out;
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  [[nodiscard]] std::string bytes(const std::string& name) const { return test::read_file(path(name)); }

  /// A published base in bf16, a run with adapters of it, and the adapters alone.
  void make_adapters() {
    const std::string text = folder_.file("text.txt", test::small_text()).string();
    const std::string common = "[run]\nsteps = 2\nlog_every = 1\n[data]\npath = \"" + text +
                               "\"\n[batch]\nglobal = 2\n[optimizer]\nlr = 1e-2\n";
    const std::string base = folder_.file("base.toml", common + GetParam().model).string();
    run({"train", base, "--set", "run.output=" + path("base")});
    run({"export", path("base"), path("hf"), "--dtype", "bf16"});
    std::string tables = "[model]\nfrom = \"" + path("hf") + "\"\n";
    for (const std::string& targets : GetParam().targets) tables += "[[strategy]]\nplugin = \"lora\"\n" + targets;
    const std::string tune = folder_.file("tune.toml", common + tables).string();
    run({"train", tune, "--set", "run.output=" + path("tuned")});
    run({"export", path("tuned"), path("peft"), "--adapters"});
  }
  [[nodiscard]] std::set<DType> types(const std::string& file) const {
    std::set<DType> types;
    const SafetensorsFile tensors(path(file));
    for (const auto& [name, entry] : tensors.tensors()) types.insert(entry.tensor.dtype);
    return types;
  }

  test::TemporaryFolder folder_;
};

TEST_P(ImportAdapters, GiveWhatWasExported) {
  make_adapters();
  run({"import", path("hf"), path("imported"), "--adapters", path("peft")});
  run({"export", path("imported"), path("again"), "--adapters"});
  EXPECT_EQ(bytes("again/adapter_model.safetensors"), bytes("peft/adapter_model.safetensors"));
  EXPECT_EQ(bytes("again/adapter_config.json"), bytes("peft/adapter_config.json"));
  run({"export", path("tuned"), path("merged")});
  run({"export", path("imported"), path("merged-again")});
  EXPECT_EQ(bytes("merged-again/model.safetensors"), bytes("merged/model.safetensors"));
  EXPECT_NE(bytes("merged/model.safetensors"), bytes("hf/model.safetensors"));
  // Training was in f32. The files have the type of the base, unless the user wants another one.
  EXPECT_EQ(types("merged/model.safetensors"), std::set{DType::bf16});
  EXPECT_THAT(bytes("merged/config.json"), HasSubstr("bfloat16"));
  run({"export", path("tuned"), path("wide"), "--dtype", "f32"});
  EXPECT_EQ(types("wide/model.safetensors"), std::set{DType::f32});
  // Training goes on from the imported adapters.
  const std::string log = run(
      {"train", path("tune.toml"), "--set", "model.from=" + path("imported"), "--set", "run.output=" + path("more")});
  run({"train", path("tune.toml"), "--set", "model.from=" + path("tuned"), "--set", "run.output=" + path("same")});
  EXPECT_EQ(bytes("more/checkpoints/step-00000002/rank-00000.safetensors"),
            bytes("same/checkpoints/step-00000002/rank-00000.safetensors"));
}

const char* const kLlamaModel =
    "[model]\nplugin = \"llama\"\nlayers = 2\nheads = 4\nkv_heads = 2\nembed = 16\nffn = 24\ncontext = 8\n";
const char* const kGpt2Model = "[model]\nplugin = \"gpt2\"\nlayers = 1\nheads = 2\nembed = 16\ncontext = 8\n";

INSTANTIATE_TEST_SUITE_P(
    All, ImportAdapters,
    ::testing::Values(Family{"of_matrices_and_an_embedding",
                             kLlamaModel,
                             {"rank = 3\nalpha = 12.0\ntargets = [\"*_proj.weight\", \"lm_head.weight\"]\n",
                              "rank = 2\nrank_stabilized = true\nalpha = 3.0\ntargets = [\"*embed_tokens*\"]\n"}},
                      Family{"of_parts_of_a_tensor",
                             kGpt2Model,
                             {"rank = 2\ntargets = [\"*.q.weight\", \"*.v.weight\", \"*.c_fc.weight\"]\n"}}),
    [](const auto& info) { return info.param.name; });

/// What an import of files that are changed so says.
struct BadAdapters {
  const char* name;
  /// Fields of adapter_config.json.
  nlohmann::json fields;
  /// The ending of a tensor's name that becomes another one.
  std::string from;
  std::string to;
  std::string message;

  friend void PrintTo(const BadAdapters& bad, std::ostream* out) { *out << bad.name; }
};

class RefusedAdapters : public ImportAdapters {};

TEST_P(RefusedAdapters, AreNamed) {
  make_adapters();
  const std::string weights = bytes("peft/adapter_model.safetensors");
  const nlohmann::json config = nlohmann::json::parse(bytes("peft/adapter_config.json"));
  PluginRegistry registry{{plugin_folder()}};
  const auto base = HuggingFaceCheckpoint::open(path("hf"), registry, {});
  const std::string q = "layers.0.self_attn.q_proj.lora_";
  for (const BadAdapters& bad : std::vector<BadAdapters>{
           {"dora", {{"use_dora", true}}, "", "", "use_dora: found true, which Strata does not compute"},
           {"other", {{"peft_type", "IA3"}}, "", "", "peft_type: found \"IA3\"; accepted: \"LORA\""},
           {"bias", {{"bias", "all"}}, "", "", "bias: found \"all\"; accepted: \"none\""},
           {"saved", {{"modules_to_save", {"lm_head"}}}, "", "", "modules_to_save: found [\"lm_head\"]"},
           {"pissa", {{"init_lora_weights", "pissa"}}, "", "", "belong to a base model with other weights"},
           {"pattern", {{"rank_pattern", {{"^q.*", 3}}}}, "", "", "rank_pattern: found the pattern \"^q.*\""},
           {"patterns",
            {{"alpha_pattern", {{"q_proj", 8}, {"layers.0.self_attn.q_proj", 4}}}},
            "",
            "",
            "with different values, and both name 'model.layers.0.self_attn.q_proj'"},
           {"rank", {{"r", 5}}, "", "", "has A [3 16] and B [16 3]; adapter_config.json says rank 5"},
           {"missing", {}, q + "A.weight", q + "B.magnit", "missing: 'base_model.model.model." + q + "A.weight'"},
           {"magnitude", {}, q + "A.weight", q + "magnitud", "unexpected: 'base_model.model.model." + q + "magnitud'"},
           {"target",
            {},
            "layers.0.self_attn.q_proj",
            "layers.7.self_attn.q_proj",
            "missing: the adapter of 'model.layers.0.self_attn.q_proj', which adapter_config.json lists"},
           {"module", {}, "layers.0.self_attn.q_proj", "layers.7.self_attn.q_proj", "which the model lacks"},
           {"shape", {}, "[3,16]", "[16,3]", "wrong rank: the adapter of"}}) {
    SCOPED_TRACE(bad.name);
    nlohmann::json changed = config;
    if (!bad.fields.is_null()) changed.update(bad.fields);
    std::string text = weights;
    for (std::size_t at = 0; !bad.from.empty() && (at = text.find(bad.from, at)) != std::string::npos; ++at) {
      text.replace(at, bad.from.size(), bad.to);
    }
    ASSERT_EQ(text.size(), weights.size());
    fs::remove_all(path("bad"));
    fs::create_directory(path("bad"));
    (void)folder_.file("bad/adapter_config.json", changed.dump());
    (void)folder_.file("bad/adapter_model.safetensors", text);
    EXPECT_THAT(test::message_of<Error>([&] { (void)read_adapters(*base, path("bad"), registry); }),
                AllOf(HasSubstr(path("bad")), HasSubstr(bad.message)));
  }
  fs::remove(path("bad/adapter_model.safetensors"));
  (void)folder_.file("bad/adapter_model.bin", "");
  EXPECT_THAT(test::message_of<Error>([&] { (void)read_adapters(*base, path("bad"), registry); }),
              HasSubstr("found the pickled adapter_model.bin"));
}

INSTANTIATE_TEST_SUITE_P(Llama, RefusedAdapters,
                         ::testing::Values(Family{"llama", kLlamaModel, {"rank = 3\ntargets = [\"*_proj.weight\"]\n"}}),
                         [](const auto& info) { return info.param.name; });

class AdaptersOfTables : public ImportAdapters {};

/// PEFT's adapter changes the embedding only, that of Strata all uses of the table.
TEST_P(AdaptersOfTables, AreRefusedIfTheTableIsAProjectionToo) {
  make_adapters();
  run({"train", path("base.toml"), "--set", "model.tied=yes", "--set", "run.output=" + path("tied")});
  run({"export", path("tied"), path("hf-tied")});
  const test::CommandResult result =
      test::run_command({"import", path("hf-tied"), path("imported"), "--adapters", path("peft")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.messages, HasSubstr("'model.embed_tokens' is an embedding and a projection at once"));
  EXPECT_FALSE(fs::exists(path("imported")));
}

INSTANTIATE_TEST_SUITE_P(Llama, AdaptersOfTables,
                         ::testing::Values(Family{
                             "llama", kLlamaModel, {"rank = 2\ntargets = [\"*embed_tokens*\"]\n"}}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::host

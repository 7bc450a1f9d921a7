#include <gtest/gtest.h>

#include "build_paths.hpp"
#include "huggingface/hugging_face_checkpoint.hpp"
#include "huggingface/hugging_face_files.hpp"
#include "huggingface/import_model.hpp"
#include "huggingface/model_parameters.hpp"
#include "odd_files.hpp"
#include "refusal.hpp"
#include "sanitized.hpp"

namespace strata::testing {
namespace {

namespace fs = std::filesystem;
using namespace strata::host;

/// A config.json of a Hugging Face model.
struct HuggingFaceExample {
  const char* name;
  std::string config;
  /// A module with adapters in files of PEFT, and its outputs.
  std::string module;
  std::int64_t outputs = 0;

  friend void PrintTo(const HuggingFaceExample& example, std::ostream* out) { *out << example.name; }
};

std::vector<HuggingFaceExample> huggingface_examples() {
  return {{"gpt2", R"({
  "model_type": "gpt2",
  "activation_function": "gelu_new",
  "n_embd": 8,
  "n_head": 2,
  "n_inner": null,
  "n_layer": 1,
  "n_positions": 8,
  "vocab_size": 16
})",
           "transformer.h.0.attn.c_attn", 24},
          {"qwen3", R"({
  "model_type": "qwen3",
  "attention_bias": true,
  "head_dim": 4,
  "hidden_act": "silu",
  "hidden_size": 8,
  "intermediate_size": 12,
  "layer_types": ["sliding_attention"],
  "max_position_embeddings": 8,
  "max_window_layers": 0,
  "num_attention_heads": 2,
  "num_hidden_layers": 1,
  "num_key_value_heads": 1,
  "rms_norm_eps": 1e-6,
  "rope_theta": 10000.0,
  "rope_scaling": {
    "rope_type": "yarn",
    "factor": 2.0,
    "original_max_position_embeddings": 4,
    "beta_fast": 32.0
  },
  "sliding_window": 3,
  "tie_word_embeddings": false,
  "use_sliding_window": true,
  "vocab_size": 16
})",
           "model.layers.0.self_attn.q_proj", 8}};
}

class HuggingFaceMutants : public ::testing::TestWithParam<HuggingFaceExample> {
 protected:
  HuggingFaceMutants() : registry_({plugin_folder()}) {
    files_["config.json"] = GetParam().config;
    (void)folder_.file("config.json", GetParam().config);
    const RecognisedModel model = recognise_model(folder_.path(), registry_);
    const Options options(model.plugin.factory->options(), model.options);
    std::map<std::string, SafetensorsTensor> all;
    for (const HuggingFaceTensor& each : model.plugin.format->tensors(options, {}).tensors) {
      all[each.name] = {each.name, DType::bf16, each.shape};
    }
    // Two files, of every other tensor.
    std::string index = R"({"metadata": {}, "weight_map": {)";
    std::vector<SafetensorsTensor> parts[2];
    for (const auto& [name, tensor] : all) {
      const std::size_t part = parts[0].size() > parts[1].size() ? 1 : 0;
      index += (index.back() == '{' ? "" : ",\n") + ("\"" + name + "\": \"" + (part == 0 ? "a" : "b") + "\"");
      parts[part].push_back(tensor);
    }
    files_["model.safetensors.index.json"] = index + "}}";
    for (const std::size_t part : {0U, 1U}) {
      std::uint64_t bytes = 0;
      for (const SafetensorsTensor& each : parts[part]) bytes += each.bytes();
      files_[part == 0 ? "a" : "b"] = safetensors_header(parts[part], {}) + std::string(bytes, '\1');
    }
    for (const auto& [name, bytes] : files_) (void)folder_.file(name, bytes);
  }

  /// Reads everything that an import reads.
  void use() {
    const auto model = HuggingFaceCheckpoint::open(folder_.path(), registry_, {});
    for (const auto& [name, tensor] : model->manifest().tensors) {
      std::vector<std::byte> data(static_cast<std::size_t>(element_count(tensor.shape)) * size_of(tensor.dtype));
      model->read(name, TensorPart::whole(tensor.shape), tensor.dtype, data.data());
    }
    (void)model->model_files();
  }

  PluginRegistry registry_;
  host::test::TemporaryFolder folder_;
  std::map<std::string, std::string> files_;
};

TEST_P(HuggingFaceMutants, AreReadOrRefusedByName) {
  const int mutants = kSanitized ? 150 : 600;
  ASSERT_FALSE(is_refused("", [&] { use(); }));
  Mutator mutator(4);
  int accepted = 0;
  for (int i = 0; i < mutants; ++i) {
    auto file = files_.begin();
    std::advance(file, i % 4);
    const std::string& bytes = file->second;
    std::string mutant = mutator.bytes(bytes);
    if (file->first == "config.json" && i % 3 != 0) {
      // Another value of a field.
      std::size_t colon = mutator.below(bytes.size());
      colon = std::min(bytes.find(':', colon), bytes.rfind(':'));
      mutant = bytes.substr(0, colon + 1) + mutator.value() +
               bytes.substr(std::min(bytes.find('\n', colon), bytes.size()) - 1);
    }
    (void)folder_.file(file->first, mutant);
    accepted += is_refused(folder_.path().string(), [&] { use(); }) ? 0 : 1;
    (void)folder_.file(file->first, bytes);
    if (HasFailure()) FAIL() << "mutant " << i << " of " << file->first << ": " << mutant.substr(0, 4000);
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, mutants / 2);
}

TEST_P(HuggingFaceMutants, AdaptersAreReadOrRefusedByName) {
  const fs::path folder = folder_.path() / "peft";
  fs::create_directory(folder);
  const std::string tensor = "base_model.model." + GetParam().module;
  const std::vector<SafetensorsTensor> tensors{{tensor + ".lora_A.weight", DType::f32, {2, 8}},
                                               {tensor + ".lora_B.weight", DType::f32, {GetParam().outputs, 2}}};
  const auto bytes = static_cast<std::size_t>(tensors[0].bytes() + tensors[1].bytes());
  const std::string config = "{\n\"peft_type\": \"LORA\",\n\"r\": 2,\n\"lora_alpha\": 4,\n\"use_dora\": false,\n" +
                             ("\"rank_pattern\": {\"" + GetParam().module + "\": 2},\n\"target_modules\": [\"") +
                             GetParam().module + "\"],\n\"lora_dropout\": 0.0\n}";
  const std::map<std::string, std::string> files{
      {"adapter_config.json", config},
      {"adapter_model.safetensors", safetensors_header(tensors, {}) + std::string(bytes, '\1')}};
  for (const auto& [name, text] : files) (void)folder_.file("peft/" + name, text);
  const auto base = HuggingFaceCheckpoint::open(folder_.path(), registry_, {});
  const auto refused = [&] {
    return is_refused(folder.string(), [&] { (void)read_adapters(*base, folder, registry_); });
  };
  ASSERT_FALSE(refused());
  Mutator mutator(5);
  int accepted = 0;
  const int mutants = kSanitized ? 100 : 400;
  for (int i = 0; i < mutants; ++i) {
    const auto& [name, text] = i % 2 == 0 ? *files.begin() : *files.rbegin();
    std::string mutant = mutator.bytes(text);
    if (i % 4 == 0) {
      const std::size_t colon = std::min(text.find(':', mutator.below(text.size())), text.rfind(':'));
      mutant =
          text.substr(0, colon + 1) + mutator.value() + text.substr(std::min(text.find('\n', colon), text.size()) - 1);
    }
    (void)folder_.file("peft/" + name, mutant);
    accepted += refused() ? 0 : 1;
    (void)folder_.file("peft/" + name, text);
    if (HasFailure()) FAIL() << "mutant " << i << " of " << name << ": " << mutant.substr(0, 4000);
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, mutants / 2);
}

TEST_P(HuggingFaceMutants, OddFilesAreNamed) {
  for (const std::string& odd : odd_files(folder_)) {
    for (const auto& [name, bytes] : files_) {
      fs::remove(folder_.path() / name);
      fs::create_symlink(odd, folder_.path() / name);
      EXPECT_TRUE(is_refused(folder_.path().string(), [&] { use(); })) << odd;
      fs::remove(folder_.path() / name);
      (void)folder_.file(name, bytes);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, HuggingFaceMutants, ::testing::ValuesIn(huggingface_examples()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::testing

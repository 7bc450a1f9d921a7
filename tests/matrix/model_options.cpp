#include "matrix/model_options.hpp"

#include <array>
#include <string_view>

namespace strata::testing {
namespace {

bool has_llama_names(const Stack& stack) { return has_model(stack, "llama") || has_model(stack, "mixture"); }

bool mentions(const Stack& stack, const std::string& option) {
  return stack.run_option("model.plugin").find(option) != std::string::npos;
}

int layers(const Stack& stack) { return std::stoi(stack.run_option("model.layers")); }

/// Parts of patterns for the parameters of gpt2, and what the other models have instead. No product reads the
/// convolutions of resnet as matrices, so that muon and adapters take its head only.
struct ParameterNames {
  std::string_view gpt2, llama, mixture, bert, t5, vit, resnet;
};
constexpr std::array<ParameterNames, 6> kParameterNames = {
    {{"*.bias", "*norm.weight", "*norm.weight", "*.bias", "*layer_norm.weight", "*.bias", "*.bias"},
     {"wpe.*", "lm_head.weight", "lm_head.weight", "*position_embeddings.weight", "shared.weight",
      "encoder.pos_embedding", "conv1.weight"},
     {"h.*.attn.*.", "*.self_attn.*_proj.", "*.self_attn.*_proj.", "*.attention.self.*.", "*Attention.[qkvo].",
      "*.self_attention.*.", "fc."},
     // Muon refuses the matrices of experts, but not the router's.
     {"h.*.mlp.*.", "*.mlp.*_proj.", "*.mlp.gate.", "*.intermediate.*.", "*.DenseReluDense.*.", "*.mlp.*.", "fc."},
     {"h.*.", "*_proj.", "*_proj.", "*.layer.*.", "*.layer.*.", "encoder.layers.*.", "layer*."},
     {"\"heads\"", "\"head_dim\"", "\"head_dim\"", "\"heads\"", "\"heads\"", "\"heads\"", ""}}};

std::string_view of_model(const Stack& stack, const ParameterNames& names) {
  if (has_model(stack, "mixture")) return names.mixture;
  if (has_model(stack, "llama")) return names.llama;
  if (has_model(stack, "bert")) return names.bert;
  if (has_model(stack, "t5")) return names.t5;
  if (has_model(stack, "vit")) return names.vit;
  if (has_model(stack, "resnet")) return names.resnet;
  return names.gpt2;
}

std::string line(const std::string& option, int value) { return option + " = " + std::to_string(value) + "\n"; }

/// One row of square patches.
std::string vit_sizes(const Stack& stack, const ModelSizes& sizes) {
  constexpr int kPatch = 2;
  const int patches = sizes.context - (mentions(stack, "class_token = false") ? 0 : 1);
  return line("heads", sizes.heads) + line("embed", sizes.embed) + line("patch", kPatch) + line("image", kPatch) +
         line("width", kPatch * patches);
}

}  // namespace

bool reads_images(const Stack& stack) { return has_model(stack, "vit") || has_model(stack, "resnet"); }

bool has_model(const Stack& stack, const std::string& plugin) {
  return stack.run_option("model.plugin").starts_with("\"" + plugin + "\"");
}

int blocks_of_model(const Stack& stack) {
  // T5 has an encoder and a decoder, each with an embedding.
  return has_model(stack, "t5") ? 2 * layers(stack) + 3 : layers(stack) + 2;
}

std::string layers_of_model(const Stack& stack, const std::string& toml) {
  if (!has_model(stack, "resnet")) return toml;
  const int second = layers(stack) / 2;
  const std::string first = std::to_string(layers(stack) - second);
  return second == 0 ? "[" + first + "]" : "[" + first + ", " + std::to_string(second) + "]";
}

std::string of_decoders(const Stack& stack, const std::string& toml) {
  return has_model(stack, "gpt2") || has_llama_names(stack) ? toml : "";
}

std::string attention_dropout_of_model(const Stack& stack, const std::string& toml) {
  return has_model(stack, "t5") || has_model(stack, "resnet") ? "" : toml;
}

std::string groups_of_model(const Stack& stack, const std::string& toml) {
  std::string text = toml;
  for (const ParameterNames& names : kParameterNames) {
    const std::string_view to = of_model(stack, names);
    for (std::size_t at = text.find(names.gpt2); at != std::string::npos; at = text.find(names.gpt2, at + to.size())) {
      text.replace(at, names.gpt2.size(), to);
    }
  }
  return text;
}

std::string lora_of_model(const Stack& stack, const StrategyChoice& /*strategy*/) {
  const std::string head = "2\nalpha = 2.0\ntargets = ";
  if (has_llama_names(stack)) {
    // Experts take no adapters.
    const std::string projections = has_model(stack, "mixture") ? "*self_attn.*_proj.weight" : "*_proj.weight";
    return head + "[\"*embed_tokens*\", \"" + projections + "\"]\ntrain = [\"model.norm.weight\"]";
  }
  if (has_model(stack, "bert")) {
    return head + "[\"*word_embeddings.weight\", \"*.query.weight\"]\ntrain = [\"*LayerNorm.*\"]";
  }
  if (has_model(stack, "t5")) {
    return head + "[\"shared.weight\", \"*Attention.[qv].weight\"]\ntrain = [\"*final_layer_norm.weight\"]";
  }
  if (has_model(stack, "vit")) {
    return head + "[\"heads.head.weight\", \"*.[qv].weight\"]\ntrain = [\"*.ln*\", \"encoder.pos_embedding\"]";
  }
  if (has_model(stack, "resnet")) return head + "[\"fc.weight\"]\ntrain = [\"conv1.weight\", \"*bn1.bias\"]";
  return head + "[\"wte.weight\", \"h.*.attn.[qv].weight\"]\ntrain = [\"ln_f.*\", \"wpe.weight\"]";
}

std::string loss_scale_of_model(const Stack& stack, const StrategyChoice& strategy) {
  const std::string& value = strategy.option("loss_scale");
  // The class token of vit begins small, so the gradients of its norms are large. The usual scale overflows fp16.
  return has_model(stack, "vit") ? value + "\ninitial_scale = 1024" : value;
}

std::string sizes_of_model(const Stack& stack) {
  const ModelSizes& sizes = grammar().sizes.at(stack.sizes);
  if (has_model(stack, "vit")) return vit_sizes(stack, sizes);
  if (has_model(stack, "resnet")) return line("planes", sizes.heads);
  return line("heads", sizes.heads) + line("embed", sizes.embed) + line("context", sizes.context) +
         line("vocab", sizes.vocab);
}

std::string data_of_model(const Stack& stack) {
  if (reads_images(stack)) return "plugin = \"images\"\npaths = [\"none\"]\n";
  if (has_model(stack, "t5")) return "plugin = \"pairs\"\npath = \"none\"\ntarget_path = \"none\"\n";
  if (!has_model(stack, "bert")) {
    return "plugin = \"tokens\"\npath = \"none\"\ndocuments = \"token\"\ndocument_end = 0\n";
  }
  if (!mentions(stack, "classes")) return "plugin = \"masked\"\npath = \"none\"\nmask_token = 3\n";
  return "plugin = \"sentences\"\npath = \"none\"\nlabels = \"none\"\nfirst_token = 1\nlast_token = 2\n";
}

}  // namespace strata::testing

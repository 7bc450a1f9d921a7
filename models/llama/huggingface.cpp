#include "common/huggingface.hpp"

#include <tuple>
#include <utility>

#include "common/tensor_list.hpp"
#include "llama.hpp"
#include "model_type.hpp"

namespace llama {
namespace {

using namespace strata;

class LlamaTensors final : public models::TensorList {
 public:
  /// `type`: that of the files, or null for a model that none can express.
  LlamaTensors(const Settings& settings, const ModelType* type)
      : s_(settings), packed_(type != nullptr && type->packed), experts_(experts_of(type)) {}

  void add_layer(const std::string& layer) {
    add_norms(layer);
    const std::int64_t queries = s_.heads * s_.head_dim;
    const std::int64_t keys = s_.kv_heads * s_.head_dim;
    const std::string attention = layer + "self_attn.";
    const std::vector<Part> projections{
        {attention + "q_proj", queries}, {attention + "k_proj", keys}, {attention + "v_proj", keys}};
    add_parts(projections, attention + "qkv_proj", s_.qkv_bias);
    add_linear({attention + "o_proj", s_.embed}, queries, s_.output_bias);
    if (s_.qk_norm != HeadNorm::none) {
      const bool is_of_all = s_.qk_norm == HeadNorm::all;
      add(attention + "q_norm.weight", {is_of_all ? queries : s_.head_dim});
      add(attention + "k_norm.weight", {is_of_all ? keys : s_.head_dim});
    }
    if (s_.kind() == Kind::mixture) return add_experts(layer);
    add_parts({{layer + "mlp.gate_proj", s_.ffn}, {layer + "mlp.up_proj", s_.ffn}}, layer + "mlp.gate_up_proj",
              s_.mlp_bias);
    add_linear({layer + "mlp.down_proj", s_.embed}, s_.ffn, s_.mlp_bias);
  }

 private:
  /// A linear layer of PyTorch, whose weight is [out in].
  struct Part {
    std::string name;
    std::int64_t out = 0;
  };

  static ModelType::Experts experts_of(const ModelType* type) {
    return type != nullptr && type->experts ? *type->experts : ModelType::Experts{.block = "mlp."};
  }

  void add_experts(const std::string& layer) {
    const std::string block = layer + experts_.block;
    add_linear({layer + "mlp.gate", s_.experts.count}, s_.embed, false);
    list_.back().name = block + "gate.weight";
    if (s_.experts.balance_bias > 0) add(layer + "mlp.gate.e_score_correction_bias", {s_.experts.count});
    for (const auto& [parameter, name, shape] : {std::tuple{"gate_proj", experts_.gate, Shape{s_.ffn, s_.embed}},
                                                 std::tuple{"up_proj", experts_.up, Shape{s_.ffn, s_.embed}},
                                                 std::tuple{"down_proj", experts_.down, Shape{s_.embed, s_.ffn}}}) {
      for (std::int64_t expert = 0; expert < s_.experts.count; ++expert) {
        list_.push_back({.name = block + "experts." + std::to_string(expert) + "." + name + ".weight",
                         .parameter = layer + "mlp.experts." + parameter + ".weight",
                         .shape = shape,
                         .parameter_begin = expert,
                         .parameter_size = 1});
      }
    }
    if (s_.experts.shared_width == 0) return;
    const std::string shared = layer + "mlp.shared_expert.";
    for (const char* name : {"gate_proj", "up_proj"})
      add_linear({shared + name, s_.experts.shared_width}, s_.embed, false);
    add_linear({shared + "down_proj", s_.embed}, s_.experts.shared_width, false);
  }

  void add_norms(const std::string& layer) {
    std::vector<std::string> norms;
    if (s_.norm_place != NormPlace::after) norms.emplace_back("input_layernorm");
    norms.emplace_back("post_attention_layernorm");
    if (s_.norm_place == NormPlace::both) norms.emplace_back("pre_feedforward_layernorm");
    if (s_.norm_place != NormPlace::before) norms.emplace_back("post_feedforward_layernorm");
    for (const std::string& norm : norms) add(layer + norm + ".weight", {s_.embed});
  }

  void add_linear(const Part& part, std::int64_t in, bool bias) {
    add(part.name + ".weight", {part.out, in}, true);
    if (bias) add(part.name + ".bias", {part.out});
  }

  /// Layers that read the stream, each in tensors of its own or, packed, as rows of those of `together`.
  void add_parts(const std::vector<Part>& parts, const std::string& together, bool bias) {
    std::int64_t rows = 0;
    for (const Part& part : parts) rows += part.out;
    std::int64_t begin = 0;
    for (const Part& part : parts) {
      const std::size_t first = list_.size();
      add_linear(part, s_.embed, bias);
      for (std::size_t i = first; i < list_.size() && packed_; ++i) {
        HuggingFaceTensor& tensor = list_[i];
        tensor.name = together + tensor.name.substr(part.name.size());
        tensor.shape.front() = rows;
        tensor.slice_begin = begin;
        tensor.slice_size = part.out;
      }
      begin += part.out;
    }
  }

  const Settings& s_;
  bool packed_;
  ModelType::Experts experts_;
};

}  // namespace

std::vector<std::string> LlamaFormat::families() const { return model_type_names(kind_); }

std::optional<Options> LlamaFormat::options(const HuggingFaceFields& config) const {
  const ModelType* type = find_model_type(config.word("model_type", ""));
  if (type == nullptr || type->kind() != kind_) return std::nullopt;
  return read_config(config, *type);
}

HuggingFaceFields LlamaFormat::config(const Options& options, const DimSizes& sizes) const {
  const Settings settings = settings_from(options);
  return write_config(settings, type_of(settings), sizes);
}

HuggingFaceTensors LlamaFormat::tensors(const Options& options, const DimSizes& sizes) const {
  const Settings settings = settings_from(options);
  LlamaTensors list(settings, find_type_of(settings));
  const Shape table{models::size_of_dim("vocab", settings.vocab, sizes), settings.embed};
  list.add("model.embed_tokens.weight", table);
  for (std::int64_t layer = 0; layer < settings.layers; ++layer) {
    list.add_layer("model.layers." + std::to_string(layer) + ".");
  }
  list.add("model.norm.weight", {settings.embed});
  HuggingFaceTensors tensors;
  tensors.ignored = {"*.rotary_emb.inv_freq"};
  tensors.optional_prefix = "model.";
  if (settings.tied) {
    tensors.copies["lm_head.weight"] = "model.embed_tokens.weight";
  } else {
    list.add("lm_head.weight", table);
  }
  tensors.tensors = list.take();
  return tensors;
}

}  // namespace llama

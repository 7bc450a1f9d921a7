#include "common/experts.hpp"

#include "common/layers.hpp"

namespace strata::models {
namespace {

/// The operands of an op that counts tokens by their targets, if there are any.
std::vector<Value> with(std::vector<Value> operands, std::optional<Value> targets) {
  if (targets) operands.push_back(*targets);
  return operands;
}

/// E · Σ of the share of the micro-batch's choices that an expert has, times its mean score, for each token (Fedus et
/// al., "Switch Transformers", 2022). A share is an expert's load divided by the choices of all tokens, so the number
/// of tokens cancels.
void add_switch_loss(GraphBuilder& b, Value scores, Value gates, const std::string& name, const ExpertChoice& choice) {
  const Value score = b.mean(scores, {"expert"}, name + ".score");
  const Value load = b.op("cast", {b.op("count_choices", {gates}, name + ".count")[0]}, name + ".load",
                          {{"dtype", std::string(to_string(b.float_type()))}})[0];
  const double weight = choice.switch_loss * static_cast<double>(choice.count) / static_cast<double>(choice.choices);
  b.add_loss(b.op("dot", {score, load}, name, {{"weight", weight}})[0]);
}

/// The gates [batch seq expert] of a stream, with the losses and the metric of their choice in training.
Value choose(GraphBuilder& b, Value x, const std::string& prefix, const ExpertChoice& choice,
             const ExpertContext& context) {
  const std::string name = prefix + "gate";
  // One gate divided by itself is 1, whatever the score.
  const bool scores_do_not_matter =
      choice.choices == 1 && choice.normalize && choice.balance_loss + choice.switch_loss + choice.z_loss == 0;
  const Value logits = affine(b, x, name,
                              {.weight = {"embed", "expert"},
                               .result = {"batch", "seq", "expert"},
                               .weight_gradient_is_zero = scores_do_not_matter});
  const Value scores = choice.sigmoid ? b.activation(logits, "sigmoid", name + ".scores")
                                      : b.op("softmax", {logits}, name + ".scores")[0];
  std::vector<Value> compared{scores};
  if (choice.balance_bias > 0) {
    compared.push_back(b.running_average(name + ".e_score_correction_bias", {"expert"}, Initialization::constant(0),
                                         choice.balance_bias));
  }
  const Value gates =
      b.op("top_k", compared, name + ".gates", {{"k", choice.choices}, {"normalize", choice.normalize}})[0];
  if (b.mode() != GraphMode::training) return gates;
  const std::optional<Value> targets = context.targets;
  if (!context.metric.empty()) {
    b.add_metric(context.metric, b.op("count_choices", with({gates}, targets), name + ".load")[0]);
  }
  if (choice.balance_loss > 0) {
    b.add_loss(b.op("balance_loss", with({scores, gates}, targets), name + ".balance_loss",
                    {{"weight", choice.balance_loss}})[0]);
  }
  if (choice.switch_loss > 0) add_switch_loss(b, scores, gates, name + ".switch_loss", choice);
  if (choice.z_loss > 0) {
    b.add_loss(b.op("z_loss", with({logits}, targets), name + ".z_loss", {{"weight", choice.z_loss}})[0]);
  }
  return gates;
}

Value matrices(GraphBuilder& b, const std::string& name, const Dims& dims, double deviation) {
  return b.parameter(name + ".weight", dims, Initialization::normal(deviation), true);
}

}  // namespace

void define_expert_dims(GraphBuilder& b, const ExpertChoice& choice) {
  if (choice.count > 0) b.define_dim("expert", choice.count);
  if (choice.shared_width > 0) b.define_dim("shared_ffn", choice.shared_width);
}

Value mix_experts(GraphBuilder& b, Value x, const std::string& prefix, const ExpertChoice& choice,
                  const ExpertContext& context) {
  const std::string name = prefix + "experts";
  const Value gates = choose(b, x, prefix, choice, context);
  const Value gate = matrices(b, name + ".gate_proj", {"expert", "ffn", "embed"}, kInitialDeviation);
  const Value up = matrices(b, name + ".up_proj", {"expert", "ffn", "embed"}, kInitialDeviation);
  const Value down = matrices(b, name + ".down_proj", {"expert", "embed", "ffn"}, context.output_deviation);
  const Value y =
      b.op("experts", {x, gates, gate, up, down}, name, {{"kind", context.activation}, {"choices", choice.choices}})[0];
  if (choice.shared_width == 0) return y;
  const Value shared = feed_forward(b, x, prefix,
                                    {.names = {.gate = "shared_expert.gate_proj",
                                               .up = "shared_expert.up_proj",
                                               .activation = "shared_expert.gate",
                                               .down = "shared_expert.down_proj"},
                                     .inner = "shared_ffn",
                                     .activation = context.activation,
                                     .output_deviation = context.output_deviation});
  return b.add(y, shared, prefix + "shared_expert.added");
}

}  // namespace strata::models

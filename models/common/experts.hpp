#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/graph.hpp"

namespace strata::models {

/// Experts, and how a token chooses among them.
struct ExpertChoice {
  /// 0: no experts.
  std::int64_t count = 0;
  /// Experts of a token.
  std::int64_t choices = 2;
  /// True if scores are the sigmoids of the router's logits. Otherwise they are the softmax.
  bool sigmoid = false;
  /// True if the gates of a token are divided by their sum. With softmax they then are that of the chosen logits.
  bool normalize = true;
  /// Inner width of an expert that all tokens use besides. 0: none.
  std::int64_t shared_width = 0;
  /// Weights of the losses balance_loss, Switch Transformer's and z_loss. 0: none.
  double balance_loss = 0;
  double switch_loss = 0;
  double z_loss = 0;
  /// How far a step moves the bias of each expert that is added to scores where they are compared. 0: no bias.
  double balance_bias = 0;
};

/// What surrounds a choice of experts.
struct ExpertContext {
  /// One of activation_functions().
  std::string activation;
  double output_deviation = 0;
  /// i32 [batch seq]: tokens of negative targets count neither in the losses of the choice nor in the metric.
  std::optional<Value> targets = std::nullopt;
  /// Name of the metric of how many tokens choose each expert, such as "expert_load.3". Empty: none.
  std::string metric = {};
};

/// Defines the dims "expert" and "shared_ffn", those that there are.
void define_expert_dims(GraphBuilder& builder, const ExpertChoice& choice);

/// Gated feed-forward blocks of a stream [batch seq embed], of which every token uses some. The inner width is the dim
/// "ffn". Parameters: PREFIXgate.weight, which is the router's, PREFIXexperts.gate_proj.weight, up_proj and down_proj,
/// and PREFIXshared_expert.gate_proj.weight and so on. \return [batch seq embed].
[[nodiscard]] Value mix_experts(GraphBuilder& builder, Value x, const std::string& prefix, const ExpertChoice& choice,
                                const ExpertContext& context);

}  // namespace strata::models

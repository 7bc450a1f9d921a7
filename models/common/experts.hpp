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
  /// Weights of the losses balance_loss and z_loss. 0: none.
  double balance_loss = 0;
  double z_loss = 0;
};

/// Defines the dims "expert" and "shared_ffn", those that there are.
void define_expert_dims(GraphBuilder& builder, const ExpertChoice& choice);

/// Gated feed-forward blocks of a stream [batch seq embed], of which every token uses some. The inner width is the dim
/// "ffn". Parameters: PREFIXgate.weight, which is the router's, PREFIXexperts.gate_proj.weight, up_proj and down_proj,
/// and PREFIXshared_expert.gate_proj.weight and so on. `kind`: one of activation_functions(). `targets`: i32 [batch
/// seq], or empty: tokens of negative targets do not count in the losses of the choice. \return [batch seq embed].
[[nodiscard]] Value mix_experts(GraphBuilder& builder, Value x, const std::string& prefix, const ExpertChoice& choice,
                                const std::string& kind, double output_deviation, std::optional<Value> targets);

}  // namespace strata::models

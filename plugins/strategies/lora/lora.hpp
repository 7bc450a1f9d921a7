#pragma once

#include <set>
#include <string>

#include "settings.hpp"
#include "strata/strategy.hpp"

namespace lora {

/// Low-rank adapters (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021). Each product with a
/// chosen parameter W gets the term scale · (x A) B. A and B are trained, and the other parameters are frozen. They may
/// be stored in 8 or 4 bits (Dettmers et al., "QLoRA: Efficient Finetuning of Quantized LLMs", 2023).
class Lora final : public strata::Strategy {
 public:
  explicit Lora(Settings settings) : settings_(std::move(settings)) {}

  void rewrite_forward(strata::Graph& graph, const strata::OpRegistry& registry) const override;
  void rewrite(strata::Graph& graph, const strata::OpRegistry& registry) const override;

 private:
  Settings settings_;
};

}  // namespace lora

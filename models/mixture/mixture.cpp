/// Llama's blocks with experts instead of the feed-forward block.

#include "llama/llama.hpp"
#include "strata/plugin.hpp"

STRATA_PLUGIN(
    model, "mixture", "0.1.0", "Apache-2.0",
    "Mixtures of experts (Mixtral, OLMoE, Qwen3-MoE): Llama's blocks, in which every token uses some experts.",
    llama::KindFactory<llama::Kind::mixture>);

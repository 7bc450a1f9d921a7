#include "strata/plugin.hpp"

#include "llama.hpp"

STRATA_PLUGIN(
    model, "llama", "0.1.0", "Apache-2.0",
    "The Llama family (Llama, Mistral, Qwen, Gemma, Phi, Granite, OLMo and others), by name of size or by fields.",
    llama::KindFactory<llama::Kind::dense>);

#pragma once

#include <string>

#include "matrix/stack.hpp"

namespace strata::testing {

/// \file
/// How the grammar's values are written for the model of a stack.

[[nodiscard]] bool has_model(const Stack& stack, const std::string& plugin);
/// True for models of images.
[[nodiscard]] bool reads_images(const Stack& stack);

/// Blocks of the model. The embedding and the head are blocks too.
[[nodiscard]] int blocks_of_model(const Stack& stack);

/// The option `layers`. A resnet has them in two stages.
[[nodiscard]] std::string layers_of_model(const Stack& stack, const std::string& toml);
/// An option that decoders alone have.
[[nodiscard]] std::string of_decoders(const Stack& stack, const std::string& toml);
/// The option `attention_dropout`, which T5 and resnet lack.
[[nodiscard]] std::string attention_dropout_of_model(const Stack& stack, const std::string& toml);
/// Groups of the optimizer, written by the names of gpt2, for the parameters of the model.
[[nodiscard]] std::string groups_of_model(const Stack& stack, const std::string& toml);
/// Options of lora with patterns for the parameters of the model.
[[nodiscard]] std::string lora_of_model(const Stack& stack, const StrategyChoice& strategy);
/// The option `loss_scale` of precision.
[[nodiscard]] std::string loss_scale_of_model(const Stack& stack, const StrategyChoice& strategy);

/// The lines of [model] with its sizes.
[[nodiscard]] std::string sizes_of_model(const Stack& stack);
/// The lines of [data].
[[nodiscard]] std::string data_of_model(const Stack& stack);

}  // namespace strata::testing

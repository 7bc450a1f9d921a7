#pragma once

#include "strata/device.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// Replaces neighbouring instructions by fewer that do the same with less memory traffic, where the device has the
/// fused kernel: linear and the bias add behind it become linear_bias, with an activation behind that
/// linear_bias_activation; linear and the activation_gradient behind it become linear_activation_gradient; dropout and
/// the residual add behind it become dropout_add; a sum whose terms are computed one after the other becomes terms that
/// add to the first. Runs on whole buffers, before any shares memory with another.
void fuse_instructions(Program& program, const Device& device);

}  // namespace strata::host

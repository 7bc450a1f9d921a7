#pragma once

#include "simulate/instruction_times.hpp"

namespace strata::bench {

/// Makes the backward passes of a program with full recomputation as long as if they repeated every layer whole, as
/// Megatron-LM does. Strata's backward passes repeat neither a layer's last product nor collectives and the products
/// before them. The first kernel of a backward pass takes the time of that work in addition. `without`: the same
/// program without recomputation. Block 0 is the embedding and block `layers` + 1 the head: nobody repeats those.
void repeat_layers_whole(host::TimedPrograms& timed, const host::TimedPrograms& without, int layers);

}  // namespace strata::bench

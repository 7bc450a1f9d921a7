#pragma once

#include <string>

namespace strata::host {

/// A complete configuration with every section and two strategies.
inline const std::string kExample = R"([run]
name = "example"
steps = 300
seed = 7
output = "runs/elsewhere"
checkpoint_every = 100
eval_every = 50
eval_batches = 4
log_every = 2
keep_checkpoints = 5
[model]
plugin = "gpt2"
layers = 6
dropout = 0.1
sizes = [1, 2]

[data]
path = "input.txt"
plugin = "tokens"
allow_changed = true
validation = 0.25

[batch]
global = 64
micro = 8

[optimizer]
plugin = "sgd"
lr = 1
momentum = 0.9
weight_decay = 0.2
clip = 0
schedule = { kind = "warmup_cosine", warmup = 20, warmup_type = "log", min_lr = 1e-4 }

[[optimizer.group]]
parameters = ["*.bias"]
lr_factor = 0.5
weight_decay_factor = 0
frozen = true

[[optimizer.group]]
parameters = ["wte", "wpe"]
plugin = "lion"
betas = [0.8, 0.9]

[device]
plugin = "reference"

[communicator]
plugin = "other"
timeout = 2.5

[[strategy]]
plugin = "pipeline"
size = 2
schedule = "1f1b"

[[strategy]]
plugin = "tensor"
size = 4
sequence_parallel = true

[[library]]
plugin = "my_kernels"
threads = 2
)";

/// The shortest configuration.
inline const std::string kShortest = R"([model]
plugin = "gpt2"
[data]
path = "input.txt"
[batch]
global = 4
)";

}  // namespace strata::host

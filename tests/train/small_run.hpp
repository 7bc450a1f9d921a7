#pragma once

#include <string>

#include "temporary_folder.hpp"

namespace strata::host::test {

/// A text with some structure, long enough for several epochs of a small context.
inline std::string small_text() {
  std::string text;
  for (int i = 0; i < 120; ++i) text += "line " + std::to_string(i * i % 97) + " of the text\n";
  return text;
}

/// A run of a tiny model with dropout, accumulation and clipping, in `folder`.
inline std::string small_configuration(const TemporaryFolder& folder) {
  const std::string data = folder.file("text.txt", small_text()).string();
  return R"([run]
steps = 8
seed = 11
output = ")" +
         (folder.path() / "output").string() + R"("
log_every = 1
[model]
plugin = "gpt2"
layers = 2
heads = 2
embed = 16
context = 8
dropout = 0.1
[data]
path = ")" +
         data +
         R"("
validation = 0.1
[batch]
global = 8
micro = 2
[optimizer]
lr = 1e-2
weight_decay = 0.1
clip = 0.5
schedule = { kind = "warmup_cosine", warmup = 2, min_lr = 1e-3 }
)";
}

/// The override that gives a run `ranks` ranks.
inline std::string ddp(int ranks) { return "strategy=[{plugin=\"ddp\", size=" + std::to_string(ranks) + "}]"; }

}  // namespace strata::host::test

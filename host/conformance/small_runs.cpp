#include "conformance/small_runs.hpp"

namespace strata::host {
namespace {

/// The axes of two strategies of two ranks divide the sizes, also those that deal the sequence in zigzag.
constexpr const char* kGpt = R"(
[model]
plugin = "gpt2"
layers = 2
heads = 4
embed = 16
context = 8
vocab = 16
dropout = 0.1
[data]
plugin = "tokens"
path = "none"
)";

/// The graph of this seed has two streams of different lengths, values that skip blocks and have several later readers
/// in crossed order, a parameter of blocks far apart, an op of its own and several losses. No axis divides all of its
/// sizes.
constexpr const char* kDrawn = R"(
[model]
plugin = "drawn"
seed = 386
layers = 4
heads = 4
embed = 16
context = 8
letters = 5
vocab = 16
dropout = 0.1
[data]
plugin = "drawn_pairs"
)";

constexpr const char* kAround = R"(
[run]
steps = 3
[batch]
global = 16
micro = 2
[optimizer]
plugin = "adamw"
lr = 1e-2
clip = 0.5
[device]
plugin = "reference"
[communicator]
plugin = "local"
timeout = 120
)";

}  // namespace

const std::vector<SmallRun>& small_runs() {
  static const std::vector<SmallRun> kRuns = {{"GPT-2", std::string(kGpt) + kAround},
                                              {"the drawn model", std::string(kDrawn) + kAround}};
  return kRuns;
}

}  // namespace strata::host

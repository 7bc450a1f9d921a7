#include "matrix/drawn_run.hpp"

#include "build_paths.hpp"
#include "matrix/random_stack.hpp"
#include "random_choice.hpp"

namespace strata::testing {
namespace {

constexpr int kMostDrawnRanks = 8;
/// Seconds after which a rank that waits in vain ends a run that hangs. A step takes milliseconds.
constexpr int kHangs = 30;

bool has_stages(const Stack& stack) {
  const std::size_t pipeline = grammar().strategy("pipeline");
  for (const StrategyChoice& each : stack.strategies) {
    if (each.row == pipeline && each.ranks() > 1) return true;
  }
  return false;
}

/// The scaled gradients of a graph with several losses overflow in fp16, on one rank too.
bool overflows(const Stack& stack) {
  const std::size_t precision = grammar().strategy("precision");
  for (const StrategyChoice& each : stack.strategies) {
    if (each.row == precision && each.option("compute") == "\"fp16\"") return true;
  }
  return false;
}

/// The first random stack of this draw that drawn runs can have. The targets of lora are parameters of gpt2 and llama.
Stack draw_stack(RandomChoice& choice) {
  const bool needs_stages = choice.below(3) > 0;
  for (;;) {
    Stack stack = random_stack(choice.below(std::uint64_t{1} << 40));
    if (stack.ranks() > kMostDrawnRanks || stack.has(grammar().strategy("lora"))) continue;
    if (overflows(stack) || (needs_stages && !has_stages(stack))) continue;
    // Groups name parameters of gpt2.
    stack.run[Grammar::option(grammar().run, "optimizer.group")] = 0;
    return stack;
  }
}

}  // namespace

std::string drawn_run(std::uint64_t number) {
  RandomChoice choice(number, "drawn run");
  const Stack stack = draw_stack(choice);
  // The random stacks split as many blocks as this model has besides its embeddings and its head.
  const std::string model =
      "plugin = \"drawn\"\nseed = " + std::to_string(number) + "\nlayers = " + stack.run_option("model.layers") +
      "\nletters = " + std::to_string(3 + choice.below(6)) + "\ndropout = " + (choice.flip() ? "0.1" : "0.0") + "\n";
  std::string toml = to_toml(stack, model, "plugin = \"drawn_pairs\"\n");
  const std::string timeout = "timeout = 120";
  return toml.replace(toml.find(timeout), timeout.size(), "timeout = " + std::to_string(kHangs));
}

std::string drawn_plugin_folder() { return build_path("tests/matrix/graphs"); }

}  // namespace strata::testing

#include "matrix/drawn_run.hpp"

#include <algorithm>

#include "build_paths.hpp"
#include "matrix/model_options.hpp"
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

/// The first random stack of this draw that drawn runs can have. The targets of lora and the rules of layout have names
/// of other models.
Stack draw_stack(RandomChoice& choice) {
  const bool needs_stages = choice.below(3) > 0;
  for (;;) {
    Stack stack = random_stack(choice.below(std::uint64_t{1} << 40));
    if (stack.ranks() > kMostDrawnRanks || stack.has(grammar().strategy("lora"))) continue;
    if (stack.has(grammar().strategy("layout"))) continue;
    if (overflows(stack) || (needs_stages && !has_stages(stack))) continue;
    // The drawn model has as many blocks as a gpt2, and groups name parameters of gpt2.
    stack.run[Grammar::option(grammar().run, "model.plugin")] = 0;
    stack.run[Grammar::option(grammar().run, "optimizer.group")] = 0;
    return stack;
  }
}

/// Lines of [model]. The random stacks split as many blocks as this model has besides its embeddings and its head.
std::string draw_model(std::uint64_t number, const Stack& stack, RandomChoice& choice) {
  return "plugin = \"drawn\"\nseed = " + std::to_string(number) + "\nlayers = " + stack.run_option("model.layers") +
         "\nletters = " + std::to_string(3 + choice.below(6)) + "\ndropout = " + (choice.flip() ? "0.1" : "0.0") +
         "\n" + sizes_of_model(stack);
}

std::string configuration_of(const Stack& stack, const std::string& model) {
  std::string toml = to_toml(stack, model, "plugin = \"drawn_pairs\"\n");
  const std::string timeout = "timeout = 120";
  return toml.replace(toml.find(timeout), timeout.size(), "timeout = " + std::to_string(kHangs));
}

/// A stack that trains as one rank does.
Stack draw_exact_stack(RandomChoice& choice) {
  for (;;) {
    Stack stack = draw_stack(choice);
    if (!stack.has(grammar().strategy("localsgd")) && !stack.has(grammar().strategy("compress"))) return stack;
  }
}

/// A stack of as many sequences per step as `first`, for the same model and optimizer.
Stack draw_other_stack(const Stack& first, RandomChoice& choice) {
  for (;;) {
    Stack other = draw_exact_stack(choice);
    if (other.global_batch() != first.global_batch()) continue;
    for (std::size_t i = 0; i < first.run.size(); ++i) {
      const std::string& name = grammar().run[i].name;
      if (name.starts_with("model.") || name.starts_with("optimizer.")) other.run[i] = first.run[i];
    }
    other.sizes = first.sizes;
    return other;
  }
}

/// The stack of `first` on one rank, in one micro-batch.
std::string alone_of(const Stack& first, const std::string& model) {
  Stack one = first;
  one.strategies.clear();
  std::string toml = configuration_of(one, model);
  const std::string global = "global = " + std::to_string(first.global_batch());
  const std::size_t batch = toml.find("[batch]\n");
  const std::size_t end = toml.find("\n\n", batch);
  return toml.replace(batch, end - batch, "[batch]\n" + global + "\nmicro" + global.substr(global.find(' ')));
}

/// With the strategy that makes a run train in f64, before all others.
std::string in_f64(const std::string& toml) {
  const std::size_t others = std::min(toml.find("\n[[strategy]]"), toml.size());
  return toml.substr(0, others) + "\n[[strategy]]\nplugin = \"exact\"\n" + toml.substr(others);
}

}  // namespace

std::string drawn_run(std::uint64_t number) {
  RandomChoice choice(number, "drawn run");
  const Stack stack = draw_stack(choice);
  return configuration_of(stack, draw_model(number, stack, choice));
}

DrawnResumption drawn_resumption(std::uint64_t number, const std::function<bool(const std::string& toml)>& accepts) {
  RandomChoice choice(number, "drawn resumption");
  for (;;) {
    const Stack first = draw_exact_stack(choice);
    const std::string model = draw_model(number, first, choice);
    const Stack second = draw_other_stack(first, choice);
    if (first.ranks() == 1) continue;
    DrawnResumption drawn{.first = in_f64(configuration_of(first, model)),
                          .second = in_f64(configuration_of(second, model)),
                          .alone = in_f64(alone_of(first, model)),
                          .first_ranks = first.ranks(),
                          .second_ranks = second.ranks(),
                          .global_batch = first.global_batch()};
    if (accepts(drawn.first) && accepts(drawn.second)) return drawn;
  }
}

std::vector<std::filesystem::path> drawn_plugin_folders(const std::filesystem::path& plugins) {
  return {plugins, build_path("lib/strata/testing"), build_path("tests/matrix/graphs")};
}

}  // namespace strata::testing

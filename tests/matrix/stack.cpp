#include "matrix/stack.hpp"

#include <algorithm>
#include <map>

#include "matrix/model_options.hpp"

namespace strata::testing {
namespace {

/// The lines of a section: the run options whose name begins with it.
std::string section_lines(const Stack& stack, const std::string& section) {
  std::string lines;
  for (std::size_t i = 0; i < stack.run.size(); ++i) {
    const OptionRow& row = grammar().run[i];
    if (!row.name.starts_with(section + ".") || row.name == "batch.micro_batches") continue;
    const OptionChoice& choice = row.choices.at(stack.run[i]);
    const std::string value = choice.write_for_run == nullptr ? choice.toml : choice.write_for_run(stack, choice.toml);
    if (value.empty()) continue;
    lines += row.name.substr(section.size() + 1) + " = " + value + "\n";
  }
  return lines;
}

std::string table(const Stack& stack, const StrategyChoice& strategy) {
  const StrategyRow& row = strategy.strategy();
  std::string text = "\n[[strategy]]\nplugin = \"" + row.plugin + "\"\n" + row.fixed;
  if (row.has_buckets) text += section_lines(stack, "buckets");
  for (std::size_t i = 0; i < row.options.size(); ++i) {
    const OptionChoice& choice = row.options[i].choices.at(strategy.choices.at(i));
    text +=
        row.options[i].name + " = " + (choice.write == nullptr ? choice.toml : choice.write(stack, strategy)) + "\n";
  }
  return text;
}

int replicas(const Stack& stack) {
  int product = 1;
  for (const StrategyChoice& each : stack.strategies) product *= each.strategy().splits_batch ? each.ranks() : 1;
  return product;
}

}  // namespace

const std::string& StrategyChoice::option(const std::string& name) const {
  const std::size_t at = Grammar::option(strategy().options, name);
  return strategy().options[at].choices.at(choices.at(at)).toml;
}

int StrategyChoice::ranks() const {
  int product = 1;
  for (std::size_t i = 0; i < choices.size(); ++i) product *= strategy().options[i].choices.at(choices[i]).ranks;
  return product;
}

bool Stack::has(std::size_t row) const {
  return std::any_of(strategies.begin(), strategies.end(),
                     [row](const StrategyChoice& each) { return each.row == row; });
}

const std::string& Stack::run_option(const std::string& name) const {
  const std::size_t at = Grammar::option(grammar().run, name);
  return grammar().run[at].choices.at(run.at(at)).toml;
}

int Stack::ranks() const {
  int product = 1;
  for (const StrategyChoice& each : strategies) product *= each.ranks();
  return product;
}

int Stack::global_batch() const {
  return std::stoi(run_option("batch.micro")) * std::stoi(run_option("batch.micro_batches")) * replicas(*this);
}

Stack plain_stack() {
  Stack stack;
  stack.run.resize(grammar().run.size());
  return stack;
}

StrategyChoice plain_strategy(std::size_t row) {
  return {row, std::vector<std::size_t>(grammar().strategies.at(row).options.size())};
}

std::string to_toml(const Stack& stack) {
  return to_toml(stack, section_lines(stack, "model") + sizes_of_model(stack), data_of_model(stack));
}

std::string to_toml(const Stack& stack, const std::string& model, const std::string& data) {
  std::string text = "[run]\nsteps = 3\n\n[model]\n" + model;
  text += "\n[data]\n" + data + "\n[batch]\nglobal = " + std::to_string(stack.global_batch()) + "\n";
  text += section_lines(stack, "batch");
  text += "\n[optimizer]\n" + section_lines(stack, "optimizer");
  text += "\n[device]\nplugin = \"reference\"\n\n[communicator]\nplugin = \"local\"\ntimeout = 120\n";
  for (const StrategyChoice& each : stack.strategies) text += table(stack, each);
  return text;
}

std::vector<std::size_t> fitting_sizes(const Stack& stack) {
  struct Needed {
    int ranks = 1;
    int multiple = 1;
  };
  std::map<std::string, Needed> divisors;
  for (const StrategyChoice& each : stack.strategies) {
    for (const Divisor& divisor : each.strategy().divides) {
      if (each.ranks() == 1) continue;
      Needed& needed = divisors[divisor.field];
      needed.ranks *= each.ranks();
      needed.multiple = std::max(needed.multiple, divisor.multiple);
    }
  }
  std::vector<std::size_t> fitting;
  for (std::size_t i = 0; i < grammar().sizes.size(); ++i) {
    const bool fits = std::all_of(divisors.begin(), divisors.end(), [&](const auto& divisor) {
      return grammar().sizes[i].field(divisor.first) % (divisor.second.ranks * divisor.second.multiple) == 0;
    });
    if (fits) fitting.push_back(i);
  }
  return fitting;
}

}  // namespace strata::testing

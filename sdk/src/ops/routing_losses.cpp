#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/row_op.hpp"

/// \file
/// Losses that keep the choice of experts useful, and the load of experts.

namespace strata::ops {
namespace {

/// False if there are targets and that of `row` is negative.
bool counts(const Launch& launch, std::int64_t row) {
  const std::size_t last = launch.op().operands.size() - 1;
  return launch.op().operands[last].dtype != DType::i32 || launch.operand(last)[row] >= 0;
}

/// OpDescription::iterate of a loss of whole sequences: all dims but the first are whole.
void keep_sequences_whole(IterationSpace& space, const Node& /*node*/) {
  space.whole.insert(space.operands[0].begin() + 1, space.operands[0].end());
}

void require_weight(const Node& node) { require(node.attributes.number("weight") >= 0, node, "weight is at least 0"); }

Types infer_balance(const Types& types, const Node& node) {
  require_rows(types[0], node);
  require(types[0].dims.size() >= 2, node, "the scores have a dim of sequences and one of experts");
  require_dims(types[1], types[0].dims, node);
  require_weight(node);
  return {types[0]};
}

/// The experts of one sequence: scores' sums and how often each expert is chosen, times their number.
class Balance {
 public:
  Balance(const Launch& launch, std::int64_t sequence)
      : launch_(launch), scores_(launch.operand(0)), width_(columns(launch.op().operands[0])) {
    const std::int64_t tokens = rows(launch.op().operands[0]) / launch.op().operands[0].shape[0];
    first_ = sequence * tokens;
    end_ = first_ + tokens;
    load_.resize(static_cast<std::size_t>(width_));
    const Reader gates = launch.operand(1);
    double chosen = 0;
    for (std::int64_t i = first_ * width_; i < end_ * width_; ++i) {
      const double is_chosen = gates[i] != 0 && counts(launch, i / width_) ? 1 : 0;
      load_[static_cast<std::size_t>(i % width_)] += is_chosen;
      chosen += is_chosen;
    }
    for (double& load : load_) load *= static_cast<double>(width_) / std::max(chosen, 1.0);
  }

  /// Calls body(token, sum of the token's scores, mean load of its experts by score) for tokens that count.
  template <class Body>
  void each_token(const Body& body) const {
    for (std::int64_t token = first_; token < end_; ++token) {
      if (!counts(launch_, token)) continue;
      double sum = 0;
      double weighted = 0;
      for (std::int64_t j = 0; j < width_; ++j) {
        const double score = scores_[token * width_ + j];
        sum += score;
        weighted += score * load(j);
      }
      body(token, sum, weighted / sum);
    }
  }
  [[nodiscard]] double load(std::int64_t expert) const { return load_[static_cast<std::size_t>(expert)]; }
  [[nodiscard]] std::int64_t width() const { return width_; }

 private:
  const Launch& launch_;
  Reader scores_;
  std::int64_t width_;
  std::int64_t first_ = 0;
  std::int64_t end_ = 0;
  std::vector<double> load_;
};

Work prepare_balance_loss(const OpInstance& op) {
  return [weight = op.attributes.number("weight"), count = op.operands[0].shape[0]](const Launch& launch) {
    double total = 0;
    for (std::int64_t sequence = 0; sequence < count; ++sequence) {
      Balance(launch, sequence).each_token([&](std::int64_t /*token*/, double /*sum*/, double mean) { total += mean; });
    }
    launch.result(0).set(0, weight * total);
  };
}

Work prepare_balance_loss_gradient(const OpInstance& op) {
  return [weight = op.attributes.number("weight"), count = op.operands[0].shape[0]](const Launch& launch) {
    for (std::int64_t i = 0; i < elements(launch.op().results[0]); ++i) launch.result(0).set(i, 0);
    for (std::int64_t sequence = 0; sequence < count; ++sequence) {
      const Balance balance(launch, sequence);
      balance.each_token([&](std::int64_t token, double sum, double mean) {
        for (std::int64_t j = 0; j < balance.width(); ++j) {
          launch.result(0).set(token * balance.width() + j, weight * (balance.load(j) - mean) / sum);
        }
      });
    }
  };
}

Work prepare_z_loss(const OpInstance& op) {
  return [weight = op.attributes.number("weight"), count = rows(op.operands[0]),
          width = columns(op.operands[0])](const Launch& launch) {
    double total = 0;
    for (std::int64_t row = 0; row < count; ++row) {
      if (!counts(launch, row)) continue;
      const Exponentials exponentials(launch.operand(0), row * width, width);
      const double z = exponentials.largest + std::log(exponentials.sum);
      total += z * z;
    }
    launch.result(0).set(0, weight * total);
  };
}

void z_loss_gradient_row(const Launch& launch, std::int64_t first, std::int64_t width) {
  const Exponentials exponentials(launch.operand(0), first, width);
  const double z = exponentials.largest + std::log(exponentials.sum);
  const double factor = counts(launch, first / width) ? 2 * launch.op().attributes.number("weight") * z : 0;
  for (std::int64_t j = 0; j < width; ++j) launch.result(0).set(first + j, factor * exponentials.probability(j));
}

Work prepare_count_choices(const OpInstance& op) {
  return [count = rows(op.operands[0]), width = columns(op.operands[0])](const Launch& launch) {
    for (std::int64_t j = 0; j < width; ++j) {
      double chosen = 0;
      for (std::int64_t row = 0; row < count; ++row) {
        if (counts(launch, row) && launch.operand(0)[row * width + j] != 0) ++chosen;
      }
      launch.result(0).set(j, chosen);
    }
  };
}

/// In whole numbers, so that the sum of any parts of a batch is that of the batch.
Work prepare_load_deficit(const OpInstance& op) {
  return [count = rows(op.operands[0]), width = columns(op.operands[0]),
          k = op.attributes.integer("k")](const Launch& launch) {
    for (std::int64_t j = 0; j < width; ++j) {
      std::int64_t load = 0;
      for (std::int64_t row = 0; row < count; ++row) load += launch.operand(0)[row * width + j] != 0 ? 1 : 0;
      launch.result(0).set(j, static_cast<double>(k * count - width * load));
    }
  };
}

/// The loss of an op whose gradient ops read its operands.
GradientRule loss_rule(const std::string& gradient) {
  return [gradient](GradientContext& context) {
    const Node& node = context.node();
    context.contribute(0, context.emit(0, gradient, node.operands, node.attributes)[0]);
  };
}

Types infer_total(const Types& types, const Node& node) {
  require_rows(types[0], node);
  require_weight(node);
  if (types.size() == 2) infer_balance(types, node);
  return {{{}, DType::f64}};
}

void add_losses(Registration& registration) {
  add_op(
      registration,
      {.name = "balance_loss",
       .documentation =
           "scores [batch …  E], gates [batch …  E], targets [batch …] i32 or nothing -> [] f64: weight · E · Σ over "
           "tokens and experts of the share of the sequence's choices that the expert has, times the token's score "
           "divided by the sum of its scores (attribute weight); weight · 1 a token if all experts are chosen alike. "
           "Tokens of negative targets do not count. DeepSeek-AI, \"DeepSeek-V3\", 2024.",
       .operands = 2,
       .takes_targets = true,
       .infer = infer_total,
       .gradient = loss_rule("balance_loss_gradient"),
       .iterate = keep_sequences_whole,
       .chooses = 1});
  add_op(registration, {.name = "balance_loss_gradient",
                        .documentation = "the operands of balance_loss -> dscores [batch …  E].",
                        .operands = 2,
                        .takes_targets = true,
                        .infer = infer_balance,
                        .iterate = keep_sequences_whole});
  add_op(registration,
         {.name = "z_loss",
          .documentation = "x […  E], targets […] i32 or nothing -> [] f64: weight · Σ over rows of the square of "
                           "ln Σ exp(x) (attribute weight), which keeps scores small. Rows of negative targets do not "
                           "count. Zoph et al., \"ST-MoE\", 2022.",
          .takes_targets = true,
          .infer = infer_total,
          .precision = OperandPrecision::any,
          .gradient = loss_rule("z_loss_gradient"),
          .iterate = keep_rows_whole});
  add_op(registration, {.name = "z_loss_gradient",
                        .documentation = "the operands of z_loss -> dx […  E].",
                        .takes_targets = true,
                        .infer = [](const Types& types, const Node& node) -> Types {
                          require_rows(types[0], node);
                          require_weight(node);
                          return {types[0]};
                        },
                        .iterate = keep_rows_whole});
}

void add_load(Registration& registration) {
  add_op(
      registration,
      {.name = "count_choices",
       .documentation = "gates […  E], targets […] i32 or nothing -> [E] f64: how many gates of each column are not 0. "
                        "Rows of negative targets do not count.",
       .takes_targets = true,
       .infer = [](const Types& types, const Node& node) -> Types {
         require_rows(types[0], node);
         return {{{types[0].dims.back()}, DType::f64}};
       },
       // The gradient is zero.
       .gradient = [](GradientContext& /*context*/) {},
       .iterate = keep_rows_whole,
       .chooses = 0});
  add_op(registration,
         {.name = "load_deficit",
          .documentation = "gates […  E] of which k of each row are not 0 -> [E] (attribute k): the mean number "
                           "of these in a column less that in this column, times E. Above 0 for an expert that "
                           "few tokens choose.",
          .infer = [](const Types& types, const Node& node) -> Types {
            require_rows(types[0], node);
            require(node.attributes.integer("k") >= 1, node, "k is at least 1");
            return {{{types[0].dims.back()}, statistic_type(types[0].dtype)}};
          },
          .iterate = keep_rows_whole});
}

}  // namespace

void register_routing_losses(Registration& registration) {
  add_losses(registration);
  add_load(registration);
  registration.add(reference::kernel({"load_deficit", "r", "r", prepare_load_deficit}));
  for (const std::string targets : {"", "i"}) {
    registration.add(reference::kernel({"count_choices", "r" + targets, "d", prepare_count_choices}));
    registration.add(reference::kernel({"balance_loss", "rr" + targets, "d", prepare_balance_loss}));
    registration.add(reference::kernel({"balance_loss_gradient", "rr" + targets, "r", prepare_balance_loss_gradient}));
    registration.add(reference::kernel({"z_loss", "r" + targets, "d", prepare_z_loss}));
    registration.add(reference::kernel({"z_loss_gradient", "r" + targets, "r", prepare_rows<z_loss_gradient_row>}));
  }
}

}  // namespace strata::ops

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "low_rank.hpp"
#include "strata/error.hpp"

namespace compress {

using namespace strata;

namespace {

/// Number of elements that a rank chooses from a piece of `elements`.
std::int64_t chosen_of(const TopK& method, std::int64_t elements) {
  const auto chosen = static_cast<std::int64_t>(std::ceil(method.density * static_cast<double>(elements)));
  return std::clamp<std::int64_t>(chosen, 1, elements);
}

/// Emits the exchange of one parameter.
class Choice {
 public:
  Choice(const TopK& method, ReductionContext& context)
      : context_(context),
        chosen_(chosen_of(method, context.elements())),
        workers_(context.mesh().size(context.axes())) {}

  void emit() {
    const BufferId error = context_.add_state({.name = kError, .is_of_worker = true});
    const BufferId sum = add("sum", context_.dtype(), context_.elements());
    const BufferId indices = add("indices", DType::i32, chosen_);
    const BufferId values = add("values", context_.dtype(), chosen_);
    op(kAddError, {context_.gradient(), error, context_.unit()}, {sum});
    op(kSelect, {sum}, {indices, values});
    const BufferId all_indices = gather(indices, "indices", DType::i32);
    const BufferId all_values = gather(values, "values", context_.dtype());
    op(kScatter, {all_indices, all_values, context_.unit()}, {context_.gradient()});
    context_.emit_after(context_.flat(kTopStates, "compression states", {sum, context_.scale(), indices}, {error}, {}));
  }

 private:
  BufferId add(const std::string& name, DType dtype, std::int64_t elements) {
    return context_.add_flat(context_.label() + " " + name, dtype, elements);
  }

  void op(const char* name, std::vector<BufferId> operands, std::vector<BufferId> results) {
    context_.emit(context_.flat(name, name, std::move(operands), std::move(results), {}));
  }

  BufferId gather(BufferId own, const std::string& name, DType dtype) {
    const BufferId all = add(name + " of all workers", dtype, workers_ * chosen_);
    const std::string label = context_.label() + " " + name + " all_gather " + join(context_.axes(), "+");
    context_.emit({.name = label,
                   .work = Collective{.kind = CollectiveKind::all_gather,
                                      .axes = context_.axes(),
                                      .id = context_.communication_id(label)},
                   .inputs = {own},
                   .outputs = {all}});
    return all;
  }

  ReductionContext& context_;
  std::int64_t chosen_;
  std::int64_t workers_;
};

}  // namespace

bool shrinks(const TopK& method, const ParameterDescription& /*parameter*/, std::int64_t piece, int workers) {
  return workers * chosen_of(method, piece) < piece;
}

void emit_reduction(const TopK& method, ReductionContext& context) {
  if (context.elements() > std::numeric_limits<std::int32_t>::max()) {
    throw ConfigurationError("found a piece of " + std::to_string(context.elements()) + " elements of parameter '" +
                             context.parameter()->name + "'; topk accepts pieces of up to 2147483647");
  }
  Choice(method, context).emit();
}

void define_reduction(const TopK& method, DefinedGradient& gradient) {
  for (std::size_t w = 0; w < gradient.shares.size(); ++w) {
    std::vector<double>& error = gradient.states["error of worker " + std::to_string(w)];
    error.resize(gradient.gradient.size());
    for (std::size_t i = 0; i < error.size(); ++i) error[i] += gradient.shares[w][i];
    for (const DefinedPiece& piece : gradient.pieces) {
      std::vector<std::int64_t> order = piece.elements;
      const auto magnitude = [&](std::int64_t i) { return compared(std::abs(error[static_cast<std::size_t>(i)])); };
      std::stable_sort(order.begin(), order.end(),
                       [&](std::int64_t a, std::int64_t b) { return magnitude(a) > magnitude(b); });
      const std::int64_t chosen = chosen_of(method, piece.size);
      if (static_cast<std::int64_t>(order.size()) > chosen) order.resize(static_cast<std::size_t>(chosen));
      for (const std::int64_t i : order) {
        const auto at = static_cast<std::size_t>(i);
        gradient.gradient[at] += error[at];
        error[at] = 0;
      }
    }
  }
}

}  // namespace compress

#include "power_sgd.hpp"

#include <string>
#include <utility>

#include "exchange_ops.hpp"

namespace compress {

using namespace strata;

namespace {

/// Emits the exchange of one parameter.
class Reduction {
 public:
  Reduction(const PowerSgd& method, ReductionContext& context)
      : context_(context),
        parameter_(*context.parameter()),
        sides_(matrix_sides(parameter_)),
        rank_(method.rank),
        attributes_(matrix_attributes(parameter_)) {
    attributes_.set("rank", rank_);
    attributes_.set("parameter", parameter_.name);
  }

  void emit() {
    const BufferId error = context_.add_state({.name = kError, .is_of_worker = true});
    const BufferId basis = context_.add_state({.name = kBasis, .dims = basis_dims()});
    const std::int64_t left_size = rank_ * element_count(parameter_, sides_.rows);
    const std::int64_t right_size = rank_ * element_count(parameter_, sides_.columns);
    const BufferId matrix = add("matrix", context_.elements());
    const BufferId left = add("P", left_size);
    const BufferId orthonormal = add("orthonormal P", left_size);
    const BufferId own = add("own Q", right_size);
    const BufferId right = add("Q", right_size);
    op(kAddError, {context_.gradient(), error, context_.unit()}, {matrix});
    op(kLeft, {matrix, basis}, {left});
    context_.sum_over_pieces(left, "P");
    sum_over_workers(left, "P");
    op(kOrthonormal, {left}, {orthonormal});
    op(kRight, {matrix, orthonormal}, {own});
    context_.sum_over_pieces(own, "Q");
    context_.emit(weighted_sum(context_.label() + " Q", {{1, own}}, right));
    sum_over_workers(right, "Q");
    op(kProduct, {orthonormal, right, context_.unit()}, {context_.gradient()});
    context_.emit_after(context_.flat(kPowerStates, "compression states",
                                      {matrix, context_.scale(), orthonormal, own, right}, {error, basis},
                                      attributes_));
  }

 private:
  [[nodiscard]] std::vector<std::pair<Dim, std::int64_t>> basis_dims() const {
    std::vector<std::pair<Dim, std::int64_t>> dims{{"rank", rank_}};
    for (const Dim& dim : sides_.columns) dims.emplace_back(dim, element_count(parameter_, {dim}));
    return dims;
  }

  BufferId add(const std::string& name, std::int64_t elements) {
    return context_.add_flat(context_.label() + " " + name, context_.dtype(), elements);
  }

  void op(const char* name, std::vector<BufferId> operands, std::vector<BufferId> results) {
    context_.emit(context_.flat(name, name, std::move(operands), std::move(results), attributes_));
  }

  void sum_over_workers(BufferId buffer, const std::string& name) {
    const std::string label = context_.label() + " " + name + " all_reduce " + join(context_.axes(), "+");
    context_.emit({.name = label,
                   .work = Collective{.kind = CollectiveKind::all_reduce,
                                      .axes = context_.axes(),
                                      .id = context_.communication_id(label)},
                   .inputs = {buffer},
                   .outputs = {buffer}});
  }

  ReductionContext& context_;
  const ParameterDescription& parameter_;
  MatrixSides sides_;
  std::int64_t rank_;
  Attributes attributes_;
};

}  // namespace

std::int64_t element_count(const ParameterDescription& parameter, const Dims& dims) {
  std::int64_t count = 1;
  for (const Dim& dim : dims) {
    count *= parameter.shape.at(static_cast<std::size_t>(find_dim(parameter.dims, dim)));
  }
  return count;
}

bool shrinks(const PowerSgd& method, const ParameterDescription& parameter, std::int64_t piece) {
  const MatrixSides sides = matrix_sides(parameter);
  return method.rank * (element_count(parameter, sides.rows) + element_count(parameter, sides.columns)) < piece;
}

void emit_reduction(const PowerSgd& method, ReductionContext& context) { Reduction(method, context).emit(); }

}  // namespace compress

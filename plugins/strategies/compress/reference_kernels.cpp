#include <vector>

#include "low_rank.hpp"
#include "strata/reference_kernel.hpp"

namespace compress {

using namespace strata;
using reference::Launch;
using reference::Reader;
using reference::Work;
using reference::Writer;

namespace {

std::vector<double> read(const Launch& launch, std::size_t operand) {
  std::vector<double> values(static_cast<std::size_t>(reference::elements(launch.op().operands[operand])));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = launch.operand(operand)[static_cast<std::int64_t>(i)];
  }
  return values;
}

void write(const Launch& launch, std::size_t result, const std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    launch.result(result).overwrite(static_cast<std::int64_t>(i), values[i]);
  }
}

Work prepare_add_error(const OpInstance& op) {
  return [count = reference::elements(op.results[0])](const Launch& launch) {
    const double unit = launch.operand(2)[0];
    for (std::int64_t i = 0; i < count; ++i) {
      launch.result(0).overwrite(i, unit * launch.operand(0)[i] + launch.operand(1)[i]);
    }
  };
}

Work prepare_left(const OpInstance& op) {
  return [op, piece = MatrixPiece(op), rank = op.attributes.integer("rank")](const Launch& launch) {
    const Side rows = row_side(piece);
    const Side columns = column_side(piece);
    std::vector<double> basis(static_cast<std::size_t>(rank * columns.size));
    begin_basis(launch.operand(1), columns.size, rank, op.attributes.word("parameter"), basis.data());
    std::vector<double> p(static_cast<std::size_t>(rank * rows.size));
    add_product(piece.runs(), 0, piece.runs().size(), read(launch, 0).data(), basis.data(), columns, rank, p.data(),
                rows);
    write(launch, 0, p);
  };
}

Work prepare_orthonormal(const OpInstance& op) {
  const std::int64_t rank = op.attributes.integer("rank");
  return [rank, size = reference::elements(op.results[0]) / rank](const Launch& launch) {
    std::vector<double> p = read(launch, 0);
    orthonormalize(p.data(), size, rank);
    write(launch, 0, p);
  };
}

Work prepare_right(const OpInstance& op) {
  return [piece = MatrixPiece(op), rank = op.attributes.integer("rank")](const Launch& launch) {
    const Side columns = column_side(piece);
    std::vector<double> q(static_cast<std::size_t>(rank * columns.size));
    add_product(piece.runs(), 0, piece.runs().size(), read(launch, 0).data(), read(launch, 1).data(), row_side(piece),
                rank, q.data(), columns);
    write(launch, 0, q);
  };
}

Work prepare_product(const OpInstance& op) {
  return [piece = MatrixPiece(op), rank = op.attributes.integer("rank"),
          count = reference::elements(op.results[0])](const Launch& launch) {
    const Writer gradient = launch.result(0);
    const double inverse = inverse_unit(launch.operand(2)[0]);
    visit_product(piece, 0, piece.runs().size(), read(launch, 0).data(), read(launch, 1).data(), rank,
                  [&](std::int64_t i, double value) { gradient.overwrite(i, inverse * value); });
    for (std::int64_t i = padding_begin(piece); i < count; ++i) gradient.overwrite(i, 0);
  };
}

Work prepare_power_states(const OpInstance& op) {
  return [piece = MatrixPiece(op), rank = op.attributes.integer("rank")](const Launch& launch) {
    if (!takes_step(launch.operand(1)[0])) return;
    const Reader matrix = launch.operand(0);
    const Writer error = launch.result(0);
    visit_product(piece, 0, piece.runs().size(), read(launch, 2).data(), read(launch, 3).data(), rank,
                  [&](std::int64_t i, double value) { error.overwrite(i, matrix[i] - value); });
    write(launch, 1, read(launch, 4));
  };
}

Work prepare_select(const OpInstance& op) {
  return [chosen = reference::elements(op.results[0])](const Launch& launch) {
    const std::vector<double> values = read(launch, 0);
    std::vector<double> magnitudes(values.size());
    std::vector<std::int32_t> indices(static_cast<std::size_t>(chosen));
    choose_largest(values.data(), static_cast<std::int64_t>(values.size()), chosen, magnitudes.data(), indices.data());
    for (std::int64_t i = 0; i < chosen; ++i) {
      const std::int32_t index = indices[static_cast<std::size_t>(i)];
      launch.result(0).overwrite(i, index);
      launch.result(1).overwrite(i, values[static_cast<std::size_t>(index)]);
    }
  };
}

Work prepare_scatter(const OpInstance& op) {
  return
      [count = reference::elements(op.operands[0]), size = reference::elements(op.results[0])](const Launch& launch) {
        const double inverse = inverse_unit(launch.operand(2)[0]);
        std::vector<double> gradient(static_cast<std::size_t>(size));
        for (std::int64_t i = 0; i < count; ++i) {
          gradient.at(static_cast<std::size_t>(launch.operand(0)[i])) += inverse * launch.operand(1)[i];
        }
        write(launch, 0, gradient);
      };
}

Work prepare_top_states(const OpInstance& /*op*/) {
  return [](const Launch& launch) {
    if (!takes_step(launch.operand(1)[0])) return;
    std::vector<double> error = read(launch, 0);
    for (const double index : read(launch, 2)) error.at(static_cast<std::size_t>(index)) = 0;
    write(launch, 0, error);
  };
}

}  // namespace

void register_reference_kernels(Registration& registration) {
  const auto add = [&](const char* op, const char* operands, const char* results, Work (*prepare)(const OpInstance&)) {
    registration.add(reference::kernel({op, operands, results, prepare, false}));
  };
  add(kAddError, "rsd", "s", prepare_add_error);
  add(kLeft, "ss", "s", prepare_left);
  add(kOrthonormal, "s", "s", prepare_orthonormal);
  add(kRight, "ss", "s", prepare_right);
  add(kProduct, "ssd", "r", prepare_product);
  add(kPowerStates, "sdsss", "ss", prepare_power_states);
  add(kSelect, "s", "is", prepare_select);
  add(kScatter, "isd", "r", prepare_scatter);
  add(kTopStates, "sdi", "s", prepare_top_states);
}

}  // namespace compress

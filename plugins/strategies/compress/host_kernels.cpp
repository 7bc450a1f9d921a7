#include <memory>

#include "low_rank.hpp"
#include "strata/half.hpp"
#include "strata/kernel_tools.hpp"

namespace compress {

using namespace strata;

namespace {

using kernels::elements;
using kernels::in;
using kernels::out;

/// Calls function(reader of one element) for a gradient in f32, bf16 or f16.
template <class Function>
void with_gradient(DType type, const void* gradient, const Function& function) {
  if (type == DType::f32) {
    return function([from = static_cast<const float*>(gradient)](std::int64_t i) { return from[i]; });
  }
  const auto* bits = static_cast<const std::uint16_t*>(gradient);
  if (type == DType::bf16) return function([bits](std::int64_t i) { return from_bf16(bits[i]); });
  function([bits](std::int64_t i) { return from_f16(bits[i]); });
}

/// Calls function(writer of one element) for a gradient in f32, bf16 or f16.
template <class Function>
void with_written_gradient(DType type, void* gradient, const Function& function) {
  if (type == DType::f32) {
    return function([to = static_cast<float*>(gradient)](std::int64_t i, float value) { to[i] = value; });
  }
  auto* bits = static_cast<std::uint16_t*>(gradient);
  if (type == DType::bf16) return function([bits](std::int64_t i, float value) { bits[i] = to_bf16(value); });
  function([bits](std::int64_t i, float value) { bits[i] = to_f16(value); });
}

PreparedKernel prepare_add_error(const OpInstance& op, const KernelEnvironment& environment) {
  return {[type = op.operands[0].dtype, count = elements(op.results[0]),
           threads = environment.threads()](const KernelArguments& arguments) {
    const auto unit = static_cast<float>(*in<double>(arguments, 2));
    const auto* error = in<float>(arguments, 1);
    auto* sum = out<float>(arguments, 0);
    with_gradient(type, arguments.operands[0], [&](const auto& gradient) {
      kernels::parallel_ranges(threads, count, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) sum[i] = unit * gradient(i) + error[i];
      });
    });
  }};
}

/// The product of the matrix with a factor of one side, summed in blocks whose sums are then added in order.
class BlockedProduct {
 public:
  BlockedProduct(const OpInstance& op, bool to_rows)
      : blocks_(op),
        rank_(op.attributes.integer("rank")),
        to_(to_rows ? row_side(blocks_.piece()) : column_side(blocks_.piece())),
        from_(to_rows ? column_side(blocks_.piece()) : row_side(blocks_.piece())) {}

  [[nodiscard]] std::int64_t rank() const { return rank_; }
  [[nodiscard]] const Side& from() const { return from_; }
  /// Elements of the sums of all blocks.
  [[nodiscard]] std::int64_t partial_elements() const { return blocks_.count() * rank_ * to_.size; }

  void run(int threads, const float* matrix, const float* factor, float* partial, float* result) const {
    const std::int64_t size = rank_ * to_.size;
    blocks_.for_each(threads, [&](std::int64_t block, std::size_t begin, std::size_t end) {
      float* const sums = partial + block * size;
      std::fill_n(sums, size, 0.0F);
      add_product(blocks_.piece().runs(), begin, end, matrix, factor, from_, rank_, sums, to_);
    });
    kernels::parallel_ranges(
        threads, size,
        [&](std::int64_t begin, std::int64_t end) {
          std::copy(partial + begin, partial + end, result + begin);
          for (std::int64_t block = 1; block < blocks_.count(); ++block) {
            for (std::int64_t i = begin; i < end; ++i) result[i] += partial[block * size + i];
          }
        },
        blocks_.count());
  }

 private:
  MatrixBlocks blocks_;
  std::int64_t rank_;
  Side to_;
  Side from_;
};

PreparedKernel prepare_left(const OpInstance& op, const KernelEnvironment& environment) {
  const auto product = std::make_shared<BlockedProduct>(op, true);
  kernels::WorkspacePlan workspace;
  const std::int64_t basis_at = workspace.reserve(elements(op.operands[1]) * std::int64_t{sizeof(float)});
  const std::int64_t partial_at = workspace.reserve(product->partial_elements() * std::int64_t{sizeof(float)});
  const LaunchFunction launch = [=, parameter = op.attributes.word("parameter"),
                                 threads = environment.threads()](const KernelArguments& arguments) {
    auto* const basis = kernels::workspace_at<float>(arguments, basis_at);
    begin_basis(in<float>(arguments, 1), product->from().size, product->rank(), parameter, basis);
    product->run(threads, in<float>(arguments, 0), basis, kernels::workspace_at<float>(arguments, partial_at),
                 out<float>(arguments, 0));
  };
  return {launch, workspace.bytes()};
}

PreparedKernel prepare_right(const OpInstance& op, const KernelEnvironment& environment) {
  const auto product = std::make_shared<BlockedProduct>(op, false);
  const LaunchFunction launch = [product, threads = environment.threads()](const KernelArguments& arguments) {
    product->run(threads, in<float>(arguments, 0), in<float>(arguments, 1), static_cast<float*>(arguments.workspace),
                 out<float>(arguments, 0));
  };
  return {launch, product->partial_elements() * std::int64_t{sizeof(float)}};
}

PreparedKernel prepare_orthonormal(const OpInstance& op, const KernelEnvironment& /*environment*/) {
  const std::int64_t rank = op.attributes.integer("rank");
  const std::int64_t count = elements(op.results[0]);
  const LaunchFunction launch = [rank, count](const KernelArguments& arguments) {
    auto* const p = static_cast<double*>(arguments.workspace);
    std::copy_n(in<float>(arguments, 0), count, p);
    orthonormalize(p, count / rank, rank);
    std::transform(p, p + count, out<float>(arguments, 0), [](double value) { return static_cast<float>(value); });
  };
  return {launch, count * std::int64_t{sizeof(double)}};
}

PreparedKernel prepare_product(const OpInstance& op, const KernelEnvironment& environment) {
  const auto blocks = std::make_shared<MatrixBlocks>(op);
  return {[blocks, rank = op.attributes.integer("rank"), type = op.results[0].dtype, count = elements(op.results[0]),
           threads = environment.threads()](const KernelArguments& arguments) {
    const auto inverse = static_cast<float>(inverse_unit(*in<double>(arguments, 2)));
    with_written_gradient(type, arguments.results[0], [&](const auto& write) {
      blocks->for_each(threads, [&](std::int64_t /*block*/, std::size_t begin, std::size_t end) {
        visit_product(blocks->piece(), begin, end, in<float>(arguments, 0), in<float>(arguments, 1), rank,
                      [&](std::int64_t i, float value) { write(i, inverse * value); });
      });
      for (std::int64_t i = padding_begin(blocks->piece()); i < count; ++i) write(i, 0.0F);
    });
  }};
}

PreparedKernel prepare_power_states(const OpInstance& op, const KernelEnvironment& environment) {
  const auto blocks = std::make_shared<MatrixBlocks>(op);
  return {[blocks, rank = op.attributes.integer("rank"), basis = elements(op.results[1]),
           threads = environment.threads()](const KernelArguments& arguments) {
    if (!takes_step(*in<double>(arguments, 1))) return;
    const auto* matrix = in<float>(arguments, 0);
    auto* error = out<float>(arguments, 0);
    blocks->for_each(threads, [&](std::int64_t /*block*/, std::size_t begin, std::size_t end) {
      visit_product(blocks->piece(), begin, end, in<float>(arguments, 2), in<float>(arguments, 3), rank,
                    [&](std::int64_t i, float value) { error[i] = matrix[i] - value; });
    });
    std::copy_n(in<float>(arguments, 4), basis, out<float>(arguments, 1));
  }};
}

PreparedKernel prepare_select(const OpInstance& op, const KernelEnvironment& /*environment*/) {
  const std::int64_t count = elements(op.operands[0]);
  const LaunchFunction launch = [count, chosen = elements(op.results[0])](const KernelArguments& arguments) {
    const auto* values = in<float>(arguments, 0);
    auto* const indices = out<std::int32_t>(arguments, 0);
    choose_largest(values, count, chosen, static_cast<float*>(arguments.workspace), indices);
    for (std::int64_t i = 0; i < chosen; ++i) out<float>(arguments, 1)[i] = values[indices[i]];
  };
  return {launch, count * std::int64_t{sizeof(float)}};
}

PreparedKernel prepare_scatter(const OpInstance& op, const KernelEnvironment& /*environment*/) {
  const std::int64_t size = elements(op.results[0]);
  const LaunchFunction launch = [size, count = elements(op.operands[0]),
                                 type = op.results[0].dtype](const KernelArguments& arguments) {
    const auto inverse = static_cast<float>(inverse_unit(*in<double>(arguments, 2)));
    auto* const sums = static_cast<float*>(arguments.workspace);
    std::fill_n(sums, size, 0.0F);
    for (std::int64_t i = 0; i < count; ++i) sums[in<std::int32_t>(arguments, 0)[i]] += in<float>(arguments, 1)[i];
    with_written_gradient(type, arguments.results[0], [&](const auto& write) {
      for (std::int64_t i = 0; i < size; ++i) write(i, inverse * sums[i]);
    });
  };
  return {launch, size * std::int64_t{sizeof(float)}};
}

PreparedKernel prepare_top_states(const OpInstance& op, const KernelEnvironment& /*environment*/) {
  return {[size = elements(op.results[0]), count = elements(op.operands[2])](const KernelArguments& arguments) {
    if (!takes_step(*in<double>(arguments, 1))) return;
    auto* const error = out<float>(arguments, 0);
    std::copy_n(in<float>(arguments, 0), size, error);
    for (std::int64_t i = 0; i < count; ++i) error[in<std::int32_t>(arguments, 2)[i]] = 0;
  }};
}

}  // namespace

void register_host_kernels(Registration& registration) {
  registration.add({.op = kAddError, .signature = {"rfd", "f"}, .prepare = prepare_add_error});
  registration.add({.op = kLeft, .signature = {"ff", "f"}, .prepare = prepare_left});
  registration.add({.op = kOrthonormal, .signature = {"f", "f"}, .prepare = prepare_orthonormal});
  registration.add({.op = kRight, .signature = {"ff", "f"}, .prepare = prepare_right});
  registration.add({.op = kProduct, .signature = {"ffd", "r"}, .prepare = prepare_product});
  registration.add({.op = kPowerStates, .signature = {"fdfff", "ff"}, .prepare = prepare_power_states});
  registration.add({.op = kSelect, .signature = {"f", "if"}, .prepare = prepare_select});
  registration.add({.op = kScatter, .signature = {"ifd", "r"}, .prepare = prepare_scatter});
  registration.add({.op = kTopStates, .signature = {"fdi", "f"}, .prepare = prepare_top_states});
}

}  // namespace compress

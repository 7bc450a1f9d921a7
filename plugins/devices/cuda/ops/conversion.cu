#include "device/runtime.hpp"
#include "kernels/elementwise.cuh"
#include "ops/conversion.hpp"
#include "ops/map_elements.hpp"
#include "ops/operations.hpp"

namespace strata::cuda {

void launch_convert(Stream stream, std::int64_t size, ConstTypedElements from, TypedElements to) {
  with_element(from.dtype, [&]<class From>() {
    with_element(to.dtype, [&]<class To>() {
      launch_map(stream, size, Identity{}, static_cast<To*>(to.data), static_cast<const From*>(from.data));
    });
  });
}

void launch_accumulate(Stream stream, std::int64_t size, ConstTypedElements from, TypedElements to) {
  with_element(from.dtype, [&]<class From>() {
    with_element(to.dtype, [&]<class To>() {
      launch_map_onto(stream, size, Identity{}, static_cast<To*>(to.data), static_cast<const From*>(from.data));
    });
  });
}

PreparedOp prepare_cast(const OpInstance& op, const Environment& /*environment*/) {
  return {
      [size = elements(op.results[0]), from = op.operands[0].dtype, to = op.results[0].dtype,
       launch = op.accumulate ? launch_accumulate : launch_convert](const KernelArguments& arguments, Stream stream) {
        launch(stream, size, {from, arguments.operands[0]}, {to, arguments.results[0]});
      }};
}

PreparedOp prepare_accumulate(const OpInstance& op, const Environment& /*environment*/) {
  return {[size = elements(op.results[0]), from = op.operands[0].dtype, to = op.results[0].dtype](
              const KernelArguments& arguments, Stream stream) {
    launch_accumulate(stream, size, {from, arguments.operands[0]}, {to, arguments.results[0]});
  }};
}

PreparedOp prepare_fill_zero(const OpInstance& op, const Environment& /*environment*/) {
  return {[size = bytes(op.results[0])](const KernelArguments& arguments, Stream stream) {
    runtime::fill_zero(stream, arguments.results[0], size);
  }};
}

}  // namespace strata::cuda

#include "compiler/parameters/optimizer_states.hpp"

#include <algorithm>
#include <utility>

namespace strata::host {
namespace {

/// `names`: dims of the parameter.
std::vector<ShardedDim> whole_dims(const StoredParameter& parameter, const Dims& names) {
  std::vector<ShardedDim> dims;
  for (const Dim& name : names) {
    const auto found = std::find_if(parameter.dims.begin(), parameter.dims.end(),
                                    [&](const ShardedDim& each) { return each.dim == name; });
    dims.push_back({name, found->global_size, {}, false});
  }
  return dims;
}

}  // namespace

std::vector<BufferId> add_optimizer_states(ProgramBuilder& builder, const Bucket& bucket,
                                           const std::vector<OptimizerState>& states) {
  const StoredParameter& first = builder.program().parameters[bucket.parameters.front()];
  std::vector<BufferId> buffers;
  if (bucket.has_master()) buffers.push_back(add_optimizer_state(builder, bucket, kMasterState));
  for (const OptimizerState& state : states) {
    buffers.push_back(state.dims ? add_whole_state(builder, bucket, state.name, whole_dims(first, *state.dims))
                                 : add_optimizer_state(builder, bucket, state.name));
  }
  return buffers;
}

BufferId add_whole_state(ProgramBuilder& builder, const Bucket& bucket, const std::string& name,
                         std::vector<ShardedDim> dims) {
  StoredParameter& parameter = builder.program().parameters[bucket.parameters.front()];
  Dims names;
  Shape shape;
  for (const ShardedDim& dim : dims) {
    names.push_back(dim.dim);
    shape.push_back(dim.global_size);
  }
  const BufferId buffer = builder.add_buffer(parameter.name + "." + name, BufferKind::optimizer, full_type(bucket),
                                             names, std::move(shape), true);
  parameter.states[name] = buffer;
  parameter.state_dims[name] = std::move(dims);
  return buffer;
}

BufferId add_optimizer_state(ProgramBuilder& builder, const Bucket& bucket, const std::string& name) {
  const DType type = full_type(bucket);
  const BufferId flat =
      builder.add_flat(bucket.name + "." + name, BufferKind::optimizer, type, bucket.piece_elements(), true);
  put_buffer(builder, flat, bucket, bucket.storage.states_place);
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    StoredParameter& parameter = builder.program().parameters[bucket.parameters[i]];
    if (bucket.stores_pieces()) {
      parameter.states[name] = flat;
      continue;
    }
    const Buffer value = builder.buffer(parameter.value);
    const BufferId view =
        builder.add_buffer(parameter.name + "." + name, BufferKind::optimizer, type, value.dims, value.shape, true);
    builder.make_view(view, flat, bucket.offsets[i]);
    put_buffer(builder, view, bucket, bucket.storage.states_place);
    parameter.states[name] = view;
  }
  return flat;
}

}  // namespace strata::host

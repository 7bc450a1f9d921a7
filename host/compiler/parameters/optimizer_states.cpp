#include "compiler/parameters/optimizer_states.hpp"

namespace strata::host {

std::vector<BufferId> add_optimizer_states(ProgramBuilder& builder, const Bucket& bucket,
                                           const std::vector<std::string>& states) {
  std::vector<std::string> names = states;
  if (size_of(bucket.type) < size_of(DType::f32)) names.insert(names.begin(), kMasterState);
  std::vector<BufferId> pieces;
  pieces.reserve(names.size());
  for (const std::string& name : names) pieces.push_back(add_optimizer_state(builder, bucket, name));
  return pieces;
}

BufferId add_optimizer_state(ProgramBuilder& builder, const Bucket& bucket, const std::string& name) {
  const DType type = bucket.type == DType::f64 ? DType::f64 : DType::f32;
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

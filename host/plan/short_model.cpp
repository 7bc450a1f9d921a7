#include "plan/short_model.hpp"

#include "loading/plugin_call.hpp"

namespace strata::host {

std::shared_ptr<const BuiltModel> build_model(const CompileRequest& request, std::int64_t samples) {
  const Stack stack = make_stack(request.strategies);
  auto built = std::make_shared<BuiltModel>();
  built->graph.sizes = request.sizes;
  built->graph.sizes["batch"] = samples;
  GraphBuilder builder(built->graph, *request.registry, request.mode, request.float_type);
  call_plugin(request.model_origin, "build", [&] { request.model->build(builder); });
  built->alike = find_alike_blocks(built->graph, *request.registry, stack.rules);
  return built;
}

}  // namespace strata::host

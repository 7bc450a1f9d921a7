#include "communicator/worlds.hpp"

#include "nccl/fake_gpu_runtime.hpp"
#include "nccl/fake_nccl.hpp"
#include "nccl/world.hpp"
#include "world.hpp"

namespace strata::testing {

std::string to_string(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::host:
      return "host";
    case DeviceKind::streams:
      return "streams";
    case DeviceKind::nccl:
      return "nccl";
  }
  return "";
}

std::unique_ptr<World> make_world(DeviceKind kind, int count, double timeout) {
  if (kind != DeviceKind::nccl) return std::make_unique<local::LocalWorld>(count, timeout);
  nccl::BackendLoader loader{"host threads", [] {
                               return nccl::Backend{std::make_shared<FakeNccl>(), std::make_shared<FakeGpuRuntime>()};
                             }};
  return std::make_unique<nccl::NcclWorld>(std::move(loader), count, nccl::Timeouts{timeout, timeout});
}

}  // namespace strata::testing

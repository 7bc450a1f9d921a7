#include <memory>

#include "conformance/checks.hpp"
#include "conformance/device_cases.hpp"
#include "conformance/proved_stacks.hpp"
#include "setup/run_setup.hpp"

namespace strata::host {
namespace {

/// A run's setup and the device of its first rank.
struct DeviceUnderTest {
  RunSetup setup;
  std::unique_ptr<Device> device;

  explicit DeviceUnderTest(Subject& subject) : setup(prepare(subject.configuration(), subject.plugins())) {
    try {
      device = setup.make_device(0, 1);
    } catch (const ConfigurationError& error) {
      throw CheckSkipped(std::string("this machine lacks what it needs: ") + error.what());
    }
  }
};

}  // namespace

std::string check_device_memory(Subject& subject) {
  const DeviceUnderTest under_test(subject);
  try_memory(*under_test.device);
  try_copies(*under_test.device);
  try_streams(*under_test.device);
  return under_test.device->description();
}

std::string check_device_reductions(Subject& subject) {
  try_reductions(*DeviceUnderTest(subject).device);
  return "";
}

std::string check_device_stacks(Subject& subject) {
  static_cast<void>(DeviceUnderTest(subject));
  return prove_with_every_strategy(subject, false);
}

}  // namespace strata::host

// The requests that a rank waits for before it accesses memory that communication uses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/requests_in_flight.hpp"

namespace strata::host {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class NamedRequest final : public Request {
 public:
  NamedRequest(std::string name, std::vector<std::string>& waits) : name_(std::move(name)), waits_(waits) {}
  void wait() override { waits_.push_back(name_); }

 private:
  std::string name_;
  std::vector<std::string>& waits_;
};

/// Communicators of plugins may throw anything.
class ForeignRequest final : public Request {
 public:
  void wait() override { throw 42; }
};

class RequestsInFlightTest : public ::testing::Test {
 protected:
  void start(const std::string& name, bool is_collective, std::int64_t instance) {
    requests_.add(std::make_unique<NamedRequest>(name, waits_), is_collective, {range(instance)});
  }
  static ByteRange range(std::int64_t instance) { return {instance, 0, 8}; }

  std::vector<std::string> waits_;
  RequestsInFlight requests_;
};

/// Collectives of different groups may run concurrently, so that a later one may end first.
TEST_F(RequestsInFlightTest, WaitsForEachCollectiveBeforeTheOneThatIsNeeded) {
  start("gradients over dp", true, 1);
  start("message", false, 2);
  start("activations over tp", true, 3);
  start("later gradients", true, 4);
  requests_.wait(range(3));
  EXPECT_THAT(waits_, ElementsAre("gradients over dp", "activations over tp"));
  requests_.wait(range(1));
  EXPECT_EQ(waits_.size(), 2U) << "it is waited for";
  requests_.wait(range(2));
  EXPECT_THAT(waits_, ElementsAre("gradients over dp", "activations over tp", "message"));
  requests_.wait_for_all();
  EXPECT_EQ(waits_.back(), "later gradients");
}

TEST_F(RequestsInFlightTest, DrainsWhateverARequestThrows) {
  requests_.add(std::make_unique<ForeignRequest>(), true, {range(1)});
  start("later", true, 2);
  requests_.drain();
  EXPECT_THAT(waits_, ElementsAre("later"));
}

}  // namespace
}  // namespace strata::host

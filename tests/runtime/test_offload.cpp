#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <numeric>

#include "compiler/memory/memory_plan.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/program/program_builder.hpp"
#include "runtime/executor.hpp"
#include "runtime/rank_threads.hpp"
#include "runtime/toy_device.hpp"
#include "runtime/toy_program.hpp"
#include "runtime/transfer_engine.hpp"
#include "strata/error.hpp"
#include "train/temporary_folder.hpp"
#include "world.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using strata::testing::HostDevice;
using strata::testing::StreamDevice;
using strata::testing::ToyBaseNames;
using strata::testing::ToyBases;
using strata::testing::ToyDevice;
using strata::testing::ToyProgram;
using test::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

class NoInput final : public InputSource {
 public:
  void load(const InputPart& part, std::uint64_t /*step*/) override {
    throw RuntimeError("no input '" + part.name + "'");
  }
};

/// Numbers outside of the device. Every step adds the learning rate to them.
struct Counters {
  explicit Counters(MemoryPlace place, std::int64_t elements, int ranks = 1) : toy(Mesh({{"dp", ranks}})) {
    home = toy.buffer("home", DType::f64, {elements}, true);
    toy.program.buffers.back().place = place;
    const BufferId before = toy.buffer("before", DType::f64, {elements});
    const BufferId after = toy.buffer("after", DType::f64, {elements});
    toy.task("update", {-1}, Task::Kind::epilogue).instructions = {
        transfer(home, before, "home to the device"),
        ToyProgram::compute("affine", "add", before, after, {{"factor", 1.0}, {"offset", 0.0}}),
        transfer(after, home, "home from the device")};
    insert_waits(toy.program);
  }

  ToyProgram toy;
  BufferId home = -1;
};

template <class Base>
class OffloadOn : public ::testing::Test {};

TYPED_TEST_SUITE(OffloadOn, ToyBases, ToyBaseNames);

TYPED_TEST(OffloadOn, StepsWorkOnWhatLiesOutside) {
  const test::TemporaryFolder folder;
  constexpr std::int64_t kElements = 700'000;  // more than the staging memory
  for (const MemoryPlace place : {MemoryPlace::host, MemoryPlace::file}) {
    const Counters counters(place, kElements);
    const MemoryPlan plan = plan_memory(counters.toy.program);
    verify_memory(counters.toy.program, OpRegistry(), plan);
    ToyDevice<TypeParam> device;
    local::LocalWorld world(1, 60);
    const auto communicator = world.connect(0, device);
    const auto offload = make_offload_memory(plan.offload, folder.path());
    Executor executor(counters.toy.program, plan, 0, 1, device, *communicator,
                      std::make_shared<Arena>(device, plan.arena_bytes), offload);
    std::vector<double> values(kElements);
    std::iota(values.begin(), values.end(), 0);
    executor.write(counters.home, values.data());
    NoInput none;
    for (std::uint64_t step = 0; step < 3; ++step) (void)executor.run(step, 0.5, none);
    std::vector<double> found(kElements);
    executor.read(counters.home, found.data());
    for (double& value : values) value += 1.5;
    EXPECT_EQ(found, values);
    double one = 0;
    executor.read({counters.home, kElements - 1, 1}, &one);
    EXPECT_EQ(one, values.back());
    EXPECT_EQ(offload->peak(), plan.offload);
    EXPECT_EQ(executor.arena().peak_bytes(), plan.arena_bytes);
    EXPECT_TRUE(fs::is_empty(folder.path())) << "the file has no name";
  }
}

TYPED_TEST(OffloadOn, TransfersRunInOrderAndEndBeforeTheEngine) {
  OffloadMemory memory({2 * 4096, 0}, "");
  ToyDevice<TypeParam> device;
  const auto arena = device.allocate(4096);
  auto* bytes = static_cast<std::byte*>(arena.get());
  const std::string name = "hop";
  memory.host()[0] = std::byte{7};
  {
    TransferEngine engine(device, memory);
    std::vector<std::unique_ptr<Request>> requests;
    for (int i = 0; i < 300; ++i) {  // more than the queue holds
      requests.push_back(engine.start({true, bytes, MemoryPlace::host, 0, 4096, &name}));
      requests.push_back(engine.start({false, bytes, MemoryPlace::host, 4096, 4096, &name}));
    }
    requests.clear();  // not waited for
  }
  EXPECT_EQ(memory.host()[4096], std::byte{7});
}

TEST(Offload, AProgramNeedsItsMemory) {
  const Counters counters(MemoryPlace::file, 10);
  const MemoryPlan plan = plan_memory(counters.toy.program);
  EXPECT_EQ(plan.offload, (OffloadBytes{0, 80}));
  ToyDevice<HostDevice> device;
  local::LocalWorld world(1, 60);
  const auto communicator = world.connect(0, device);
  EXPECT_THAT(message_of<VerificationError>([&] {
                Executor executor(counters.toy.program, plan, 0, 1, device, *communicator,
                                  std::make_shared<Arena>(device, plan.arena_bytes));
              }),
              HasSubstr("a file of 0 bytes for a program of 80"));
}

/// Limits the size of files for the lifetime of the object.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST(OffloadFaults, ADirectoryThatCannotBeIsNamed) {
  const test::TemporaryFolder folder;
  const fs::path below = folder.file("file", "text") / "directory";
  EXPECT_THAT(message_of<RuntimeError>([&] { OffloadFile file(below, 100); }),
              AllOf(HasSubstr("offload directory '" + below.string() + "'"), HasSubstr("Not a directory")));
  EXPECT_THAT(message_of<RuntimeError>([&] { OffloadFile file("/proc", 100); }),
              HasSubstr("offload directory '/proc': no file can be created there"));
}

TEST(OffloadFaults, ADiskThatIsTooSmallIsNoticedBeforeItIsFull) {
  const test::TemporaryFolder folder;
  constexpr std::int64_t kTooMuch = std::int64_t{1} << 60U;
  EXPECT_THAT(message_of<RuntimeError>([&] { OffloadFile file(folder.path(), kTooMuch); }),
              AllOf(HasSubstr("has no room for " + std::to_string(kTooMuch) + " bytes, "),
                    HasSubstr("are free: No space left on device")));
  const FileSizeLimit limit(1 << 20);
  EXPECT_THAT(message_of<RuntimeError>([&] { OffloadFile file(folder.path(), (1 << 20) + 1); }),
              HasSubstr("has no room for 1048577 bytes, a file may have 1048576: File too large"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(OffloadFaults, HostMemoryThatIsNotThereIsNamed) {
  constexpr std::int64_t kTooMuch = std::int64_t{1} << 60U;
  EXPECT_THAT(message_of<RuntimeError>([&] {
                OffloadMemory memory({kTooMuch, 0}, "");
              }),
              HasSubstr("no " + std::to_string(kTooMuch) + " bytes of host memory to offload to: Cannot allocate"));
}

/// Truncates every nameless file of this process in `directory`.
void cut_nameless_files(const fs::path& directory) {
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = fs::read_symlink(entry.path(), gone);
    if (target.starts_with(directory.string()) && target.ends_with("(deleted)")) {
      ASSERT_EQ(::ftruncate(std::stoi(entry.path().filename()), 0), 0);
    }
  }
}

/// Two ranks run a step. Then `harm` is applied to rank 1, and both try another step. \return the run's error.
std::string error_after(const fs::path& directory, const std::function<void()>& harm) {
  const Counters counters(MemoryPlace::file, 1000, 2);
  Program program = counters.toy.program;
  ToyProgram toy(program.mesh);
  const MemoryPlan plan = plan_memory(program);
  local::LocalWorld world(2, 60);
  return message_of<RuntimeError>([&] {
    run_rank_threads(
        world, [](int) { return std::make_shared<ToyDevice<StreamDevice>>(); },
        [&](Device& device, Communicator& communicator) {
          const bool harmed = communicator.rank() == 1;
          const auto offload = make_offload_memory(plan.offload, directory / std::to_string(communicator.rank()));
          Executor executor(program, plan, communicator.rank(), 1, device, communicator,
                            std::make_shared<Arena>(device, plan.arena_bytes), offload);
          NoInput none;
          (void)executor.run(0, 0.5, none);
          if (harmed) harm();
          (void)executor.run(1, 0.5, none);
        });
  });
}

TEST(OffloadFaults, AReadThatFailsEndsTheRunWithItsCause) {
  const test::TemporaryFolder folder;
  const std::string error = error_after(folder.path(), [&] { cut_nameless_files(folder.path() / "1"); });
  EXPECT_THAT(error, AllOf(HasSubstr("rank 1, step 2, task 'update'"),
                           HasSubstr("transfer 'home to the device' of 8000 bytes: offload directory '" +
                                     (folder.path() / "1").string() + "': its file ends at byte 0")));
}

TEST(OffloadFaults, AWriteThatFailsEndsTheRunWithItsCause) {
  const test::TemporaryFolder folder;
  std::optional<FileSizeLimit> limit;
  const Counters counters(MemoryPlace::file, 1000);
  const MemoryPlan plan = plan_memory(counters.toy.program);
  ToyDevice<HostDevice> device;
  local::LocalWorld world(1, 60);
  const auto communicator = world.connect(0, device);
  Executor executor(counters.toy.program, plan, 0, 1, device, *communicator,
                    std::make_shared<Arena>(device, plan.arena_bytes),
                    make_offload_memory(plan.offload, folder.path()));
  NoInput none;
  (void)executor.run(0, 0.5, none);
  limit.emplace(4096);
  EXPECT_THAT(message_of<RuntimeError>([&] { (void)executor.run(1, 0.5, none); }),
              AllOf(HasSubstr("rank 0, step 2, its end: transfer 'home from the device' of 8000 bytes"),
                    HasSubstr("its file cannot be written at byte 4096: File too large")));
}

}  // namespace
}  // namespace strata::host

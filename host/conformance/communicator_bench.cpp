#include "conformance/communicator_bench.hpp"

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "conformance/check.hpp"
#include "runtime/element.hpp"
#include "setup/launched_process.hpp"
#include "strata/error.hpp"
#include "verify/graph_evaluator.hpp"

namespace strata::host {

namespace {

constexpr std::chrono::minutes kPatience{1};
constexpr std::chrono::milliseconds kPause{2};
/// Separates the errors of ranks in one text.
constexpr char kSeparator = '\x1e';

/// Runs `work` as one rank. \return the message that it threw.
std::string run_rank(const CommunicatorBench& bench, World& world, int rank, const RankWork& work) {
  std::shared_ptr<Device> device;
  std::unique_ptr<Communicator> communicator;
  try {
    device = bench.make_device(rank, world);
    communicator = world.connect(rank, *device);
    if (communicator == nullptr) throw CheckFailed("connect() returns nothing (a null pointer)");
    work(*communicator, *device);
    device->synchronize(StreamKind::compute);
    communicator->check();
    return {};
  } catch (const AbortedError& aborted) {
    return std::string("aborted: ") + aborted.what();
  } catch (...) {
    const std::string error = current_exception_text();
    if (communicator) communicator->abort(error);
    return error;
  }
}

/// Runs the ranks of this process.
void run_local_ranks(const CommunicatorBench& bench, World& world, const RankWork& work,
                     std::vector<std::string>& errors) {
  if (world.rank_count() != static_cast<int>(errors.size())) {
    throw CheckFailed("a world for " + std::to_string(errors.size()) + " ranks has " +
                      std::to_string(world.rank_count()) + " ranks");
  }
  std::vector<std::thread> threads;
  for (const int rank : world.local_ranks()) {
    threads.emplace_back([&, rank] { errors[static_cast<std::size_t>(rank)] = run_rank(bench, world, rank, work); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

std::vector<std::string> run_ranks(const CommunicatorBench& bench, int ranks, const RankWork& work) {
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  if (std::unique_ptr<World> world = bench.make_world(ranks)) run_local_ranks(bench, *world, work, errors);
  return bench.gather ? bench.gather(errors) : errors;
}

void require_no_error(const std::vector<std::string>& errors, const std::string& what) {
  std::string fault;
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    const bool is_consequence = errors[rank].starts_with("aborted: ");
    if (errors[rank].empty() || (is_consequence && !fault.empty())) continue;
    fault = what + ", rank " + std::to_string(rank) + ": " + errors[rank];
    if (!is_consequence) break;
  }
  if (!fault.empty()) throw CheckFailed(fault);
}

std::vector<int> all_ranks(int count) {
  std::vector<int> ranks;
  for (int rank = 0; rank < count; ++rank) ranks.push_back(rank);
  return ranks;
}

DeviceNumbers::DeviceNumbers(Device& device, DType dtype, std::int64_t elements)
    : device_(device), dtype_(dtype), elements_(elements), memory_(device.allocate(bytes())) {}

DeviceNumbers::~DeviceNumbers() {
  try {
    device_.synchronize(StreamKind::compute);
  } catch (...) {
    // Then nothing is copied any more. The rank's own error says why.
  }
}

void DeviceNumbers::set(const std::vector<double>& values) {
  staging_ = device_.allocate_host(bytes());
  for (std::int64_t i = 0; i < elements_; ++i) {
    store_element(dtype_, staging_.get(), i, values.at(static_cast<std::size_t>(i)));
  }
  if (elements_ > 0) device_.copy_from_host(StreamKind::compute, data(), staging_.get(), bytes());
}

std::vector<double> DeviceNumbers::get() const {
  if (elements_ == 0) return {};
  return download(device_, data(), dtype_, elements_);
}

Noticeboard::Noticeboard(std::filesystem::path folder, int process, int count)
    : folder_(std::move(folder)), process_(process), count_(count) {}

std::filesystem::path Noticeboard::place(int call, int process) const {
  return folder_ / (std::to_string(call) + "." + std::to_string(process));
}

std::vector<std::string> Noticeboard::all_gather(const std::string& text) {
  const int call = calls_++;
  const std::filesystem::path own = place(call, process_);
  const std::filesystem::path unfinished = own.string() + ".unfinished";
  std::ofstream(unfinished, std::ios::binary) << text;
  std::filesystem::rename(unfinished, own);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  std::vector<std::string> texts;
  for (int process = 0; process < count_; ++process) {
    const std::filesystem::path notice = place(call, process);
    while (!std::filesystem::exists(notice)) {
      if (std::chrono::steady_clock::now() >= deadline) {
        throw RuntimeError("process " + std::to_string(process) + " of the test has not come to its step " +
                           std::to_string(call));
      }
      std::this_thread::sleep_for(kPause);
    }
    std::ifstream file(notice, std::ios::binary);
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return texts;
}

void become_rank(Noticeboard& board, int ranks) {
  const std::string port = board.from_first(board.process() == 0 ? free_port() : "");
  const std::string rank = std::to_string(board.process());
  const std::string count = std::to_string(ranks);
  for (const auto& [name, value] :
       {std::pair("RANK", rank), std::pair("LOCAL_RANK", rank), std::pair("WORLD_SIZE", count),
        std::pair("LOCAL_WORLD_SIZE", count), std::pair("MASTER_ADDR", std::string("127.0.0.1")),
        std::pair("MASTER_PORT", port), std::pair("STRATA_PORT", port),
        std::pair("STRATA_SECRET", "secret of a test at port " + port)}) {
    ::setenv(name, value.c_str(), 1);
  }
}

std::vector<std::string> gather_errors(Noticeboard& board, const std::vector<std::string>& errors) {
  std::string own;
  for (const std::string& error : errors) own += error + kSeparator;
  std::vector<std::string> joined(errors.size());
  for (const std::string& text : board.all_gather(own)) {
    std::size_t begin = 0;
    for (std::string& error : joined) {
      const std::size_t end = text.find(kSeparator, begin);
      if (error.empty()) error = text.substr(begin, end - begin);
      begin = end + 1;
    }
  }
  return joined;
}

}  // namespace strata::host

#include "conformance/noticeboard.hpp"

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "setup/launched_process.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

constexpr std::chrono::minutes kPatience{1};
constexpr std::chrono::milliseconds kPause{2};
/// Separates the errors of ranks in one text.
constexpr char kSeparator = '\x1e';

}  // namespace

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

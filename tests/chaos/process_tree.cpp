#include "chaos/process_tree.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "train/temporary_folder.hpp"

namespace strata::testing::chaos {
namespace {

namespace fs = std::filesystem;
using host::test::read_file;

/// Words that zeros separate, as in /proc/ID/environ.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, '\0');) words.push_back(word);
  return words;
}

int rank_in(const std::vector<std::string>& environment) {
  for (const std::string_view name : {"RANK=", "OMPI_COMM_WORLD_RANK=", "PMI_RANK="}) {
    for (const std::string& each : environment) {
      if (each.starts_with(name)) return std::stoi(each.substr(name.size()));
    }
  }
  return -1;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Turns the child into the command. Uses only functions that are allowed between fork and exec.
[[noreturn]] void become(char* const* words, char* const* environment, int output, int network) {
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::setsid();
  // nohup, which may have started this program, ignores it.
  std::signal(SIGHUP, SIG_DFL);
  const bool placed = network < 0 || ::setns(network, CLONE_NEWNET) == 0;
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  if (placed) ::execvpe(words[0], words, environment);
  ::_exit(127);
}

}  // namespace

ProcessTree::~ProcessTree() {
  send_all(SIGKILL);
  reap();
}

std::vector<RunningProcess> ProcessTree::running() {
  std::vector<RunningProcess> found;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    if (!std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; })) continue;
    // A process that has ended, but that nobody has waited for, has an empty environment.
    const std::vector<std::string> environment = words_of(read_file(entry.path() / "environ"));
    if (std::find(environment.begin(), environment.end(), mark()) == environment.end()) continue;
    found.push_back({static_cast<pid_t>(std::stoi(name)), rank_in(environment)});
    seen_.insert(found.back().id);
  }
  return found;
}

bool ProcessTree::has_ranks() {
  const std::vector<RunningProcess> processes = running();
  return std::any_of(processes.begin(), processes.end(), [](const RunningProcess& each) { return each.rank >= 0; });
}

std::string ProcessTree::list() {
  std::string text;
  for (const RunningProcess& process : running()) {
    const fs::path folder = fs::path("/proc") / std::to_string(process.id);
    text += std::to_string(process.id) + " (rank " + std::to_string(process.rank) + ")";
    for (const std::string& word : words_of(read_file(folder / "cmdline"))) text += " " + word;
    text += "\n  waits in " + read_file(folder / "wchan") + "\n";
  }
  return text;
}

void ProcessTree::send_all(int signal) {
  for (const RunningProcess& process : running()) ::kill(process.id, signal);
}

void ProcessTree::reap() {
  std::erase_if(seen_, [](pid_t id) { return ::waitpid(id, nullptr, WNOHANG) != 0; });
}

bool catches(pid_t process, int signal) {
  const std::string status = read_file(fs::path("/proc") / std::to_string(process) / "status");
  constexpr std::string_view kCaught = "\nSigCgt:\t";
  const std::size_t at = status.find(kCaught);
  if (at == std::string::npos) return false;
  const std::uint64_t caught = std::strtoull(status.c_str() + at + kCaught.size(), nullptr, 16);
  return ((caught >> static_cast<unsigned>(signal - 1)) & 1U) != 0;
}

std::string CommandEnd::text() const {
  return signal != 0 ? "signal " + std::to_string(signal) : "exit code " + std::to_string(code);
}

Command::Command(std::vector<std::string> words, const CommandPlace& place) {
  const int output = ::open(place.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
  std::vector<std::string> environment = place.environment;
  for (char** each = environ; *each != nullptr; ++each) environment.emplace_back(*each);
  const std::vector<char*> word_pointers = pointers_to(words);
  const std::vector<char*> environment_pointers = pointers_to(environment);
  id_ = ::fork();
  if (id_ == 0) become(word_pointers.data(), environment_pointers.data(), output, place.network);
  ::close(output);
  if (id_ < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
}

Command::~Command() {
  if (poll()) return;
  ::kill(id_, SIGKILL);
  ::waitpid(id_, nullptr, 0);
}

const std::optional<CommandEnd>& Command::poll() {
  int status = 0;
  if (end_ || ::waitpid(id_, &status, WNOHANG) != id_) return end_;
  end_ = CommandEnd{WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0};
  return end_;
}

}  // namespace strata::testing::chaos

#include "process_environment.hpp"

#include <charconv>
#include <cstdlib>
#include <limits>

#include "slurm_hosts.hpp"
#include "strata/error.hpp"

namespace strata::rendezvous {
namespace {

constexpr std::size_t kShortestSecret = 16;
constexpr int kHighestPort = 65535;

ConfigurationError wrong(const std::string& name, const std::string& found, const std::string& accepted) {
  return ConfigurationError(name + ": found " + found + "; accepted: " + accepted);
}

class Variables {
 public:
  explicit Variables(const Lookup& lookup) : lookup_(lookup) {}

  [[nodiscard]] bool has(const char* name) const { return lookup_(name).has_value(); }
  [[nodiscard]] std::optional<std::string> find(const char* name) const { return lookup_(name); }

  [[nodiscard]] std::string text(const char* name, const std::string& accepted) const {
    const auto value = lookup_(name);
    if (!value || value->empty()) throw wrong(name, "nothing", accepted);
    return *value;
  }

  [[nodiscard]] int number(const char* name, int least, int most) const {
    std::string accepted = "an integer of at least " + std::to_string(least);
    if (most < std::numeric_limits<int>::max()) accepted += " and at most " + std::to_string(most);
    const std::string value = text(name, accepted);
    int result = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (error != std::errc() || end != value.data() + value.size() || result < least || result > most) {
      throw wrong(name, "'" + value + "'", accepted);
    }
    return result;
  }

 private:
  const Lookup& lookup_;
};

constexpr int kAny = std::numeric_limits<int>::max();

std::uint16_t find_port(const Variables& variables) {
  if (variables.has("STRATA_PORT")) return static_cast<std::uint16_t>(variables.number("STRATA_PORT", 1, kHighestPort));
  if (!variables.has("MASTER_PORT") && variables.has("SLURM_JOB_ID")) {
    // The job's number makes ports of different jobs on one machine differ.
    return static_cast<std::uint16_t>(20000 + variables.number("SLURM_JOB_ID", 0, kAny) % 10000);
  }
  // The agent of torchrun itself listens on MASTER_PORT, so use the next port.
  const bool agent_listens = variables.find("TORCHELASTIC_USE_AGENT_STORE") == "True";
  const int port = variables.number("MASTER_PORT", 1, agent_listens ? kHighestPort - 1 : kHighestPort);
  return static_cast<std::uint16_t>(agent_listens ? port + 1 : port);
}

std::string find_secret(const Variables& variables) {
  const std::string accepted =
      "the same random text of " + std::to_string(kShortestSecret) +
      " characters or more on all ranks, as from: export STRATA_SECRET=$(openssl rand -hex 32)";
  std::string secret = variables.text("STRATA_SECRET", accepted);
  if (secret.size() < kShortestSecret) {
    throw wrong("STRATA_SECRET", "a text of " + std::to_string(secret.size()) + " characters", accepted);
  }
  return secret;
}

/// The variables in which a launcher says who a process is.
struct Launcher {
  const char* rank;
  const char* count;
  const char* local_rank;
};

constexpr Launcher kLaunchers[] = {{"RANK", "WORLD_SIZE", "LOCAL_RANK"},
                                   {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
                                   {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"}};
constexpr Launcher kSlurm{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"};

/// The launcher of this process, or null. Slurm comes last, because mpirun starts its daemons as tasks of a job step,
/// and the ranks inherit the daemons' variables.
const Launcher* find_launcher(const Variables& variables) {
  for (const Launcher& each : kLaunchers) {
    if (variables.has(each.rank) || variables.has(each.count)) return &each;
  }
  // SLURM_PROCID is also set in batch scripts, but only tasks of a job step are ranks.
  return variables.has(kSlurm.rank) && variables.has("SLURM_STEP_ID") ? &kSlurm : nullptr;
}

std::string find_address(const Variables& variables) {
  if (!variables.has("MASTER_ADDR")) {
    // A step may run on some hosts of its job only.
    for (const char* hosts : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
      if (variables.has(hosts)) return first_slurm_host(*variables.find(hosts));
    }
  }
  return variables.text("MASTER_ADDR", "the host of rank 0");
}

ProcessEnvironment read_numbers(const Variables& variables, const Launcher& launcher) {
  const auto [rank, count, local] = launcher;
  ProcessEnvironment environment;
  environment.rank_count = variables.number(count, 1, kAny);
  environment.rank = variables.number(rank, 0, kAny);
  if (environment.rank >= environment.rank_count) {
    throw wrong(rank, std::to_string(environment.rank),
                "less than " + std::string(count) + ", which is " + std::to_string(environment.rank_count));
  }
  if (variables.has(local)) environment.local_rank = variables.number(local, 0, environment.rank_count - 1);
  return environment;
}

}  // namespace

std::optional<ProcessEnvironment> read_process_environment(const Lookup& lookup) {
  const Variables variables(lookup);
  const Launcher* launcher = find_launcher(variables);
  if (launcher == nullptr) return std::nullopt;
  ProcessEnvironment environment = read_numbers(variables, *launcher);
  if (environment.rank_count == 1) return std::nullopt;
  environment.address = find_address(variables);
  environment.port = find_port(variables);
  environment.secret = find_secret(variables);
  return environment;
}

std::optional<std::string> environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace strata::rendezvous

#include "process_environment.hpp"

#include <charconv>
#include <cstdlib>
#include <limits>

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

/// Whether srun started this process. mpirun starts its daemons with srun, and the ranks inherit the daemons'
/// variables, so those of mpirun are looked for first. `srun --mpi=pmi2` sets PMI_RANK, but not MPI_LOCALRANKID as
/// Hydra does.
bool is_started_by_srun(const Variables& variables) {
  // SLURM_PROCID is also set in batch scripts, but only tasks of a job step are ranks.
  if (!variables.has(kSlurm.rank) || !variables.has("SLURM_STEP_ID")) return false;
  for (const char* other : {"RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID"}) {
    if (variables.has(other)) return false;
  }
  return !variables.has("PMI_RANK") || variables.find("PMI_RANK") == variables.find(kSlurm.rank);
}

/// The launcher of this process, or null.
const Launcher* find_launcher(const Variables& variables) {
  if (is_started_by_srun(variables)) return &kSlurm;
  for (const Launcher& each : kLaunchers) {
    if (variables.has(each.rank) || variables.has(each.count)) return &each;
  }
  return nullptr;
}

std::string find_address(const Variables& variables, const Launcher& launcher) {
  if (!variables.has("MASTER_ADDR")) {
    // A step of srun may run on some hosts of its job only. The step of Open MPI's daemons leaves out the host of
    // mpirun, which has rank 0 and is the first of the job.
    const char* hosts = &launcher == &kSlurm ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
    if (!variables.has(hosts)) hosts = "SLURM_JOB_NODELIST";
    if (variables.has(hosts)) return first_slurm_host(*variables.find(hosts));
  }
  const std::string address = variables.text("MASTER_ADDR", "the host of rank 0");
  // Addresses of IPv6 stand in brackets where a port may follow.
  return address.starts_with('[') && address.ends_with(']') ? address.substr(1, address.size() - 2) : address;
}

std::uint16_t find_port(const Variables& variables, const Launcher& launcher) {
  if (variables.has("STRATA_PORT")) return static_cast<std::uint16_t>(variables.number("STRATA_PORT", 1, kHighestPort));
  if (!variables.has("MASTER_PORT") && variables.has("SLURM_JOB_ID")) {
    // The numbers of jobs, and of steps of a job, make their ports differ on one machine.
    const std::int64_t job = variables.number("SLURM_JOB_ID", 0, kAny);
    const std::int64_t step = &launcher == &kSlurm ? variables.number("SLURM_STEP_ID", 0, kAny) : 0;
    return static_cast<std::uint16_t>(20000 + (job + 101 * step) % 10000);
  }
  // The agent of torchrun itself listens on MASTER_PORT, so use the next port.
  const bool agent_listens = variables.find("TORCHELASTIC_USE_AGENT_STORE") == "True";
  const int port = variables.number("MASTER_PORT", 1, agent_listens ? kHighestPort - 1 : kHighestPort);
  return static_cast<std::uint16_t>(agent_listens ? port + 1 : port);
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

/// Position after the first name. Commas in brackets separate numbers and not hosts.
std::size_t end_of_first(std::string_view list) {
  bool in_brackets = false;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '[') in_brackets = true;
    if (list[i] == ']') in_brackets = false;
    if (list[i] == ',' && !in_brackets) return i;
  }
  return list.size();
}

}  // namespace

std::string process_name(int process, int ranks_per_process) {
  if (ranks_per_process == 1) return "rank " + std::to_string(process);
  const int first = process * ranks_per_process;
  return "process " + std::to_string(process) + " (ranks " + std::to_string(first) +
         (ranks_per_process == 2 ? " and " : " to ") + std::to_string(first + ranks_per_process - 1) + ")";
}

std::optional<ProcessEnvironment> read_process_environment(const Lookup& lookup) {
  const Variables variables(lookup);
  const Launcher* launcher = find_launcher(variables);
  if (launcher == nullptr) return std::nullopt;
  ProcessEnvironment environment = read_numbers(variables, *launcher);
  if (environment.rank_count == 1) return std::nullopt;
  environment.address = find_address(variables, *launcher);
  environment.port = find_port(variables, *launcher);
  environment.secret = find_secret(variables);
  return environment;
}

std::optional<std::string> environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::string first_slurm_host(std::string_view list) {
  std::string_view rest = list.substr(0, end_of_first(list));
  std::string host;
  // Replace every bracket by its first number. A name may have several brackets.
  while (!rest.empty()) {
    const std::size_t open = rest.find('[');
    host += rest.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = rest.find(']', open);
    const std::string_view numbers =
        close == std::string_view::npos ? std::string_view{} : rest.substr(open + 1, close - open - 1);
    if (numbers.empty()) break;
    host += numbers.substr(0, numbers.find_first_of("-,"));
    rest.remove_prefix(close + 1);
    if (rest.empty()) return host;
  }
  if (host.empty() || rest.find('[') != std::string_view::npos) {
    throw ConfigurationError("Slurm's list of hosts: found '" + std::string(list) +
                             "'; accepted: a list of hosts such as gpu[07-09,12]");
  }
  return host;
}

}  // namespace strata::rendezvous

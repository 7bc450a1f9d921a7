#include "launch/replan.hpp"

#include <filesystem>

#include "cluster/cluster_file.hpp"
#include "files/file_io.hpp"
#include "plan/find_plans.hpp"
#include "plan/plan_report.hpp"
#include "strata/error.hpp"
#include "train/run_folder.hpp"

namespace strata::host {
namespace {

/// The run's cluster with at least `devices`.
Cluster cluster_of(const RunConfiguration& configuration, int devices) {
  if (configuration.cluster.table == nullptr) {
    throw ConfigurationError(
        "--replan: the configuration has no [cluster]; accepted: a table [cluster], which describes the hosts");
  }
  Cluster cluster = read_cluster(*configuration.cluster.table, {});
  if (devices <= cluster.devices()) return cluster;
  const int each = cluster.groups.front().devices;
  if (cluster.groups.size() == 1) {
    cluster = read_cluster(*configuration.cluster.table, {.nodes = (devices + each - 1) / each});
  }
  return cluster;
}

}  // namespace

Replanned replan(const RunSetup& setup, int slots, PluginRegistry& registry) {
  RunConfiguration configuration = setup.configuration;
  configuration.run.resume = kResumeAuto;
  const InspectionTarget target{.cluster = cluster_of(configuration, slots)};
  for (int devices = slots;; devices = fewer_devices(devices)) {
    const DevicePlans found = find_plans(configuration, target, {.devices = devices}, {}, registry);
    if (!found.is_possible() && devices > 1) continue;
    if (!found.works()) throw RuntimeError(describe_nearest_miss(*found.space, found.plans));
    const PlanChoice& best = found.plans.front().choice;
    const std::filesystem::path folder = configuration.run.output;
    std::filesystem::create_directories(folder);
    const std::filesystem::path file = std::filesystem::absolute(folder / "replanned.toml");
    write_named_file(file.string(), to_toml(found.space->configuration(best)));
    return {devices, file.string(), found.space->text(best)};
  }
}

}  // namespace strata::host

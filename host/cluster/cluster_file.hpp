#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "config/document.hpp"

namespace strata::host {

/// The folder of the published descriptions, which is installed with the program: systems, and `devices` in it.
[[nodiscard]] std::filesystem::path published_clusters();

/// How a cluster is read.
struct ClusterRequest {
  /// Takes the place of the number of nodes in the file.
  std::optional<int> nodes = {};
  std::filesystem::path published = published_clusters();
};

/// A cluster from its file, or by the name of a published system, or one device by its published name. `source` is a
/// file if it has a slash or ends in ".toml". \throws ConfigurationError with file, line and key.
[[nodiscard]] Cluster load_cluster(const std::string& source, const ClusterRequest& request = {});

/// The cluster that a table [cluster] describes. \throws ConfigurationError with file, line and key.
[[nodiscard]] Cluster read_cluster(const DocumentNode& table, const ClusterRequest& request = {});

/// The cluster as a file, with all values of its devices. load_cluster() reads an equal one. `remarks`: lines of a
/// comment at its top.
[[nodiscard]] std::string to_toml(const Cluster& cluster, const std::vector<std::string>& remarks = {});

/// Names of the published systems and devices.
struct PublishedNames {
  std::vector<std::string> systems;
  std::vector<std::string> devices;
};
[[nodiscard]] PublishedNames published_names(const std::filesystem::path& published = published_clusters());

}  // namespace strata::host

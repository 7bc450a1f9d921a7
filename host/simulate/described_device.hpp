#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "cluster/cluster.hpp"
#include "strata/device.hpp"
#include "strata/op.hpp"

namespace strata::host {

/// A device that is not there, for compiling the programs of a described one. It has a kernel without scratch memory
/// for every registered op and its fused forms; if `measured` is not empty, for those fused ops only that it names. It
/// can run none. `registry` outlives it.
[[nodiscard]] std::unique_ptr<Device> described_device(const std::string& name, std::int64_t memory_bytes,
                                                       const OpRegistry& registry, std::set<std::string> measured = {});

/// The same for any of the cluster's first `ranks` ranks: it has the least memory of them.
[[nodiscard]] std::unique_ptr<Device> described_device(const Cluster& cluster, int ranks, const OpRegistry& registry);

}  // namespace strata::host

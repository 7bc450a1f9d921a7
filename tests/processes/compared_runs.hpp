#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "train/temporary_folder.hpp"

namespace strata::host::test {

/// Losses and gradient norms of a run's steps and evaluations. `log`: the file of its --log-json.
inline std::vector<std::string> losses(const std::filesystem::path& log) {
  std::vector<std::string> lines;
  std::istringstream stream(read_file(log));
  for (std::string line; std::getline(stream, line);) {
    const nlohmann::json entry = nlohmann::json::parse(line);
    // Lines for people tell how the ranks are started.
    if (entry.contains("text")) continue;
    std::string values;
    for (const char* key : {"step", "loss", "grad_norm"}) {
      if (entry.contains(key)) values += entry.at(key).dump() + " ";
    }
    lines.push_back(values);
  }
  return lines;
}

/// The bytes of the tensors of a run's last checkpoint, which `ranks` ranks wrote. `output`: the run's output folder.
inline std::string tensors(const std::filesystem::path& output, int ranks) {
  std::string bytes;
  for (int rank = 0; rank < ranks; ++rank) {
    bytes += read_file(find_checkpoint(output) / ("rank-0000" + std::to_string(rank) + ".safetensors"));
  }
  return bytes;
}

}  // namespace strata::host::test

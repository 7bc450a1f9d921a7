#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "compiler/placement/placed_model.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// A class of ranks whose program is that of another class with other names and other numbers of chunks, blocks and
/// messages. Example: two stages in the middle of a pipeline that have as many layers.
struct AlikeClass {
  struct Message {
    Peer peer;
    std::uint64_t id = 0;
    int channel = 0;
  };

  /// The class that it is like, which comes before it; -1: none.
  int like = -1;
  /// Its chunks and blocks, by those of the other class.
  std::map<int, int> chunks = {};
  std::map<int, int> blocks = {};
  /// Its messages from and to other stages, by the id of the other class's message.
  std::map<std::uint64_t, Message> messages = {};
};

/// By class. The class that others are like is like none.
[[nodiscard]] std::vector<AlikeClass> find_alike_classes(const PlacedModel& model);

/// `program`, that of the other class, with the numbers of `alike`. It keeps the names and the schedule.
[[nodiscard]] Program renumbered(const Program& program, const AlikeClass& alike);

}  // namespace strata::host

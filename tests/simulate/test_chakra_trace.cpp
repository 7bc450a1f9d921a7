#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "compiler/program/buffer_ranges.hpp"
#include "compiler/program/communication_trace.hpp"
#include "simulate/chakra_trace.hpp"
#include "simulated_cluster.hpp"

namespace strata::testing {
namespace {

/// Reads the encoding of protobuf, in which each field is a key and a number or a text.
class Wire {
 public:
  explicit Wire(std::string_view bytes) : rest_(bytes) {}

  [[nodiscard]] bool is_empty() const { return rest_.empty(); }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      if (rest_.empty() || shift > 63) throw std::runtime_error("a number is cut off");
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
  }
  std::string_view text() {
    const std::uint64_t length = number();
    if (length > rest_.size()) throw std::runtime_error("a text is cut off");
    const std::string_view read = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return read;
  }

 private:
  std::string_view rest_;
};

struct TracedNode {
  std::uint64_t id = 0;
  std::uint64_t type = 0;
  std::vector<std::uint64_t> dependencies;
  std::map<std::string, std::uint64_t> numbers;
  std::string group;
};

void read_attribute(Wire wire, TracedNode& node) {
  std::string name;
  while (!wire.is_empty()) {
    const std::uint64_t key = wire.number();
    if ((key & 7U) == 0) {
      node.numbers[name] = wire.number();
    } else {
      const std::string text(wire.text());
      if (key >> 3U == 1) name = text;
      if (key >> 3U == 29 && name == "pg_name") node.group = text;
    }
  }
}

TracedNode read_node(Wire wire) {
  TracedNode node;
  while (!wire.is_empty()) {
    const std::uint64_t key = wire.number();
    if ((key & 7U) == 2) {
      const std::string_view text = wire.text();
      if (key >> 3U == 10) read_attribute(Wire(text), node);
      continue;
    }
    const std::uint64_t value = wire.number();
    if (key >> 3U == 1) node.id = value;
    if (key >> 3U == 3) node.type = value;
    if (key >> 3U == 4 || key >> 3U == 5) node.dependencies.push_back(value);
  }
  return node;
}

std::vector<TracedNode> read_trace(const std::string& file) {
  Wire wire(file);
  static_cast<void>(wire.text());  // the metadata
  std::vector<TracedNode> nodes;
  while (!wire.is_empty()) nodes.push_back(read_node(Wire(wire.text())));
  return nodes;
}

class ChakraTraces : public ::testing::Test {
 protected:
  ChakraTraces() {
    for (int rank = 0; rank < step_.compiled.mesh.rank_count(); ++rank)
      traces_.push_back(read_trace(trace_.of_rank(rank)));
  }

  SmallStep step_{
      "[[strategy]]\nplugin = \"pipeline\"\nsize = 2\n[[strategy]]\nplugin = \"zero\"\nsize = 2\nstage = 3\n"
      "[[strategy]]\nplugin = \"tensor\"\nsize = 2\n",
      16, 2};
  host::TimedPrograms timed_ = host::time_programs(step_.compiled, *step_.setup.ops, round_cluster(1));
  host::ChakraTrace trace_{step_.compiled, *step_.setup.ops, timed_};
  std::vector<std::vector<TracedNode>> traces_;
};

TEST_F(ChakraTraces, HaveANodeForEveryInstructionAndNoCycle) {
  for (std::size_t rank = 0; rank < traces_.size(); ++rank) {
    std::size_t instructions = 0;
    const auto count = [&](const auto&, std::size_t, const auto&) { ++instructions; };
    host::for_each_instruction(step_.compiled.program(static_cast<int>(rank)), 0, count);
    EXPECT_EQ(traces_[rank].size(), instructions);
    for (std::size_t i = 0; i < traces_[rank].size(); ++i) {
      EXPECT_EQ(traces_[rank][i].id, i);
      for (const std::uint64_t each : traces_[rank][i].dependencies) EXPECT_LT(each, i);
    }
  }
}

TEST_F(ChakraTraces, HaveTheBytesOfThePlan) {
  constexpr std::uint64_t kCollective = 7;
  for (std::size_t rank = 0; rank < traces_.size(); ++rank) {
    const Program& program = step_.compiled.program(static_cast<int>(rank));
    std::size_t node = 0;
    host::for_each_instruction(program, 0, [&](const auto&, std::size_t, const Instruction& instruction) {
      const TracedNode& traced = traces_[rank][node++];
      const auto* collective = instruction.as<Collective>();
      EXPECT_EQ(traced.type == kCollective, collective != nullptr);
      if (!is_communication(instruction)) return;
      const auto bytes = static_cast<double>(traced.numbers.at("comm_size"));
      const double ranks = collective == nullptr ? 1 : program.group_size(*collective);
      const bool is_sum = collective != nullptr && collective->kind == CollectiveKind::all_reduce;
      if (instruction.is<Receive>()) return;
      const double sent = collective == nullptr ? bytes : (is_sum ? 2 : 1) * (ranks - 1) / ranks * bytes;
      EXPECT_NEAR(sent, bytes_sent(program, instruction), 1e-6);
    });
  }
}

TEST_F(ChakraTraces, HaveBothEndsOfEveryMessageAndTheRanksOfEveryGroup) {
  constexpr std::uint64_t kSend = 5;
  constexpr std::uint64_t kReceive = 6;
  std::map<std::vector<std::uint64_t>, std::pair<int, int>> ends;
  const nlohmann::json groups = nlohmann::json::parse(trace_.groups());
  for (std::size_t rank = 0; rank < traces_.size(); ++rank) {
    for (const TracedNode& node : traces_[rank]) {
      if (!node.group.empty()) {
        const auto ranks = groups.at(node.group).get<std::vector<std::size_t>>();
        EXPECT_EQ(std::count(ranks.begin(), ranks.end(), rank), 1);
      }
      if (node.type != kSend && node.type != kReceive) continue;
      auto& [sends, receives] = ends[{node.numbers.at("comm_src"), node.numbers.at("comm_dst"),
                                      node.numbers.at("comm_tag"), node.numbers.at("comm_size")}];
      ++(node.type == kSend ? sends : receives);
      EXPECT_EQ(node.numbers.at(node.type == kSend ? "comm_src" : "comm_dst"), rank);
    }
  }
  EXPECT_FALSE(ends.empty());
  for (const auto& [message, counts] : ends) {
    EXPECT_EQ(counts.first, 1);
    EXPECT_EQ(counts.second, 1);
  }
}

}  // namespace
}  // namespace strata::testing

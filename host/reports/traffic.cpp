#include "reports/traffic.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "compiler/program/buffer_ranges.hpp"
#include "compiler/program/communication_trace.hpp"
#include "files/text_format.hpp"
#include "reports/drawing.hpp"

namespace strata::host {
namespace {

/// Participants of communication, and whether each sends to all others.
using TrafficKey = std::pair<Counterparts, bool>;

/// Bytes that a rank of the program sends.
std::map<TrafficKey, double> program_traffic(const Program& program) {
  std::map<TrafficKey, double> traffic;
  for_each_instruction(program, 0, [&](const auto&, std::size_t, const Instruction& instruction) {
    const double bytes = is_communication(instruction) ? bytes_sent(program, instruction) : 0;
    if (bytes <= 0) return;
    const auto* collective = instruction.as<Collective>();
    const bool is_direct = collective != nullptr && collective->kind == CollectiveKind::all_to_all;
    traffic[{counterparts_of(program, instruction), is_direct}] += bytes;
  });
  return traffic;
}

bool takes_part(const Counterparts& with, const Mesh& mesh, int rank) {
  if (with.members.empty() || with.peer) return true;
  const int coordinate = mesh.coordinates(rank).at(with.axes.front());
  return contains(with.members, coordinate);
}

void add_rank(TrafficMatrix& matrix, const Mesh& mesh, int rank, const TrafficKey& key, double bytes) {
  const auto& [with, is_direct] = key;
  if (!takes_part(with, mesh, rank)) return;
  std::vector<int> ranks = ranks_of(with, mesh, rank);
  std::vector<double>& row = matrix.bytes[static_cast<std::size_t>(rank / matrix.ranks_per_row)];
  const auto send = [&](int to, double share) { row[static_cast<std::size_t>(to / matrix.ranks_per_row)] += share; };
  if (with.peer) return send(ranks.front(), bytes);
  const auto self = std::ranges::find(ranks, rank);
  if (!is_direct) return send(self + 1 == ranks.end() ? ranks.front() : *(self + 1), bytes);
  for (const int each : ranks) {
    if (each != rank) send(each, bytes / static_cast<double>(ranks.size() - 1));
  }
}

constexpr double kMatrixSize = 560;
constexpr double kMatrixLeft = 90;
constexpr double kMatrixTop = 60;
/// Labels, at most, along an axis.
constexpr std::size_t kMatrixLabels = 16;

constexpr const char* kMatrixStyle = R"(  .label { font-size: 12px; fill: #4d5259 }
  .middle { text-anchor: middle }
  .end { text-anchor: end }
  .cell { fill: #0072b2 }
  .frame { fill: none; stroke: #9aa1a9; stroke-width: 1 }
)";
constexpr const char* kMatrixDarkStyle = R"(    .label { fill: #aab1b9 }
    .cell { fill: #56b4e9 }
    .frame { stroke: #5b626b }
)";

std::string row_name(const TrafficMatrix& matrix, std::size_t row) {
  const std::size_t first = row * static_cast<std::size_t>(matrix.ranks_per_row);
  if (matrix.ranks_per_row == 1) return std::to_string(first);
  return std::to_string(first) + "–" + std::to_string(first + static_cast<std::size_t>(matrix.ranks_per_row) - 1);
}

}  // namespace

double TrafficMatrix::total() const {
  double sum = 0;
  for (const std::vector<double>& row : bytes) {
    for (const double each : row) sum += each;
  }
  return sum;
}

TrafficMatrix traffic_matrix(const Compiled& compiled, int rows) {
  const int ranks = compiled.mesh.rank_count();
  TrafficMatrix matrix;
  matrix.ranks_per_row = (ranks + rows - 1) / rows;
  const auto count = static_cast<std::size_t>((ranks + matrix.ranks_per_row - 1) / matrix.ranks_per_row);
  matrix.bytes.assign(count, std::vector<double>(count));
  std::vector<std::map<TrafficKey, double>> programs;
  for (const Program& program : compiled.programs) programs.push_back(program_traffic(program));
  for (int rank = 0; rank < ranks; ++rank) {
    const auto number = static_cast<std::size_t>(compiled.class_of_rank[static_cast<std::size_t>(rank)]);
    for (const auto& [key, bytes] : programs[number]) add_rank(matrix, compiled.mesh, rank, key, bytes);
  }
  return matrix;
}

std::string traffic_chart(const TrafficMatrix& matrix) {
  SvgPicture picture(kMatrixLeft + kMatrixSize + 24, kMatrixTop + kMatrixSize + 24, "traffic between ranks",
                     kMatrixStyle, kMatrixDarkStyle);
  const std::size_t count = matrix.bytes.size();
  const double cell = kMatrixSize / static_cast<double>(std::max<std::size_t>(count, 1));
  double most = 0;
  for (const auto& row : matrix.bytes) most = std::max(most, *std::ranges::max_element(row));
  picture.text(
      kMatrixLeft, 20, "ink",
      "from the rank of the row to that of the column; the darkest cell has " + short_bytes(std::llround(most)));
  const std::size_t step = (count + kMatrixLabels - 1) / kMatrixLabels;
  for (std::size_t i = 0; i < count; ++i) {
    const double middle = (static_cast<double>(i) + 0.5) * cell;
    if (i % step == 0) {
      picture.text(kMatrixLeft - 8, kMatrixTop + middle + 4, "label end", row_name(matrix, i));
      picture.text(kMatrixLeft + middle, kMatrixTop - 8, "label middle", row_name(matrix, i));
    }
    for (std::size_t j = 0; j < count; ++j) {
      const double bytes = matrix.bytes[i][j];
      if (bytes <= 0) continue;
      picture.out() << R"(<rect class="cell" x=")" << kMatrixLeft + static_cast<double>(j) * cell << R"(" y=")"
                    << kMatrixTop + static_cast<double>(i) * cell << R"(" width=")" << cell << R"(" height=")" << cell
                    << R"(" fill-opacity=")" << 0.1 + 0.9 * bytes / most << "\"><title>"
                    << xml_text(row_name(matrix, i) + " to " + row_name(matrix, j) + ": " +
                                short_bytes(std::llround(bytes)))
                    << "</title></rect>\n";
    }
  }
  picture.out() << R"(<rect class="frame" x=")" << kMatrixLeft << R"(" y=")" << kMatrixTop << R"(" width=")"
                << kMatrixSize << R"(" height=")" << kMatrixSize << "\"/>\n";
  return picture.finish();
}

}  // namespace strata::host

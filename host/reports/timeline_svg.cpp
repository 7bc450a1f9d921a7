#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <set>
#include <sstream>

#include "reports/svg.hpp"
#include "reports/timeline_files.hpp"

namespace strata::host {
namespace {

constexpr double kMargin = 16;
constexpr double kLabelWidth = 64;
constexpr double kHeaderHeight = 92;
constexpr double kRowHeight = 28;
constexpr double kRowPitch = 32;
constexpr double kUnitWidth = 26;
/// Largest width. Longer timelines get a smaller unit.
constexpr double kLargestChart = 8000;
constexpr double kSmallestChart = 620;
constexpr double kDigitWidth = 8;

struct Colour {
  int red;
  int green;
  int blue;
};

/// Colours of a phase. Boxes have dark numbers on light to medium colours, which are readable on any background. Later
/// chunks of a stage have stronger colours.
struct PhaseStyle {
  Phase phase;
  const char* name;
  Colour first;
  Colour last;
};

constexpr std::array<PhaseStyle, 3> kStyles = {
    {{Phase::forward, "F: forward", {176, 208, 255}, {96, 158, 245}},
     {Phase::backward, "B: backward", {255, 214, 153}, {240, 160, 60}},
     {Phase::weight, "W: weight gradients", {188, 232, 188}, {104, 190, 112}}}};

constexpr const char* kTimelineStyle = R"(  .lane { fill: #eceef1 }
  .box { stroke: #1c1e21; stroke-width: 0.6 }
  .number { fill: #10131a; font: 12px system-ui, sans-serif; text-anchor: middle }
)";
constexpr const char* kTimelineDarkStyle = "    .lane { fill: #282b31 }\n";

const PhaseStyle& style_of(Phase phase) {
  return *std::find_if(kStyles.begin(), kStyles.end(), [&](const PhaseStyle& style) { return style.phase == phase; });
}

/// `strength`: 0 gives the first colour, 1 the last.
std::string colour_text(const PhaseStyle& style, double strength) {
  const auto mixed = [&](int from, int to) { return std::lround(from + strength * (to - from)); };
  std::ostringstream text;
  text << '#' << std::hex << std::setfill('0');
  for (const long part : {mixed(style.first.red, style.last.red), mixed(style.first.green, style.last.green),
                          mixed(style.first.blue, style.last.blue)}) {
    text << std::setw(2) << part;
  }
  return text.str();
}

class Drawing {
 public:
  Drawing(const Timeline& timeline, const std::string& title)
      : timeline_(timeline),
        span_(timeline.makespan > 0 ? timeline.makespan : 1),
        picture_(width(), kHeaderHeight + kRowPitch * static_cast<double>(timeline.stages.size()) + kMargin, title,
                 kTimelineStyle, kTimelineDarkStyle),
        out_(picture_.out()) {}

  std::string draw(const std::string& title) {
    header(title);
    for (std::size_t stage = 0; stage < timeline_.stages.size(); ++stage) row(stage);
    return picture_.finish();
  }

 private:
  [[nodiscard]] double width() const { return kLabelWidth + std::max(span_ * unit_, kSmallestChart) + 2 * kMargin; }

  void text(double x, double y, const char* style, const std::string& content) { picture_.text(x, y, style, content); }

  void header(const std::string& title) {
    std::ostringstream bubble;
    bubble << std::setprecision(4) << 100 * timeline_.bubble_fraction() << "% of the work";
    text(kMargin, 30, "ink title", title + ": bubble " + bubble.str());
    std::string in_flight = "most micro-batches in flight, by stage:";
    for (const StageTimeline& stage : timeline_.stages) in_flight += " " + std::to_string(stage.in_flight);
    text(kMargin, 50, "ink", in_flight);
    legend();
  }

  void legend() {
    std::set<Phase> shown;
    bool several_chunks = false;
    for (std::size_t stage = 0; stage < timeline_.stages.size(); ++stage) {
      for (const TimelineEvent& event : timeline_.stages[stage].events) shown.insert(event.task.phase);
      several_chunks = several_chunks || chunks_of(stage).size() > 1;
    }
    double x = kMargin;
    for (const PhaseStyle& style : kStyles) {
      if (!shown.contains(style.phase)) continue;
      out_ << R"(<rect class="box" x=")" << x << R"(" y="64" width="14" height="14" fill=")"
           << colour_text(style, several_chunks ? 0.5 : 0) << "\"/>\n";
      text(x + 20, 76, "ink", style.name);
      x += 40 + 7.5 * static_cast<double>(std::string(style.name).size());
    }
    if (several_chunks) text(x, 76, "ink", "stronger: later chunks of the stage");
  }

  void row(std::size_t stage) {
    const double y = kHeaderHeight + kRowPitch * static_cast<double>(stage);
    text(kMargin, y + 18, "ink", "stage " + std::to_string(stage));
    out_ << R"(<rect class="lane" x=")" << kMargin + kLabelWidth << R"(" y=")" << y << R"(" width=")"
         << timeline_.makespan * unit_ << R"(" height=")" << kRowHeight << "\"/>\n";
    const std::vector<int> chunks = chunks_of(stage);
    for (const TimelineEvent& event : timeline_.stages[stage].events) {
      const auto index = std::find(chunks.begin(), chunks.end(), event.task.chunk) - chunks.begin();
      const double strength =
          chunks.size() == 1 ? 0 : static_cast<double>(index) / static_cast<double>(chunks.size() - 1);
      box(y, event, strength);
    }
  }

  void box(double y, const TimelineEvent& event, double strength) {
    const PhaseStyle& style = style_of(event.task.phase);
    const double x = kMargin + kLabelWidth + event.begin * unit_;
    const double width = (event.end - event.begin) * unit_;
    const std::string number = std::to_string(event.task.micro_batch);
    out_ << "<g><title>" << style.name << ", micro-batch " << number << ", chunk " << event.task.chunk << ", "
         << event.begin << " to " << event.end << R"(</title><rect class="box" x=")" << x << R"(" y=")" << y
         << R"(" width=")" << width << R"(" height=")" << kRowHeight << R"(" fill=")" << colour_text(style, strength)
         << "\"/>";
    if (width >= kDigitWidth * static_cast<double>(number.size())) {
      out_ << R"(<text class="number" x=")" << x + width / 2 << R"(" y=")" << y + 18 << "\">" << number << "</text>";
    }
    out_ << "</g>\n";
  }

  /// The chunks of a stage, ascending.
  [[nodiscard]] std::vector<int> chunks_of(std::size_t stage) const {
    std::set<int> chunks;
    for (const TimelineEvent& event : timeline_.stages[stage].events) chunks.insert(event.task.chunk);
    return {chunks.begin(), chunks.end()};
  }

  const Timeline& timeline_;
  double span_;
  double unit_ = std::min(kUnitWidth, kLargestChart / span_);
  SvgPicture picture_;
  std::ostream& out_;
};

}  // namespace

std::string timeline_svg(const Timeline& timeline, const std::string& title) {
  return Drawing(timeline, title).draw(title);
}

}  // namespace strata::host

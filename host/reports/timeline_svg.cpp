#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <set>
#include <sstream>

#include "reports/drawing.hpp"
#include "reports/timeline.hpp"

namespace strata::host {
namespace {

constexpr double kMargin = 24;
constexpr double kLabelWidth = 64;
constexpr double kRowHeight = 28;
/// Messages are lines between the rows.
constexpr double kRowPitch = 42;
constexpr double kUnitWidth = 26;
/// Largest width of the rows. Longer timelines get a smaller unit.
constexpr double kLargestChart = 1200;
constexpr double kSmallestChart = 620;
constexpr double kAxisHeight = 44;
constexpr double kTimelineTitleSize = 15;
constexpr double kTextSize = 13;
constexpr double kNumberSize = 12;
constexpr double kLineHeight = 20;
constexpr double kSampleWidth = 14;

struct Colour {
  int red;
  int green;
  int blue;
};

/// Colours and hatching of a phase. Boxes have dark numbers on light to medium colours, which are readable on any
/// background. Later chunks of a stage have stronger colours.
struct PhaseStyle {
  Phase phase;
  const char* name;
  Colour first;
  Colour last;
  /// The lines of the hatching, for pictures without colours. Empty: none.
  const char* hatching;
};

constexpr std::array<PhaseStyle, 3> kStyles = {
    {{Phase::forward, "F: forward", {176, 208, 255}, {96, 158, 245}, ""},
     {Phase::backward, "B: backward", {255, 214, 153}, {240, 160, 60}, "M-1,1 L1,-1 M0,7 L7,0 M6,8 L8,6"},
     {Phase::weight, "W: weight gradients", {188, 232, 188}, {104, 190, 112}, "M3.5,0 V7 M0,3.5 H7"}}};

constexpr const char* kTimelineStyle = R"(  .lane { fill: #eceef1 }
  .box { stroke: #1c1e21; stroke-width: 0.6 }
  .hatching { stroke: #1c1e21; stroke-width: 1; stroke-opacity: 0.55 }
  .number { fill: #10131a; font: 12px system-ui, sans-serif; text-anchor: middle; paint-order: stroke; stroke: #ffffff;
    stroke-width: 3px; stroke-opacity: 0.8 }
  .label { font-size: 12px }
  .middle { text-anchor: middle }
  .grid { stroke: #b9bec5; stroke-width: 1 }
  .message { fill: none; stroke: #7a2f8f; stroke-width: 0.9 }
  .within { fill: #7a2f8f }
)";
constexpr const char* kTimelineDarkStyle = R"(    .lane { fill: #282b31 }
    .grid { stroke: #4a5058 }
    .message { stroke: #d9a3e8 }
)";

const PhaseStyle& style_of(Phase phase) { return *std::ranges::find(kStyles, phase, &PhaseStyle::phase); }

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

std::string hatching_id(const PhaseStyle& style) { return "hatching-" + std::string(to_string(style.phase)); }

/// An entry of the legend: a sample and its meaning.
struct LegendEntry {
  /// Null for other samples than a phase.
  const PhaseStyle* phase = nullptr;
  const char* sample_class = "";
  std::string text;
};

class Drawing {
 public:
  Drawing(const Timeline& timeline, const std::string& title)
      : timeline_(timeline),
        span_(timeline.makespan > 0 ? timeline.makespan : 1),
        titles_(wrapped_text(full_title(title), inner_width(), kTimelineTitleSize)),
        notes_(wrapped_text(in_flight(), inner_width(), kTextSize)),
        entries_(legend_entries()),
        legend_(legend_rows(legend_widths(), inner_width())),
        top_(kMargin + kLineHeight * static_cast<double>(titles_.size() + notes_.size() + legend_.size()) + 8),
        bottom_(top_ + kRowPitch * static_cast<double>(timeline.stages.size())),
        picture_(width(), bottom_ + kAxisHeight, title, kTimelineStyle, kTimelineDarkStyle),
        out_(picture_.out()) {}

  std::string draw() {
    define_hatching();
    header();
    axis();
    for (std::size_t stage = 0; stage < timeline_.stages.size(); ++stage) lane(stage);
    for (const TimelineMessage& each : timeline_.messages) message(each);
    for (std::size_t stage = 0; stage < timeline_.stages.size(); ++stage) boxes(stage);
    return picture_.finish();
  }

 private:
  [[nodiscard]] double width() const { return kLabelWidth + std::max(span_ * unit_, kSmallestChart) + 2 * kMargin; }
  [[nodiscard]] double inner_width() const { return width() - 2 * kMargin; }
  [[nodiscard]] double x_of(double time) const { return kMargin + kLabelWidth + time * unit_; }
  [[nodiscard]] double y_of(std::size_t stage) const { return top_ + kRowPitch * static_cast<double>(stage); }

  [[nodiscard]] std::string full_title(const std::string& title) const {
    std::ostringstream bubble;
    bubble << std::setprecision(4) << 100 * timeline_.bubble_fraction() << "% of the work";
    return title + ": bubble " + bubble.str();
  }

  [[nodiscard]] std::string in_flight() const {
    std::string text = "most micro-batches in flight, by stage:";
    for (const StageTimeline& stage : timeline_.stages) text += " " + std::to_string(stage.in_flight);
    return text;
  }

  /// Whether an event of any stage has the property.
  template <class Property>
  [[nodiscard]] bool any_event(const Property& property) const {
    return std::ranges::any_of(timeline_.stages,
                               [&](const StageTimeline& stage) { return std::ranges::any_of(stage.events, property); });
  }

  [[nodiscard]] bool has_several_chunks() const {
    for (std::size_t stage = 0; stage < timeline_.stages.size(); ++stage) {
      if (chunks_of(stage).size() > 1) return true;
    }
    return false;
  }

  [[nodiscard]] std::vector<LegendEntry> legend_entries() const {
    std::vector<LegendEntry> entries;
    for (const PhaseStyle& style : kStyles) {
      const bool is_shown = any_event([&](const TimelineEvent& event) { return event.task.phase == style.phase; });
      if (is_shown) entries.push_back({&style, "", style.name});
    }
    if (!timeline_.messages.empty()) entries.push_back({nullptr, "message", "message"});
    if (any_event([](const TimelineEvent& event) { return !event.communication.empty(); })) {
      entries.push_back({nullptr, "within", "communication within the task"});
    }
    if (has_several_chunks()) entries.push_back({nullptr, "", "stronger colour: later chunks of the stage"});
    return entries;
  }

  [[nodiscard]] static double legend_width(const LegendEntry& entry) {
    return kSampleWidth + 24 + text_width(entry.text, kTextSize);
  }

  [[nodiscard]] std::vector<double> legend_widths() const {
    std::vector<double> widths;
    for (const LegendEntry& entry : entries_) widths.push_back(legend_width(entry));
    return widths;
  }

  void define_hatching() {
    out_ << "<defs>\n";
    for (const PhaseStyle& style : kStyles) {
      if (*style.hatching == '\0') continue;
      out_ << R"(<pattern id=")" << hatching_id(style)
           << R"(" width="7" height="7" patternUnits="userSpaceOnUse"><path class="hatching" d=")" << style.hatching
           << "\"/></pattern>\n";
    }
    out_ << "</defs>\n";
  }

  void header() {
    double y = kMargin + 6;
    for (const std::string& line : titles_) {
      picture_.text(kMargin, y, "ink title", line);
      y += kLineHeight;
    }
    for (const std::string& line : notes_) {
      picture_.text(kMargin, y, "ink", line);
      y += kLineHeight;
    }
    for (const std::vector<std::size_t>& row : legend_) {
      double x = kMargin;
      for (const std::size_t i : row) {
        const LegendEntry& entry = entries_[i];
        sample(x, y - 12, entry);
        picture_.text(x + kSampleWidth + 6, y, "ink", entry.text);
        x += legend_width(entry);
      }
      y += kLineHeight;
    }
  }

  void sample(double x, double y, const LegendEntry& entry) {
    const std::string_view kind = entry.sample_class;
    if (entry.phase != nullptr) {
      filled_box(x, y, kSampleWidth, kSampleWidth, *entry.phase, has_several_chunks() ? 0.5 : 0);
    } else if (kind == "message") {
      out_ << R"(<path class="message" d="M)" << x << ',' << y << " l" << kSampleWidth << ',' << kSampleWidth
           << "\"/>\n";
    } else if (kind == "within") {
      within(x, y, kSampleWidth, kSampleWidth);
    }
  }

  /// A box in the colour and the hatching of its phase.
  void filled_box(double x, double y, double width, double height, const PhaseStyle& style, double strength) {
    const auto rectangle = [&](const std::string& fill) {
      out_ << R"(<rect class="box" x=")" << x << R"(" y=")" << y << R"(" width=")" << width << R"(" height=")" << height
           << R"(" fill=")" << fill << "\"/>";
    };
    rectangle(colour_text(style, strength));
    if (*style.hatching != '\0') rectangle("url(#" + hatching_id(style) + ")");
  }

  /// The mark of communication within a box: its lower edge.
  void within(double x, double y, double width, double height) {
    constexpr double kEdge = 4;
    out_ << R"(<rect class="within" x=")" << x << R"(" y=")" << y + height - kEdge << R"(" width=")" << width
         << R"(" height=")" << kEdge << "\"/>";
  }

  void axis() {
    const ChartAxis axis(0, span_, false, x_of(0), x_of(span_));
    for (const Tick& tick : axis.ticks(static_cast<int>(std::max(2.0, span_ * unit_ / 90)))) {
      const double x = axis.position(tick.value);
      out_ << R"(<path class="grid" d="M)" << x << ',' << top_ << " V" << bottom_ - 4 << "\"/>\n";
      picture_.text(x, bottom_ + 10, "ink label middle x-tick", tick.text);
    }
    const std::string unit = "time, in forward passes of an average chunk";
    picture_.text(kMargin, bottom_ + 30, "ink label",
                  timeline_.times_communication ? unit : unit + "; messages and communication take none");
  }

  void lane(std::size_t stage) {
    picture_.text(kMargin, y_of(stage) + 18, "ink", "stage " + std::to_string(stage));
    out_ << R"(<rect class="lane" x=")" << x_of(0) << R"(" y=")" << y_of(stage) << R"(" width=")"
         << timeline_.makespan * unit_ << R"(" height=")" << kRowHeight << "\"/>\n";
  }

  /// A line from the edge of the sender's row to the edge of the receiver's.
  void message(const TimelineMessage& each) {
    const bool goes_down = each.sender < each.receiver;
    const double from = y_of(each.sender) + (goes_down ? kRowHeight : 0);
    const double to = y_of(each.receiver) + (goes_down ? 0 : kRowHeight);
    out_ << R"(<path class="message" d="M)" << x_of(each.sent) << ',' << from << " L" << x_of(each.needed) << ',' << to
         << "\"><title>message of micro-batch " << each.micro_batch << " from stage " << each.sender << " to stage "
         << each.receiver << ", " << each.sent << " to " << each.needed << "</title></path>\n";
  }

  void boxes(std::size_t stage) {
    const std::vector<int> chunks = chunks_of(stage);
    for (const TimelineEvent& event : timeline_.stages[stage].events) {
      const auto index = std::ranges::find(chunks, event.task.chunk) - chunks.begin();
      const double strength =
          chunks.size() == 1 ? 0 : static_cast<double>(index) / static_cast<double>(chunks.size() - 1);
      box(y_of(stage), event, strength);
    }
  }

  void box(double y, const TimelineEvent& event, double strength) {
    const PhaseStyle& style = style_of(event.task.phase);
    const double x = x_of(event.begin);
    const double width = (event.end - event.begin) * unit_;
    const std::string number = std::to_string(event.task.micro_batch);
    out_ << "<g><title>" << style.name << ", micro-batch " << number << ", chunk " << event.task.chunk << ", "
         << event.begin << " to " << event.end << (event.communication.empty() ? "" : ", with " + event.communication)
         << "</title>";
    filled_box(x, y, width, kRowHeight, style, strength);
    if (!event.communication.empty()) within(x, y, width, kRowHeight);
    // The phase's letter and the number, or the number alone, if there is room.
    for (const std::string& text : {std::string(to_string(event.task.phase)) + number, number}) {
      if (text_width(text, kNumberSize) > width) continue;
      out_ << R"(<text class="number" x=")" << x + width / 2 << R"(" y=")" << y + 18 << "\">" << text << "</text>";
      break;
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
  std::vector<std::string> titles_;
  std::vector<std::string> notes_;
  std::vector<LegendEntry> entries_;
  /// Indices of the entries in each row of the legend.
  std::vector<std::vector<std::size_t>> legend_;
  double top_;
  double bottom_;
  SvgPicture picture_;
  std::ostream& out_;
};

}  // namespace

std::string timeline_svg(const Timeline& timeline, const std::string& title) { return Drawing(timeline, title).draw(); }

}  // namespace strata::host

#include "reports/drawing.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>

#include "files/text_format.hpp"

namespace strata::host {
namespace {

/// True for a byte that continues a character of UTF-8.
bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

std::size_t letters_of(std::string_view text) {
  return text.size() - static_cast<std::size_t>(std::ranges::count_if(text, continues));
}

/// Where the character of this number begins, in bytes.
std::size_t position_of(std::string_view text, std::size_t letter) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if (!continues(text[at]) && letter-- == 0) break;
  }
  return at;
}

/// The smallest of 1, 2 and 5 times a power of 10 that is at least `least`.
double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

double text_width(std::string_view text, double size) {
  return letter_width(size) * static_cast<double>(letters_of(text));
}

std::string fitted_text(const std::string& text, double width, double size) {
  const auto most = static_cast<std::size_t>(std::max(3.0, width / letter_width(size)));
  const std::size_t letters = letters_of(text);
  if (letters <= most) return text;
  const std::size_t kept = most - 1;
  return text.substr(0, position_of(text, kept / 2)) + "…" +
         text.substr(position_of(text, letters - (kept - kept / 2)));
}

std::vector<std::string> wrapped_text(const std::string& text, double width, double size) {
  std::vector<std::string> lines;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    word = fitted_text(word, width, size);
    if (!lines.empty() && text_width(lines.back() + " " + word, size) <= width) {
      lines.back() += " " + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

std::vector<std::vector<std::size_t>> legend_rows(const std::vector<double>& widths, double width) {
  std::vector<std::vector<std::size_t>> rows(1);
  double x = 0;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (x + widths[i] > width && !rows.back().empty()) {
      rows.emplace_back();
      x = 0;
    }
    rows.back().push_back(i);
    x += widths[i];
  }
  return rows;
}

std::string xml_text(std::string_view text) {
  constexpr std::size_t kLongest = 4096;
  std::string result;
  for (const char letter : message_text(text, kLongest)) {
    switch (letter) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += letter;
    }
  }
  return result;
}

SvgPicture::SvgPicture(double width, double height, const std::string& title, const std::string& style,
                       const std::string& dark_style) {
  out_ << std::fixed << std::setprecision(2) << R"(<svg xmlns="http://www.w3.org/2000/svg" width=")" << width
       << R"(" height=")" << height << R"(" viewBox="0 0 )" << width << ' ' << height << R"(" role="img">)"
       << "\n<title>" << xml_text(title) << "</title>\n"
       << R"(<style>
  .paper { fill: #ffffff }
  .ink { fill: #1c1e21; font: 13px system-ui, sans-serif }
  .title { font-size: 15px; font-weight: 600 }
)" << style
       << "  @media (prefers-color-scheme: dark) {\n    .paper { fill: #16181c }\n    .ink { fill: #e6e8eb }\n"
       << dark_style << "  }\n</style>\n"
       << R"(<rect class="paper" width="100%" height="100%"/>)" << '\n';
}

void SvgPicture::text(double x, double y, std::string_view classes, std::string_view content) {
  out_ << R"(<text class=")" << classes << R"(" x=")" << x << R"(" y=")" << y << R"(">)" << xml_text(content)
       << "</text>\n";
}

std::string SvgPicture::finish() {
  out_ << "</svg>\n";
  return out_.str();
}

std::string axis_text(double value, int digits) {
  // Whole parts below 10,000 have all their digits.
  const auto write = [digits](double number) {
    const double magnitude = std::abs(number);
    const bool is_short = magnitude >= 1 && magnitude < 1e4;
    std::ostringstream text;
    text.precision(is_short ? std::max(digits, 1 + static_cast<int>(std::log10(magnitude))) : digits);
    text << number;
    return text.str();
  };
  struct Unit {
    double size;
    const char* letter;
  };
  static constexpr std::array<Unit, 4> kUnits = {{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
  const double magnitude = std::abs(value);
  if (magnitude >= 1e4 && magnitude < 1e15) {
    for (const Unit& unit : kUnits) {
      if (magnitude >= unit.size) return write(value / unit.size) + unit.letter;
    }
  }
  return write(value);
}

ChartAxis::ChartAxis(double low, double high, bool is_logarithmic, double first, double last)
    : low_(low), high_(high), is_logarithmic_(is_logarithmic), first_(first), last_(last) {
  if (low_ < high_) return;
  // One value only: it lies in the middle.
  if (is_logarithmic_) {
    low_ /= 2;
    high_ *= 2;
  } else {
    const double half = low_ == 0 ? 1 : std::abs(low_) / 2;
    low_ -= half;
    high_ += half;
  }
}

double ChartAxis::scaled(double value) const { return is_logarithmic_ ? std::log10(value) : value; }

double ChartAxis::position(double value) const {
  return first_ + (last_ - first_) * (scaled(value) - scaled(low_)) / (scaled(high_) - scaled(low_));
}

std::vector<Tick> ChartAxis::ticks(int wanted) const {
  std::vector<Tick> found;
  if (is_logarithmic_) found = logarithmic_ticks(wanted);
  // A short piece of a logarithmic axis is nearly linear.
  return found.size() < 3 ? linear_ticks(wanted) : found;
}

std::vector<Tick> ChartAxis::linear_ticks(int wanted) const {
  const double step = round_step((high_ - low_) / wanted);
  const auto first = static_cast<long long>(std::ceil(low_ / step - 1e-9));
  const auto last = static_cast<long long>(std::floor(high_ / step + 1e-9));
  const double largest = std::max(std::abs(low_), std::abs(high_));
  // Enough digits to tell neighbours apart.
  const int digits =
      std::clamp(1 + static_cast<int>(std::floor(std::log10(largest)) - std::floor(std::log10(step))), 1, 15);
  std::vector<Tick> ticks;
  for (long long i = first; i <= last; ++i) {
    const double value = static_cast<double>(i) * step;
    ticks.push_back({value, axis_text(value, digits)});
  }
  return ticks;
}

std::vector<Tick> ChartAxis::logarithmic_ticks(int wanted) const {
  const double decades = std::log10(high_) - std::log10(low_);
  // Long axes have powers of 10 only, and every second or third of them if necessary.
  const int every = std::max(1, static_cast<int>(std::ceil(decades / wanted)));
  const std::vector<double> factors = decades > 2.5 ? std::vector<double>{1} : std::vector<double>{1, 2, 5};
  std::vector<Tick> ticks;
  const int last = static_cast<int>(std::floor(std::log10(high_)));
  for (int power = static_cast<int>(std::floor(std::log10(low_))); power <= last; ++power) {
    if (power % every != 0) continue;
    for (const double factor : factors) {
      const double value = factor * std::pow(10.0, power);
      if (value >= low_ * (1 - 1e-9) && value <= high_ * (1 + 1e-9)) ticks.push_back({value, axis_text(value, 3)});
    }
  }
  return ticks;
}

}  // namespace strata::host

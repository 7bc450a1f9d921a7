#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cli/command_arguments.hpp"
#include "cli/commands.hpp"
#include "files/file_io.hpp"
#include "reports/curve_chart.hpp"
#include "reports/run_curve.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

struct PlotArguments {
  std::vector<std::string> runs;
  std::string output;
  std::string field = "loss";
  std::string x = "step";
  int smooth = 1;
  bool log_y = false;
};

/// The words of CurveX, in the order of its enumerators.
const std::vector<std::string> kCurveX = {"step", "tokens", "seconds"};

CurveX x_of(const std::string& word) { return static_cast<CurveX>(std::ranges::find(kCurveX, word) - kCurveX.begin()); }

/// Curves of the same name get the paths of their runs as names.
void tell_apart(std::vector<RunCurve>& curves, const std::vector<std::string>& runs) {
  std::map<std::string, int> uses;
  for (const RunCurve& curve : curves) ++uses[curve.name];
  for (std::size_t i = 0; i < curves.size(); ++i) {
    if (uses[curves[i].name] > 1) curves[i].name = runs[i];
  }
}

void require_svg(const std::string& output) {
  static const std::set<std::string> kOthers = {".png", ".jpg", ".jpeg", ".gif", ".webp",
                                                ".pdf", ".eps", ".bmp",  ".tiff"};
  const std::string extension = std::filesystem::path(output).extension().string();
  if (!kOthers.contains(extension)) return;
  throw ConfigurationError("--output: found '" + output + "', whose name says " + extension +
                           "; accepted: a name.svg, since the picture is SVG");
}

int plot(const PlotArguments& arguments, CommandContext& context) {
  require_svg(arguments.output);
  std::vector<RunCurve> curves;
  const CurveRequest of_run{arguments.field, x_of(arguments.x)};
  for (const std::string& run : arguments.runs) {
    curves.push_back(read_run_curve(run, of_run));
    if (!curves.back().is_torn) continue;
    context.log.warning("'" + curves.back().log.string() + "': the last line is torn, and left out");
  }
  tell_apart(curves, arguments.runs);
  ChartRequest request{.title = arguments.field,
                       .x_label = arguments.x,
                       .y_label = arguments.field,
                       .smooth = arguments.smooth,
                       .log_y = arguments.log_y};
  if (arguments.field == "loss") request.y_label = "loss in nats";
  if (arguments.smooth > 1) request.title += ", mean of " + std::to_string(arguments.smooth) + " steps";
  if (arguments.output.empty()) {
    context.out << text_chart(curves, request);
    return 0;
  }
  for (const RunCurve& curve : curves) require_other_file("--output", arguments.output, curve.log, "a log");
  write_named_file(arguments.output, curve_chart(curves, request));
  return 0;
}

}  // namespace

void add_plot_command(CLI::App& app, CommandContext& context) {
  const auto [command, arguments] = add_command<PlotArguments>(
      app, context, "plot", "Compare the logs of runs, in the terminal or in one SVG picture", plot);
  command
      ->add_option(
          "RUN", arguments->runs,
          "A log that --log-json has written, or a folder with one file *.jsonl, such as a run's output folder")
      ->required();
  command->add_option("--output", arguments->output, "The picture; default: text to the terminal")->type_name("FILE");
  command
      ->add_option("--field", arguments->field,
                   "What is shown: a key of the steps in the log, such as \"grad_norm\", or \"grad_norms.h.0\" of a "
                   "table; default \"loss\". Losses and metrics of validations are dots")
      ->type_name("KEY");
  command
      ->add_option("--x", arguments->x,
                   "What it is shown over: the step, or the tokens or seconds of all steps so far; default step")
      ->check(CLI::IsMember(kCurveX));
  command->add_option("--smooth", arguments->smooth, "Show the mean of this many steps before the values; default 1")
      ->check(number_between(1, 1000000))
      ->type_name("N");
  command->add_flag("--log-y", arguments->log_y, "Use a logarithmic scale; values that are not positive are left out");
}

}  // namespace strata::host

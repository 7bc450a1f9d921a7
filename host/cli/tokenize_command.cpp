#include <fmt/format.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "cli/command_arguments.hpp"
#include "cli/commands.hpp"
#include "files/progress_bar.hpp"
#include "files/text_format.hpp"
#include "tokenizers/corpus/corpus_job.hpp"

namespace strata::host {
namespace {

using Clock = std::chrono::steady_clock;

/// The progress of a corpus and its speed.
class CorpusBar {
 public:
  explicit CorpusBar(std::ostream& stream) : bar_(stream) {}

  void show(const CorpusProgress& progress) {
    if (!bar_.is_due()) return;
    const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    if (first_bytes_ < 0) {
      first_bytes_ = progress.bytes;
      first_seconds_ = seconds;
      first_tokens_ = progress.tokens;
    }
    bar_.show(share(progress), line(progress, seconds));
  }

 private:
  static double share(const CorpusProgress& progress) {
    return static_cast<double>(progress.bytes) / static_cast<double>(progress.total_bytes);
  }

  /// The speed is that since the first report, because an earlier run may have done what is before.
  [[nodiscard]] std::string line(const CorpusProgress& progress, double seconds) const {
    const std::string text =
        fmt::format("{:.1f}%  {} of {}  {} tokens", 100 * share(progress), short_bytes(progress.bytes),
                    short_bytes(progress.total_bytes), short_number(static_cast<double>(progress.tokens)));
    const double passed = seconds - first_seconds_;
    if (progress.bytes == first_bytes_ || passed <= 0) return text;
    const double speed = static_cast<double>(progress.bytes - first_bytes_) / passed;
    return fmt::format("{}  {} tokens/s  {} left", text,
                       short_number(static_cast<double>(progress.tokens - first_tokens_) / passed),
                       short_duration(static_cast<double>(progress.total_bytes - progress.bytes) / speed));
  }

  ProgressBar bar_;
  Clock::time_point begin_ = Clock::now();
  std::int64_t first_bytes_ = -1;
  std::int64_t first_tokens_ = 0;
  double first_seconds_ = 0;
};

/// The lines of [data] with which a run reads the file.
std::string data_section(const CorpusJob& job, const CorpusResult& result) {
  std::string text = "[data]\nplugin = \"tokens\"\npath = " + to_string(OptionValue(job.output.string())) + "\n";
  if (!result.has_header && result.type == StoredType::uint32) text += "type = \"uint32\"\n";
  if (result.document_token) {
    text += "documents = \"token\"\ndocument_end = " + std::to_string(*result.document_token) + "\n";
  }
  return text;
}

int tokenize(const CorpusJob& job, CommandContext& context) {
  const Clock::time_point begin = Clock::now();
  CorpusResult result;
  {
    CorpusBar bar(context.messages);
    result = tokenize_corpus(job, [&](const CorpusProgress& progress) { bar.show(progress); });
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (result.resumed_bytes > 0) {
    context.log.info("continued after " + short_bytes(result.resumed_bytes) + " that an earlier run had tokenized");
  }
  const auto speed = static_cast<double>(result.progress.bytes - result.resumed_bytes) / seconds;
  context.log.info(fmt::format("{} in {}, {}/s", short_bytes(result.progress.bytes), short_duration(seconds),
                               short_bytes(static_cast<std::int64_t>(speed))));
  const std::int64_t special = result.progress.special_documents;
  if (special > 0 && job.special == SpecialInText::token) {
    context.log.warning(
        fmt::format("{} the text of a special token, which became that token; --special-as-text makes it plain text",
                    special == 1 ? "1 document contains" : fmt::format("{} documents contain", special)));
  }
  context.out << "tokens " << result.progress.tokens << "\ndocuments " << result.progress.documents
              << "\ndocuments_with_special_tokens " << special << "\ntype "
              << (result.type == StoredType::uint16 ? "uint16" : "uint32") << "\n\n"
              << data_section(job, result);
  return 0;
}

void add_output_options(CLI::App& command, CorpusJob& job) {
  static const std::map<std::string, StoredType> kTypes = {
      {"auto", StoredType::automatic}, {"uint16", StoredType::uint16}, {"uint32", StoredType::uint32}};
  static const std::map<std::string, StoredFormat> kFormats = {
      {"auto", StoredFormat::automatic}, {"llmc", StoredFormat::llmc}, {"raw", StoredFormat::raw}};
  const auto add_choice = [&](const std::string& name, const auto& choices, auto& value, const std::string& help) {
    command
        .add_option_function<std::string>(
            name, [&choices, &value](const std::string& text) { value = choices.at(text); }, help)
        ->check(CLI::IsMember(choices))
        ->default_str("auto");
  };
  add_choice("--dtype", kTypes, job.type, "Type of the tokens; auto: uint16 if all of the tokenizer's numbers fit");
  add_choice("--format", kFormats, job.format,
             "llmc: begin the file with llm.c's header, which has type and size; raw: tokens only; auto: llmc, or raw "
             "for inputs above 1 GiB");
}

}  // namespace

void add_tokenize_command(CLI::App& app, CommandContext& context) {
  const auto [command, job] =
      add_command<CorpusJob>(app, context, "tokenize", "Turn text files or JSON lines into a token file", tokenize);
  command
      ->add_option("TOKENIZER", job->tokenizer,
                   "A tokenizer.json of Hugging Face, a model of sentencepiece, or a folder with one of them")
      ->required();
  command
      ->add_option("INPUT", job->inputs,
                   "Text files, one document each, or JSON lines (.jsonl, .ndjson), one document a line")
      ->required();
  command->add_option("--output", job->output, "The token file to write")->type_name("FILE")->required();
  command
      ->add_option("--jsonl-field", job->field,
                   "Read all inputs as JSON lines, with the text in this key; without it, the key is text")
      ->type_name("KEY");
  add_output_options(*command, *job);
  auto* eos = command->add_flag("--append-eos", job->ends_documents,
                                "End each document with the tokenizer's end-of-text token");
  command
      ->add_option("--document-token", job->document_token,
                   "End each document with this token, given by its number or its text")
      ->type_name("TOKEN")
      ->excludes(eos);
  command->add_flag("--special-tokens", job->special_tokens,
                    "Add the tokens that the tokenizer adds before and after a text, such as <s>");
  command->add_flag_callback(
      "--special-as-text", [job = job] { job->special = SpecialInText::text; },
      "Encode the text of a special token within a document, such as <|endoftext|>, as plain text");
  command->add_option("--threads", job->threads, "Number of threads; 0: one a processor")
      ->check(number_between(0, 1024))
      ->capture_default_str();
  command->add_flag("--overwrite", job->overwrite,
                    "Replace the output, and begin anew where an earlier run was interrupted");
}

}  // namespace strata::host

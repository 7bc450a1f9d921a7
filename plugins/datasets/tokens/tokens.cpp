#include "token_files.hpp"

namespace datasets {
namespace {

using namespace strata;

class TokensFactory final : public DatasetFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::vector<DatasetInput> inputs(const Options& options) const override {
    return token_inputs(documents_of(options) != Documents::none);
  }
  [[nodiscard]] std::string unit(const Options& /*options*/) const override { return "token"; }
  [[nodiscard]] std::unique_ptr<Dataset> open(const Options& options, const DatasetRequest& request) const override {
    return std::make_unique<TokenDataset>(open_token_files(options, request));
  }

 private:
  OptionSchema schema_ = OptionSchema(token_file_options());
};

}  // namespace
}  // namespace datasets

STRATA_PLUGIN(dataset, "tokens", "0.1.0", "Apache-2.0",
              "Files of tokens: raw, with the header of llm.c, or an indexed dataset of Megatron-LM.",
              datasets::TokensFactory);

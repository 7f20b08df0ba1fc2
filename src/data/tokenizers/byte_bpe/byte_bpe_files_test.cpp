#include "data/tokenizers/byte_bpe/byte_bpe_files.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "base/test_folder.h"
#include "data/tokenizers/byte_bpe/test_byte_bpe.h"
#include "formats/gguf/test_gguf.h"

namespace mantissa {
namespace {

using nlohmann::json;

GgufBytes gguf_tokenizer(const std::string& pre = "smollm", const std::string& model = "gpt2") {
  GgufBytes file;
  std::vector<int32_t> types(test_tokens().size(), 1);
  types[4] = types[263] = 3;
  types[262] = 4;
  std::vector<std::string> merges;
  for (const auto& [left, right] : test_merges()) merges.push_back(left + " " + right);
  file.add_text("tokenizer.ggml.model", model)
      .add_text("tokenizer.ggml.pre", pre)
      .add_texts("tokenizer.ggml.tokens", test_tokens())
      .add_wholes("tokenizer.ggml.token_type", types)
      .add_texts("tokenizer.ggml.merges", merges)
      .add_whole("tokenizer.ggml.bos_token_id", 263)
      .add_whole("tokenizer.ggml.eos_token_id", 4);
  return file;
}

Result<ByteBpe> read(const GgufBytes& bytes) {
  const TestFolder folder;
  put_file(folder / "a.gguf", bytes.bytes());
  MANTISSA_ASSIGN(const GgufFile file, GgufFile::open(folder / "a.gguf"));
  return byte_bpe_of(file);
}

json json_tokenizer() {
  json vocabulary = json::object(), merges = json::array(), added = json::array();
  const std::vector<std::string> tokens = test_tokens();
  for (size_t i = 0; i < 262; ++i) vocabulary[tokens[i]] = i;
  for (const auto& [left, right] : test_merges()) merges.push_back({left, right});
  for (const int number : {4, 262, 263}) {
    added.push_back({{"id", number},
                     {"content", tokens[static_cast<size_t>(number)]},
                     {"special", number != 262},
                     {"normalized", false}});
  }
  const json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  return {{"normalizer", nullptr},
          {"added_tokens", added},
          {"pre_tokenizer",
           {{"type", "Sequence"},
            {"pretokenizers", {{{"type", "Digits"}, {"individual_digits", true}}, byte_level}}}},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges}}}};
}

std::string refusal(const Result<ByteBpe>& tokenizer) {
  return tokenizer.ok() ? "accepted" : tokenizer.error().message;
}

TEST(ByteBpeFiles, TheSameTokenizerFromBothKindsOfFiles) {
  const auto gguf = read(gguf_tokenizer());
  const auto hugging = byte_bpe_of(json_tokenizer());
  ASSERT_TRUE(gguf.ok()) << gguf.error().message;
  ASSERT_TRUE(hugging.ok()) << hugging.error().message;
  EXPECT_EQ(gguf->tokens(), hugging->tokens());
  EXPECT_EQ(gguf->merges(), hugging->merges());
  EXPECT_EQ(gguf->options().added, hugging->options().added);
  EXPECT_EQ(gguf->options().begin, 263);
  EXPECT_EQ(gguf->options().end, 4);
  EXPECT_EQ(gguf->options().first, -1);
  for (const ByteBpe* each : {&*gguf, &*hugging}) {
    EXPECT_EQ(each->options().pre_tokenizer, PreTokenizer::kSmolLm);
    EXPECT_EQ(*each->encode("abc<tool>", ByteBpe::Special::kAreText),
              (std::vector<int32_t>{258, 262}));
  }
}

TEST(ByteBpeFiles, FamiliesHaveTheirSettings) {
  const auto llama = read(gguf_tokenizer("llama-bpe"));
  ASSERT_TRUE(llama.ok());
  EXPECT_TRUE(llama->options().ignores_merges);
  EXPECT_EQ(llama->options().first, 263);  // begins every text
  GgufBytes without = gguf_tokenizer("llama-bpe");
  EXPECT_EQ(read(without.add_truth("tokenizer.ggml.add_bos_token", false))->options().first, -1);
  EXPECT_TRUE(read(gguf_tokenizer("qwen2"))->options().composes);
  EXPECT_FALSE(read(gguf_tokenizer("gpt-2"))->options().composes);
}

TEST(ByteBpeFiles, OtherGgufTokenizersAreRefusedByName) {
  EXPECT_NE(refusal(read(gguf_tokenizer("smollm", "llama"))).find("tokenizer is \"llama\""),
            std::string::npos);
  EXPECT_NE(refusal(read(gguf_tokenizer("deepseek-llm"))).find("\"deepseek-llm\"; gpt-2, smollm"),
            std::string::npos);
  EXPECT_NE(refusal(read(GgufBytes())).find("no tokenizer"), std::string::npos);
  GgufBytes space = gguf_tokenizer();
  EXPECT_NE(refusal(read(space.add_truth("tokenizer.ggml.add_space_prefix", true))).find("space"),
            std::string::npos);
  GgufBytes types;
  types.add_text("tokenizer.ggml.model", "gpt2")
      .add_text("tokenizer.ggml.pre", "gpt-2")
      .add_texts("tokenizer.ggml.tokens", {"a", "b"})
      .add_wholes("tokenizer.ggml.token_type", {1})
      .add_texts("tokenizer.ggml.merges", {});
  EXPECT_NE(refusal(read(types)).find("2 tokens and 1 types"), std::string::npos);
  GgufBytes merge;
  merge.add_text("tokenizer.ggml.model", "gpt2")
      .add_text("tokenizer.ggml.pre", "gpt-2")
      .add_texts("tokenizer.ggml.tokens", {"a", "b"})
      .add_texts("tokenizer.ggml.merges", {"ab"});
  EXPECT_NE(refusal(read(merge)).find("merge \"ab\" is no pair"), std::string::npos);
}

TEST(ByteBpeFiles, OtherTokenizerFilesAreRefusedByName) {
  const std::pair<std::function<void(json&)>, const char*> cases[] = {
      {[](json& f) {
         f["normalizer"] = {{"type", "NFKC"}};
       },
       "normalizer is \"NFKC\""},
      {[](json& f) { f["pre_tokenizer"] = nullptr; }, "pre-tokenizer is \"none\""},
      {[](json& f) { f["pre_tokenizer"]["pretokenizers"][0]["individual_digits"] = false; },
       "pre-tokenizer is"},
      {[](json& f) { f["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true; },
       "pre-tokenizer is"},
      {[](json& f) {
         f["decoder"] = {{"type", "Metaspace"}};
       },
       "decoder is \"Metaspace\""},
      {[](json& f) {
         f["post_processor"] = {{"type", "RobertaProcessing"}};
       },
       "post-processor is \"RobertaProcessing\""},
      {[](json& f) {
         f["truncation"] = {{"max_length", 3}};
       },
       "truncation"},
      {[](json& f) { f["model"]["type"] = "Unigram"; }, "model is \"Unigram\""},
      {[](json& f) { f["model"]["byte_fallback"] = true; }, "byte_fallback"},
      {[](json& f) { f["model"]["dropout"] = 0.1; }, "dropout"},
      {[](json& f) { f["model"]["continuing_subword_prefix"] = "##"; }, "subword_prefix"},
      {[](json& f) { f["model"]["vocab"]["new"] = 5; }, "a number that is another's"},
      {[](json& f) { f["model"]["vocab"]["new"] = 300; }, "no token has the number 264"},
      {[](json& f) { f["model"]["vocab"]["new"] = int64_t{1} << 60; }, "another's"},
      {[](json& f) { f["model"]["vocab"]["new"] = -1; }, "another's"},
      {[](json& f) { f["model"]["merges"].push_back("ab"); }, "is no pair"},
      {[](json& f) { f["model"]["merges"].push_back("a z"); }, "no token"},
      {[](json& f) { f["model"].erase("merges"); }, "is damaged"},
      {[](json& f) { f = json::array(); }, "no tokenizer.json"}};
  for (const auto& [change, part] : cases) {
    json file = json_tokenizer();
    change(file);
    EXPECT_NE(refusal(byte_bpe_of(file)).find(part), std::string::npos)
        << part << ": " << refusal(byte_bpe_of(file));
  }
}

TEST(ByteBpeFiles, TokensAroundATextAreTheTemplates) {
  json file = json_tokenizer();
  const json begin = {{"SpecialToken", {{"id", "<|user|>"}, {"type_id", 0}}}};
  const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const json processor = {{"type", "TemplateProcessing"},
                          {"single", {begin, text}},
                          {"special_tokens", {{"<|user|>", {{"id", "<|user|>"}, {"ids", {263}}}}}}};
  file["post_processor"] = {{"type", "Sequence"},
                            {"processors", {{{"type", "ByteLevel"}}, processor}}};
  const auto tokenizer = byte_bpe_of(file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->options().first, 263);
  EXPECT_EQ(tokenizer->options().last, -1);
  file["post_processor"]["processors"][1]["single"] = {begin, begin, text};
  EXPECT_NE(refusal(byte_bpe_of(file)).find("more tokens"), std::string::npos);
}

TEST(ByteBpeFiles, FoldersHaveTokensThatEndTextsAndTemplates) {
  const TestFolder folder;
  put_file(folder / "tokenizer.json", json_tokenizer().dump());
  put_file(folder / "tokenizer_config.json",
           std::string(R"({"eos_token": "<|end|>", "bos_token": {"content": "<|user|>"},
                           "chat_template": [{"name": "tools", "template": "x"},
                                             {"name": "default", "template": "y"}]})"));
  const auto tokenizer = read_byte_bpe(folder.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->options().end, 4);
  EXPECT_EQ(tokenizer->options().begin, 263);
  EXPECT_EQ(*read_chat_template(folder.path()), "y");
  put_file(folder / "chat_template.jinja", std::string("z"));
  EXPECT_EQ(*read_chat_template(folder.path()), "z");
  put_file(folder / "tokenizer_config.json", std::string(R"({"eos_token": "<|none|>"})"));
  EXPECT_NE(refusal(read_byte_bpe(folder.path())).find("\"<|none|>\" is no token"),
            std::string::npos);
  put_file(folder / "tokenizer_config.json", std::string(R"({"add_prefix_space": true})"));
  EXPECT_NE(refusal(read_byte_bpe(folder.path())).find("add_prefix_space"), std::string::npos);
  put_file(folder / "tokenizer_config.json", std::string("["));
  EXPECT_NE(refusal(read_byte_bpe(folder.path())).find("tokenizer_config.json"), std::string::npos);
}

TEST(ByteBpeFiles, EntriesGoThereAndBack) {
  const auto tokenizer = read(gguf_tokenizer("llama-bpe"));
  ASSERT_TRUE(tokenizer.ok());
  const ChatTemplate chat = {.system = "Be \"kind\"."};
  const std::string entry = to_json(*tokenizer, chat);
  EXPECT_TRUE(is_byte_bpe(entry));
  const auto again = parse_byte_bpe(entry);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->tokenizer.tokens(), tokenizer->tokens());
  EXPECT_EQ(again->tokenizer.merges(), test_merges());
  EXPECT_EQ(again->tokenizer.options(), tokenizer->options());
  EXPECT_EQ(again->chat, chat);
  EXPECT_FALSE(parse_byte_bpe(to_json(*tokenizer, std::nullopt))->chat.has_value());
  for (const char* damaged : {"", "[]", "{}", R"({"kind":"byte_bpe"})", R"({"kind":3})"}) {
    EXPECT_FALSE(parse_byte_bpe(damaged).ok()) << damaged;
  }
  EXPECT_FALSE(is_byte_bpe(R"({"kind":"wordpiece"})"));
}

}  // namespace
}  // namespace mantissa

"""Small tokenizers of every kind, trained with the libraries of Hugging Face and of sentencepiece."""
import io
import json

import sentencepiece
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers)

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
VOCABULARY = 1500
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def trained(tokenizer, lines, special=(), **options):
    if isinstance(tokenizer.model, models.Unigram):
        trainer = trainers.UnigramTrainer(vocab_size=VOCABULARY, unk_token="<unk>", show_progress=False,
                                          special_tokens=list(special), **options)
    else:
        trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, show_progress=False, special_tokens=list(special), **options)
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def edited(tokenizer, change):
    content = json.loads(tokenizer.to_str())
    change(content)
    return Tokenizer.from_str(json.dumps(content))


def byte_level(pre_tokenizer, lines, normalizer=None, special=("<|endoftext|>",), **model):
    tokenizer = Tokenizer(models.BPE(**model))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    return trained(tokenizer, lines, special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), behavior, invert),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def gpt2(lines, **options):
    return byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False, **options), lines)


def llama3(lines):
    tokenizer = byte_level(split(LLAMA3), lines, special=["<|begin_of_text|>", "<|end_of_text|>"], ignore_merges=True)
    tokenizer.post_processor = processors.Sequence(
        [processors.ByteLevel(trim_offsets=False),
         processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", 0)])])
    return tokenizer


def roberta(lines):
    tokenizer = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), lines, special=["<s>", "</s>", "<unk>"])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    return tokenizer


def added(lines):
    """Added tokens with every flag."""
    tokenizer = byte_level(split(QWEN2), lines, normalizer=normalizers.NFC())
    tokenizer.add_tokens([AddedToken("time", single_word=True), AddedToken("<left>", lstrip=True, normalized=False),
                          AddedToken("<right>", rstrip=True), AddedToken("<|im_start|>", normalized=False),
                          AddedToken("<both>", lstrip=True, rstrip=True, normalized=True), AddedToken("  "),
                          AddedToken("é"), AddedToken("e\u0301", normalized=False), AddedToken("<|im"),
                          AddedToken("だもの", single_word=True)])
    return tokenizer


def with_bytes(content, unknown="<unk>"):
    """Puts the names of the bytes before a vocabulary."""
    model = content["model"]
    model["byte_fallback"] = True
    if model["type"] == "Unigram":
        model["vocab"] = model["vocab"][:1] + [[name, -9.0] for name in BYTES] + model["vocab"][1:]
        return
    texts = [text for text, _ in sorted(model["vocab"].items(), key=lambda item: item[1])]
    texts = [unknown, "<s>", "</s>"] + BYTES + [text for text in texts if text not in (unknown, "<s>", "</s>")]
    model["vocab"] = {text: number for number, text in enumerate(texts)}


def llama2(lines, across=False):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    mark = pre_tokenizers.Metaspace(prepend_scheme="always", split=not across)
    tokenizer.pre_tokenizer = mark
    trained(tokenizer, lines, ["<unk>", "<s>", "</s>"], limit_alphabet=300, max_token_length=16)

    def change(content):
        with_bytes(content)
        content["pre_tokenizer"] = None
        content["normalizer"] = {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
        content["decoder"] = {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
        content["post_processor"] = {
            "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                                     {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
    return edited(tokenizer, change)


def mistral(lines):
    """Marks before the first word only, and unknown letters where bytes are missing."""
    def change(content):
        content["normalizer"] = None
        content["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
        content["model"]["byte_fallback"] = False
    return edited(llama2(lines), change)


def gemma(lines):
    """Marks by the normalizer alone, before which no word has one. The pre-tokenizer finds no space afterwards."""
    def change(content):
        content["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
        content["pre_tokenizer"] = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
                                    "invert": False}
        content["decoder"]["decoders"].pop()
    return edited(llama2(lines, across=True), change)


def beginnings(lines):
    """A mark before the first word only, and normalizers that may remove what is before it."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFD(), normalizers.StripAccents(),
                                                 normalizers.Replace("th", ""), normalizers.Replace(Regex(" {2,}"), " "),
                                                 normalizers.Strip(left=True, right=False)])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    return trained(tokenizer, lines, ["<unk>"])


def unigram(lines, charsmap=None, fallback=False):
    tokenizer = Tokenizer(models.Unigram())
    steps = [normalizers.Replace(Regex(" {2,}"), " ")]
    steps = [normalizers.Precompiled(charsmap)] + steps if charsmap else [normalizers.NFKC(), normalizers.Strip()] + steps
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    trained(tokenizer, lines, ["<unk>", "<s>", "</s>"])
    if fallback:
        tokenizer = edited(tokenizer, with_bytes)
        tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="always")])
    return tokenizer


def words(lines):
    """Steps that the families above do not have, as CLIP and older models use them."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", continuing_subword_prefix="##"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(),
                                                 normalizers.Replace(Regex(r"\s+"), " "), normalizers.Nmt()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(),
                                                       pre_tokenizers.Digits(individual_digits=False)])
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    return trained(tokenizer, lines, ["<unk>"], limit_alphabet=200, end_of_word_suffix="</w>",
                   continuing_subword_prefix="##")


def behaviors(lines):
    """Every place of a separator."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFKD()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split("\n", "merged_with_previous"), pre_tokenizers.Split(Regex(r"[.,!?]"), "merged_with_next"),
        pre_tokenizers.Split(Regex(r"[\p{Lu}]+"), "contiguous"), pre_tokenizers.Whitespace(),
        pre_tokenizers.Split(Regex(r"\d"), "contiguous"), pre_tokenizers.Split(Regex(r"[^q]+"), "removed", invert=True),
        pre_tokenizers.Split(Regex(r"\x{7684}+|[\x{4e00}-\x{4e20}]"), "isolated"), pre_tokenizers.CharDelimiterSplit("z")])
    return trained(tokenizer, lines, limit_alphabet=400)


def whitespace(lines):
    """A space before each word shows where the words end."""
    return byte_level(pre_tokenizers.Sequence([pre_tokenizers.Whitespace(),
                                               pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False)]), lines)


def falcon(lines):
    return byte_level(pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
        pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")]), lines)


def bert(lines, **options):
    """BERT's steps."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20))
    tokenizer.normalizer = normalizers.BertNormalizer(**options)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=VOCABULARY, show_progress=False, limit_alphabet=300,
                                        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(text, tokenizer.token_to_id(text)) for text in ("[CLS]", "[SEP]")])
    return tokenizer


def sentencepiece_model(lines, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=VOCABULARY, minloglevel=2, hard_vocab_limit=False,
        num_threads=1, max_sentence_length=1 << 20, **options)
    return model.getvalue()


def charsmap_of(model):
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model)
    return proto.normalizer_spec.precompiled_charsmap


def hugging_face_tokenizers(lines, charsmap):
    digits = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                      pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return {
        "gpt2": gpt2(lines), "roberta": roberta(lines), "llama3": llama3(lines), "smollm": byte_level(digits, lines),
        "qwen2": byte_level(split(QWEN2), lines, normalizer=normalizers.NFC()), "gpt4o": byte_level(split(GPT4O), lines),
        "added": added(lines), "llama2": llama2(lines), "llama2_across": llama2(lines, across=True),
        "mistral": mistral(lines), "gemma": gemma(lines), "unigram": unigram(lines), "unigram_bytes": unigram(lines, fallback=True),
        "unigram_charsmap": unigram(lines, charsmap), "words": words(lines), "behaviors": behaviors(lines),
        "whitespace": whitespace(lines), "beginnings": beginnings(lines),
        "falcon": falcon(lines), "bert": bert(lines),
        "bert_cased": bert(lines, lowercase=False, strip_accents=False, handle_chinese_chars=False),
        "bert_accents": bert(lines, lowercase=True, strip_accents=False, clean_text=False)}


def sentencepiece_models(lines):
    return {"sp_unigram": sentencepiece_model(lines, model_type="unigram"),
            "sp_bpe": sentencepiece_model(lines, model_type="bpe", byte_fallback=True, split_digits=True,
                                          normalization_rule_name="identity", remove_extra_whitespaces=False)}

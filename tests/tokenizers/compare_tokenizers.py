"""Compares Strata's tokenizers with Hugging Face's and sentencepiece's: tokens and decoded texts.

Usage: compare_tokenizers.py TOKENIZER_ANSWERS STRATA FOLDER"""
import json
import os
import shutil
import subprocess
import sys
import unicodedata

import numpy
import sentencepiece
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from make_texts import Texts
from make_tokenizers import charsmap_of, hugging_face_tokenizers, sentencepiece_models


def write_lines(path, values):
    with open(path, "w", encoding="utf-8") as file:
        for value in values:
            file.write(json.dumps(value) + "\n")


class HuggingFace:
    def __init__(self, tokenizer):
        self.tokenizer = Tokenizer.from_str(tokenizer)

    def encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def encode_as_text(self, text):
        self.tokenizer.encode_special_tokens = True
        tokens = self.encode(text)
        self.tokenizer.encode_special_tokens = False
        return tokens

    def decode(self, tokens, special):
        return self.tokenizer.decode(tokens, skip_special_tokens=not special)

    def frame(self):
        return self.tokenizer.encode("", add_special_tokens=True).ids


class SentencePiece:
    def __init__(self, model):
        self.processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    def encode(self, text):
        return self.processor.encode(text)

    encode_as_text = encode

    def decode(self, tokens, special):
        return self.processor.decode(tokens)

    def frame(self):
        return [self.processor.bos_id()]


def compare(name, expected, path, texts, answers_program, folder):
    texts_path, answers_path = os.path.join(folder, "texts.jsonl"), os.path.join(folder, "answers.jsonl")
    subprocess.run([answers_program, path, texts_path, answers_path], check=True)
    with open(answers_path, encoding="utf-8") as file:
        head, *answers = [json.loads(line) for line in file]
    assert len(answers) == len(texts), name
    # An empty text may have a token of its own, such as the mark of a space.
    assert head["first"] + expected.encode("") + head["last"] == expected.frame(), (name, head, expected.frame())
    wrong = same = 0
    for text, answer in zip(texts, answers):
        tokens = expected.encode(text)
        checks = [(tokens, answer["tokens"]), (expected.encode_as_text(text), answer["as_text"])]
        for special, key in ((True, "all"), (False, "plain")):
            decoded = expected.decode(tokens, special)
            checks.append((decoded, answer[key]))
            same += special and decoded == text
        for wanted, found in checks:
            if wanted == found:
                continue
            wrong += 1
            at = next((i for i, (a, b) in enumerate(zip(wanted, found)) if a != b), min(len(wanted), len(found)))
            if wrong < 4:
                print(f"{name}: {text[:200]!r}: at {at}: expected {wanted[max(at - 3, 0):at + 5]!r}, "
                      f"found {found[max(at - 3, 0):at + 5]!r}")
    print(f"{name}: {len(texts)} texts, {same} return unchanged, {wrong} differences")
    return wrong


def tokenizers_of_code_points():
    """Tokenizers whose tokens show every byte of the normalised text, and where it is split."""
    tokens = [f"<0x{byte:02X}>" for byte in range(256)] + ["\u2581"]
    for name, normalizer, pre_tokenizer in (
            *((form, getattr(normalizers, form)(), None) for form in ("NFC", "NFD", "NFKC", "NFKD", "StripAccents",
                                                                      "Lowercase")),
            ("BertNormalizer", normalizers.BertNormalizer(), None),
            ("Punctuation", None, pre_tokenizers.Punctuation()),
            ("Digits", None, pre_tokenizers.Digits(individual_digits=True)),
            ("WhitespaceSplit", None, pre_tokenizers.WhitespaceSplit())):
        tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=[],
                                         byte_fallback=True))
        if normalizer:
            tokenizer.normalizer = normalizer
        if pre_tokenizer:
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizer, pre_tokenizers.Metaspace()])
        yield name, tokenizer


def texts_of_code_points():
    """Every assigned code point alone and between marks of the highest and the lowest class. Of the ideographs and the
    syllables of Hangul, which are alike, every 16th."""
    alike = [*range(0x3400, 0xA000), *range(0xAC00, 0xD7A4), *range(0x20000, 0x2F800), *range(0x30000, 0x40000)]
    skipped = {c for c in alike if c % 16}
    points = [chr(c) for c in range(0x110000)
              if c not in skipped and unicodedata.category(chr(c)) not in ("Cn", "Co", "Cs")]
    pieces = [f"{point}a\u0345{point}\u0334" for point in points] + ["\U00011935\U00011930", "\U00011131\U00011127"]
    return ["".join(pieces[begin:begin + 500]) for begin in range(0, len(pieces), 500)]


def compare_token_file(tokenizer_path, texts, strata, folder):
    """`strata tokenize` on two threads writes the tokens of all texts in their order."""
    inputs, output = os.path.join(folder, "inputs.jsonl"), os.path.join(folder, "tokens.bin")
    write_lines(inputs, [{"text": text} for text in texts])
    subprocess.run([strata, "tokenize", tokenizer_path, inputs, "--output", output, "--threads", "2", "--format", "raw",
                    "--overwrite"], check=True, capture_output=True)
    tokenizer = Tokenizer.from_file(tokenizer_path)
    expected = [token for text in texts for token in tokenizer.encode(text, add_special_tokens=False).ids]
    found = numpy.fromfile(output, dtype=numpy.uint16).tolist()
    print(f"token file: {len(found)} tokens, {'equal' if found == expected else 'different'}")
    return found != expected


def check_added_tokens_beside_models(model, strata, folder):
    """A model of sentencepiece does not know the tokens that the files beside it add. Texts with one are refused."""
    beside = os.path.join(folder, "beside")
    shutil.rmtree(beside, ignore_errors=True)
    os.makedirs(beside)
    with open(os.path.join(beside, "tokenizer.model"), "wb") as file:
        file.write(model)
    inputs = os.path.join(folder, "inputs.jsonl")
    wrong = 0
    for name, content, code in (
            ("tokenizer_config.json", {"added_tokens_decoder": {"1": {"content": "<s>"}, "2": {"content": "</s>"}}}, 0),
            ("tokenizer_config.json", {"added_tokens_decoder": {"1500": {"content": "<|im_start|>"}}}, 2),
            ("tokenizer_config.json", {}, 0),
            ("added_tokens.json", {"<pad>": 1500}, 0),
            ("added_tokens.json", {"<|im_start|>": 1500}, 2)):
        write_lines(inputs, [{"text": "a <|im_start|> b"}, {"text": "c"}])
        with open(os.path.join(beside, name), "w", encoding="utf-8") as file:
            json.dump(content, file)
        run = subprocess.run([strata, "tokenize", beside, inputs, "--output", os.path.join(beside, "tokens.bin"),
                              "--overwrite"], capture_output=True, text=True)
        if run.returncode != code or (code == 2) != ("the text has the added token '<|im_start|>'" in run.stderr):
            wrong += 1
            print(f"{name} with {content}: exit code {run.returncode}: {run.stderr}")
    return wrong


def main():
    answers_program, strata, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    lines = [Texts(1).text(400) for _ in range(250)]
    long_text = Texts(2).text(1 << 20)
    texts = [long_text] + Texts(3).shorts(2500) + [Texts(4 + i).text(2000) for i in range(30)]
    texts = [text.encode("utf-8", "ignore").decode() for text in texts]
    write_lines(os.path.join(folder, "texts.jsonl"), texts)
    sentencepieces = sentencepiece_models([line for text in lines for line in text.split("\n")])
    wrong = 0
    for name, tokenizer in hugging_face_tokenizers(lines, charsmap_of(sentencepieces["sp_unigram"])).items():
        path = os.path.join(folder, name + ".json")
        content = tokenizer.to_str()
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        wrong += compare(name, HuggingFace(content), path, texts, answers_program, folder)
    points = texts_of_code_points()
    write_lines(os.path.join(folder, "texts.jsonl"), points)
    for name, tokenizer in tokenizers_of_code_points():
        path = os.path.join(folder, name + ".json")
        tokenizer.save(path)
        wrong += compare(name, HuggingFace(tokenizer.to_str()), path, points, answers_program, folder)
    write_lines(os.path.join(folder, "texts.jsonl"), texts)
    for name, model in sentencepieces.items():
        path = os.path.join(folder, name + ".model")
        with open(path, "wb") as file:
            file.write(model)
        wrong += compare(name, SentencePiece(model), path, texts, answers_program, folder)
    wrong += check_added_tokens_beside_models(sentencepieces["sp_bpe"], strata, folder)
    wrong += compare_token_file(os.path.join(folder, "llama3.json"), texts, strata, folder)
    return 1 if wrong else 0


sys.exit(main())

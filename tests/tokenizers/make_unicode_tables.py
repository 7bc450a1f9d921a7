"""Prints the tables of host/tokenizers/unicode.cpp: code points that Hugging Face's tokenizers treat by older
versions of Unicode. Usage: pip install tokenizers unicodedata2==17.0.0; python make_unicode_tables.py"""
import unicodedata2
from tokenizers import normalizers, pre_tokenizers

FORMS = {"NFC": normalizers.NFC(), "NFD": normalizers.NFD(), "NFKC": normalizers.NFKC(), "NFKD": normalizers.NFKD()}
PUNCTUATION = pre_tokenizers.Punctuation()
STRIP_ACCENTS = normalizers.StripAccents()
CODE_POINTS = [chr(c) for c in range(0x80, 0x110000) if unicodedata2.category(chr(c)) not in ("Cn", "Cs")]


def differs(text):
    return any(form.normalize_str(text) != unicodedata2.normalize(name, text) for name, form in FORMS.items())


def unknown_to_normal_forms():
    """Those that change alone or are reordered between marks there, and those that begin a pair that is composed."""
    unknown = {c for c in CODE_POINTS if differs(c) or differs("a\u0345" + c + "\u0334")}
    for composed in CODE_POINTS:
        parts = unicodedata2.decomposition(composed).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            pair = "".join(chr(int(part, 16)) for part in parts)
            if differs(pair):
                unknown.add(pair[0])
    return unknown


def print_table(name, characters):
    print(f"constexpr CodePoints {name}[] = {{")
    points = sorted(ord(c) for c in characters)
    while points:
        end = next((i for i, point in enumerate(points) if point != points[0] + i), len(points))
        print(f"{{0x{points[0]:X}, 0x{points[end - 1]:X}}},")
        del points[:end]
    print("};")


punctuation = {c for c in CODE_POINTS if len(PUNCTUATION.pre_tokenize_str("a" + c + "a")) == 3}
marks = {c for c in CODE_POINTS if STRIP_ACCENTS.normalize_str(c) == ""}
print_table("kWithoutNormalForm", unknown_to_normal_forms())
for name, known, category in (("Punctuation", punctuation, "P"), ("Mark", marks, "M")):
    print_table(f"kNo{name}Yet", {c for c in CODE_POINTS if unicodedata2.category(c)[0] == category} - known)
    print_table(f"k{name}Once", {c for c in known if unicodedata2.category(c)[0] != category})

BERT = dict(handle_chinese_chars=False, lowercase=False)
STRIP = normalizers.BertNormalizer(clean_text=False, strip_accents=True, **BERT)
CLEAN = normalizers.BertNormalizer(clean_text=True, strip_accents=False, **BERT)
print_table("kNoNonspacingYet", {c for c in CODE_POINTS if unicodedata2.category(c) == "Mn" and STRIP.normalize_str(c)})
print_table("kNoControlYet", {c for c in CODE_POINTS if unicodedata2.category(c) in ("Cc", "Cf", "Co")
                              and CLEAN.normalize_str("a" + c + "a") != "aa"})

"""Makes whole configurations of the fragments in pages."""
import json
import re
import tomllib

GPT2 = {"plugin": "gpt2", "layers": 8, "heads": 16, "embed": 64, "context": 64, "vocab": 512, "dropout": 0.0}
LLAMA = {"plugin": "llama", "layers": 8, "heads": 16, "kv_heads": 16, "embed": 64, "ffn": 128, "context": 64, "vocab": 512}
# What a fragment does not say. `page`: on which pages; "" on all. Later rows win.
BASE = (
    ("", {"run": {"steps": 100}, "model": GPT2, "data": {"plugin": "text", "path": "my.txt"},
          "batch": {"global": 128, "micro": 1}, "optimizer": {"plugin": "adamw"}}),
    ("docs/strategies/lora.md", {"model": LLAMA}),
    ("docs/strategies/expert.md", {"model": {**LLAMA, "plugin": "mixture", "experts": 8}}),
    ("docs/strategies/layout.md", {"batch": {"global": 128, "micro": 4}}),
    ("docs/data.md", {"data": {"plugin": "tokens", "path": "train.bin", "documents": "token", "document_end": 7}}),
)


def value_text(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {value_text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(value_text, value)) + "]"
    return json.dumps(value)


def toml_text(configuration):
    """The configuration as TOML, tables within tables inline."""
    text = ""
    for name, section in configuration.items():
        for table in section if isinstance(section, list) else [section]:
            text += f"[[{name}]]\n" if isinstance(section, list) else f"[{name}]\n"
            text += "".join(f"{key} = {value_text(value)}\n" for key, value in table.items())
    return text


def completed(fragment, page):
    """The TOML of a run that has the sections of the fragment, and others from BASE."""
    whole = {}
    for where, sections in BASE:
        if page.startswith(where):
            whole |= sections
    whole |= fragment
    # Some fragments say something of a section that another one selects.
    for name in ("run", "model", "data", "optimizer"):
        base = next(sections[name] for where, sections in reversed(BASE) if name in sections and page.startswith(where))
        given = fragment.get(name, {})
        if not {"plugin", "from"} & set(given):
            whole[name] = base | given
        elif given.get("plugin") == base.get("plugin") and not {"size", "paths"} & set(given):
            whole[name] = base | given
    return toml_text(whole)


def file_of(block):
    """The file that a block is, by a comment in its first line such as "# lora.toml"."""
    found = re.match(r"# (\S+\.toml)(: .*)?\n", block.text)
    return found and found[1]


def named_files(blocks):
    """The texts of the files that blocks of a page are."""
    files = {}
    for block in blocks:
        if made := re.match(r'# (\S+\.toml): (\S+\.toml) with "(\S+)" and these strategies\n', block.text):
            others = files[made[2]].split("[[strategy]]")[0]
            files[made[1]] = re.sub(r'output = "\S+"', f'output = "{made[3]}"', others) + block.text
        elif name := file_of(block):
            files[name] = block.text
    return files

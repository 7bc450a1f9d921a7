# Makes the data of reverse.toml and majority.toml, in the folder letters of the current one: 20,000 strings of 3 to 12
# random letters. Usage: sh make.sh
#
# source.tokens, target.tokens: the strings, and each of them reversed.
# labels.bin: for each string a 1 of 16 bits if most of its letters are from a to h, else a 0.
set -eu
mkdir -p letters
cp "$(dirname "$0")/tokenizer.json" letters
awk 'BEGIN {
  srand(7)
  for (n = 0; n < 20000; n++) {
    text = ""; reversed = ""; count = 3 + int(rand() * 10); early = 0
    for (i = 0; i < count; i++) {
      letter = substr("abcdefghijklmnop", 1 + int(rand() * 16), 1)
      if (letter <= "h") early++
      text = text letter; reversed = letter reversed
    }
    printf "{\"text\": \"%s\"}\n", text > "letters/source.jsonl"
    printf "{\"text\": \"%s\"}\n", reversed > "letters/target.jsonl"
    printf "%c%c", (2 * early > count), 0 > "letters/labels.bin"
  }
}'
for name in source target; do
  strata tokenize letters/tokenizer.json letters/$name.jsonl --output letters/$name.tokens --document-token "</s>" --overwrite
done

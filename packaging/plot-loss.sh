#!/bin/sh
# Draws the loss curve of a run from the lines of --log-json: blocks to the terminal, and an SVG file.
# Usage: sh packaging/plot-loss.sh LOG.jsonl OUT.svg
set -eu
[ $# -eq 2 ] || { echo "usage: sh packaging/plot-loss.sh LOG.jsonl OUT.svg" >&2; exit 2; }

awk -v svg="$2" '
# The number behind "key": in a JSON line, or the empty string.
function field(key) {
  if (!match($0, "\"" key "\":[ ]*-?[0-9][-+.0-9eE]*")) return ""
  value = substr($0, RSTART, RLENGTH)
  sub(/^[^:]*:[ ]*/, "", value)
  return value + 0
}
function note(value) { if (value > high) high = value; if (value < low) low = value }

BEGIN { high = -1e300; low = 1e300; count = valid_count = 0 }
{
  step = field("step"); loss = field("loss")
  if (step == "" || loss == "") next
  if (step > last) last = step
  note(loss)
  if (/"event":[ ]*"eval"/) { valid_at[valid_count] = step; valid[valid_count++] = loss }
  else { at[count] = step; train[count++] = loss }
}

function x(step) { return sprintf("%.1f", left + (last > 0 ? step / last : 0) * (width - left - right)) }
function y(loss) { return sprintf("%.1f", top + (high - loss) / (high - low) * (height - top - bottom)) }
function line(steps, values, n, style,   i, points) {
  for (i = 0; i < n; i++) points = points " " x(steps[i]) "," y(values[i])
  printf "<polyline fill=\"none\" %s points=\"%s\"/>\n", style, points > svg
}
function text(at_x, at_y, anchor, words) {
  printf "<text x=\"%s\" y=\"%s\" text-anchor=\"%s\">%s</text>\n", at_x, at_y, anchor, words > svg
}

function draw_svg(   i, value) {
  width = 720; height = 360; left = 60; right = 20; top = 24; bottom = 44
  printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n",
    width, height > svg
  printf "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n" > svg
  for (i = 0; i <= 4; i++) {
    value = low + (high - low) * i / 4
    printf "<line x1=\"%d\" x2=\"%d\" y1=\"%s\" y2=\"%s\" stroke=\"#ddd\"/>\n", left, width - right, y(value), y(value) > svg
    text(left - 8, y(value) + 4, "end", sprintf("%.2f", value))
    text(x(last * i / 4), height - bottom + 18, "middle", sprintf("%d", last * i / 4))
  }
  text((width + left - right) / 2, height - 8, "middle", "step")
  line(at, train, count, "stroke=\"#4477aa\" stroke-width=\"1.2\"")
  line(valid_at, valid, valid_count, "stroke=\"#cc3311\" stroke-width=\"2\"")
  printf "<g fill=\"#4477aa\">" > svg; text(width - right - 110, top, "end", "training loss"); printf "</g>" > svg
  if (valid_count) {
    printf "<g fill=\"#cc3311\">" > svg; text(width - right, top, "end", "validation loss"); printf "</g>" > svg
  }
  print "</svg>" > svg
  close(svg)
}

# Columns of eighth-blocks, each the mean of its share of the steps; the curve stands on the lowest loss.
function draw_blocks(   columns, rows, c, r, i, sum, n, fill, picture) {
  columns = count < 64 ? count : 64; rows = 8
  split("▁ ▂ ▃ ▄ ▅ ▆ ▇ █", block, " ")
  for (c = 0; c < columns; c++) {
    sum = n = 0
    for (i = int(c * count / columns); i < int((c + 1) * count / columns); i++) { sum += train[i]; n++ }
    level[c] = int((sum / n - low) / (high - low) * (rows * 8 - 1)) + 1
  }
  for (r = rows - 1; r >= 0; r--) {
    picture = (r == rows - 1) ? sprintf("%8.3f ", high) : (r == 0) ? sprintf("%8.3f ", low) : "         "
    for (c = 0; c < columns; c++) {
      fill = level[c] - r * 8
      picture = picture (fill <= 0 ? " " : block[fill > 8 ? 8 : fill])
    }
    print picture
  }
  printf "         training loss, steps %d to %d\n", at[0], last
}

END {
  if (count < 2) { print "plot-loss: fewer than two steps in the log" > "/dev/stderr"; exit 1 }
  if (high == low) high = low + 1
  draw_svg()
  draw_blocks()
}' "$1"

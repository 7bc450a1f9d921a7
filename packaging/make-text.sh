#!/bin/sh
# Writes a text of about 400 KB made from a small grammar, which a small model learns within minutes.
# Usage: sh packaging/make-text.sh > FILE
exec awk '
# The minimal standard generator, exact in double precision: no seed from the clock, so the text is always the same.
function random(n) { state = (state * 16807) % 2147483647; return state % n }
function one_of(words,   list, count) { count = split(words, list, "/"); return list[random(count) + 1] }
function capital(s) { return toupper(substr(s, 1, 1)) substr(s, 2) }

function person() { return one_of("the miller/the old king/the ferryman/my sister/the young queen/the baker/a stranger/the piper") }
function place()  { return one_of("the river/the mill/the market/the tower/the orchard/the northern road/the harbour") }
function thing()  { return one_of("silver coin/loaf of bread/letter/wooden flute/red apple/lantern/heavy key") }
function count_of() { return one_of("one/two/three/seven") }
function things(   n, t) { n = count_of(); t = thing(); sub(/loaf/, n == "one" ? "loaf" : "loaves", t)
                           return n " " (n == "one" || t ~ /loaves/ ? t : t "s") }
function when()   { return one_of("in the morning/at nightfall/before the rain/after the harvest/when the bells rang") }
function weather() { return one_of("The wind was cold/The river ran high/Snow lay on the road/The stars were bright") }

function sentence(   kind) {
  kind = random(6)
  if (kind == 0) return capital(person()) " gave " things() " to " person() " " when() "."
  if (kind == 1) return capital(person()) " walked from " place() " to " place() " " when() "."
  if (kind == 2) return weather() ", and " person() " stayed near " place() "."
  if (kind == 3) return "Who has taken " things() " from " person() "?"
  if (kind == 4) return capital(when()) " " person() " sang of " things() " and of " place() "."
  return "If " person() " comes to " place() ", " person() " will bring " things() "."
}

BEGIN {
  state = 1337
  while (written < 400000) {
    speech = toupper(one_of("miller/king/ferryman/queen/baker/piper")) ":\n"
    for (i = random(3); i >= 0; i--) speech = speech sentence() "\n"
    printf "%s\n", speech
    written += length(speech) + 1
  }
}' </dev/null

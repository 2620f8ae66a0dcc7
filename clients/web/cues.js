// A transcript as txt, srt and vtt. Cues are made as daemon/captions.py makes them, which says why.

import { joined } from "./languages.js";

const LINE_COLUMNS = 42;
const LINES = 2;
const READ_COLUMNS_PER_S = 20;
const SHORTEST_S = 1;
const LONGEST_S = 7;
const MOST_LATE_S = 2;
const SENTENCE_END = /[.?!\u3002\uff1f\uff01]$/;
const WIDE = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\u3000-\u303f\uff01-\uff60]/u;

// spoken: what Transcript.spoken gives. form: "txt", "srt" or "vtt".
export function written(spoken, form) {
  if (form === "txt") return spoken.map(({ text }) => `${text}\n`).join("");
  const blocks = cues(spoken).map((cue, i) => (form === "srt" ? srt(cue, i + 1) : vtt(cue)));
  return (form === "vtt" ? "WEBVTT\n\n" : "") + blocks.join("");
}

function cues(spoken) {
  const made = [];
  for (const said of spoken) {
    const join = (words) => words.map(({ text }) => text).join(joined(said.language) ? "" : " ");
    for (const group of groups((said.words ?? spread(said)).flatMap(pieces), join)) {
      const lines = twoLines(group, join);
      const start = Math.max(group[0].start, made.at(-1)?.end ?? 0);
      const toRead = lines.reduce((sum, line) => sum + columns(line), 0) / READ_COLUMNS_PER_S;
      const least = start - group[0].start < MOST_LATE_S ? Math.max(SHORTEST_S, toRead) : SHORTEST_S;
      made.push({ start, end: Math.min(Math.max(group.at(-1).end, start + least), start + LONGEST_S), lines });
    }
  }
  return made;
}

function groups(words, join) {
  const made = [];
  let group = [];
  for (const word of words) {
    if (group.length > 0 && (wrapped([...group, word], join) > LINES || word.end - group[0].start > LONGEST_S)) {
      made.push(group);
      group = [];
    }
    group.push(word);
    if (SENTENCE_END.test(word.text) && word.end - group[0].start >= SHORTEST_S) {
      made.push(group);
      group = [];
    }
  }
  return group.length > 0 ? [...made, group] : made;
}

// How many lines words take, each as full as can be.
function wrapped(words, join) {
  let lines = 0;
  let line = [];
  for (const word of words) {
    if (line.length > 0 && columns(join([...line, word])) <= LINE_COLUMNS) {
      line.push(word);
    } else {
      line = [word];
      lines += 1;
    }
  }
  return lines;
}

function twoLines(words, join) {
  const whole = join(words);
  if (columns(whole) <= LINE_COLUMNS) return [whole];
  let best = null;
  for (let i = 1; i < words.length; i += 1) {
    const lines = [join(words.slice(0, i)), join(words.slice(i))];
    const [first, second] = lines.map(columns);
    const widest = Math.max(first, second);
    if (best === null || widest < best.widest || (widest === best.widest && second > best.second)) {
      best = { lines, widest, second };
    }
  }
  return best.lines;
}

// Words whose times are not known, as if each character took as long as any other.
function spread({ text, start, end, language }) {
  const share = (end - start) / Math.max(1, text.length);
  const parts = joined(language) ? /\S[\p{M}\p{P}]*/gu : /\S+/gu;
  return [...text.matchAll(parts)].map(({ 0: part, index }) => ({
    text: part,
    start: start + share * index,
    end: start + share * (index + part.length),
  }));
}

// A word, cut if it is longer than a line.
function pieces(word) {
  if (columns(word.text) <= LINE_COLUMNS) return [word];
  const characters = [...word.text];
  const size = LINE_COLUMNS / 2;
  const count = Math.ceil(characters.length / size);
  const share = (word.end - word.start) / count;
  return Array.from({ length: count }, (_, i) => ({
    text: characters.slice(size * i, size * (i + 1)).join(""),
    start: word.start + share * i,
    end: word.start + share * (i + 1),
  }));
}

function columns(text) {
  return [...text].reduce((sum, one) => sum + (/\p{Mn}/u.test(one) ? 0 : WIDE.test(one) ? 2 : 1), 0);
}

function srt({ start, end, lines }, number) {
  return `${number}\n${clock(start, ",")} --> ${clock(end, ",")}\n${lines.join("\n")}\n\n`;
}

function vtt({ start, end, lines }) {
  const text = lines.join("\n").replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return `${clock(start, ".")} --> ${clock(end, ".")}\n${text}\n\n`;
}

function clock(seconds, point) {
  const total = Math.round(seconds * 1000);
  const two = (number) => String(Math.floor(number)).padStart(2, "0");
  const milliseconds = String(total % 1000).padStart(3, "0");
  return `${two(total / 3_600_000)}:${two((total / 60_000) % 60)}:${two((total / 1000) % 60)}${point}${milliseconds}`;
}

// What the browser keeps: choices for good, and what is being said for as long as the tab is open.
// A browser may keep nothing (private windows, full storage): then all works but is forgotten.

const CHOICES = "stenod.choices";
const RUN = "stenod.run";
const LINE = "stenod.line.";
const TOKEN = "stenod.token";

export const DEFAULTS = Object.freeze({
  source: "microphone",
  channel: "",  // to read
  share: "",  // the channel that the microphone speaks into
  device: "",
  language: "",
  model: "",
  theme: "system",
  size: 32,
  position: "bottom",
  lines: 0,
});

export function loadChoices() {
  return { ...DEFAULTS, ...read("localStorage", CHOICES) };
}

export function storeChoices(choices) {
  write("localStorage", CHOICES, choices);
}

export function loadToken() {
  return read("sessionStorage", TOKEN) ?? "";
}

export function storeToken(token) {
  write("sessionStorage", TOKEN, token);
}

// What ran in this tab last, and may go on; null: nothing.
export function loadRun() {
  return read("sessionStorage", RUN);
}

export function storeRun(run) {
  write("sessionStorage", RUN, run);
}

export function loadLines() {
  const lines = [];
  for (let line; (line = read("sessionStorage", LINE + lines.length)) !== null;) lines.push(line);
  return lines;
}

export function storeLine(line, i) {
  write("sessionStorage", LINE + i, line);
}

export function forgetLines() {
  for (let i = 0; read("sessionStorage", LINE + i) !== null; i += 1) write("sessionStorage", LINE + i, null);
}

function read(storage, key) {
  try {
    return JSON.parse(window[storage].getItem(key));
  } catch (error) {
    console.warn(`${key} is not used: ${error.message}`);
    return null;
  }
}

function write(storage, key, value) {
  try {
    if (value === null) window[storage].removeItem(key);
    else window[storage].setItem(key, JSON.stringify(value));
  } catch (error) {
    console.warn(`${key} is not kept: ${error.message}`);
  }
}

// The overlay: what is said in a channel, on a transparent page for OBS and other browser sources.
// ?channel=NAME &size=PIXELS &lines=COUNT &position=top|middle|bottom &hide=SECONDS #token=TOKEN

import { CaptionsView } from "./captions_view.js";
import { Reader } from "./reader.js";
import { Transcript } from "./transcript.js";

const KEPT_LINES = 20;

const wanted = new URLSearchParams(location.search);
const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
const number = (name, least, most, usual) => Math.min(most, Math.max(least, Number(wanted.get(name) ?? usual) || usual));
const hideMs = wanted.get("hide") === "0" ? Infinity : 1000 * number("hide", 1, 3600, 8);

const root = document.documentElement;
root.style.setProperty("--size", `${number("size", 8, 400, 42)}px`);
root.style.setProperty("--lines", number("lines", 1, 20, 2));
root.dataset.position = ["top", "middle", "bottom"].find((one) => one === wanted.get("position")) ?? "bottom";

const box = document.getElementById("captions");
const problem = document.getElementById("problem");
const view = new CaptionsView(box, KEPT_LINES);
let hiding = 0;

const transcript = new Transcript((line) => {
  view.show(line);
  view.scrollToEnd();
  box.classList.remove("still");
  clearTimeout(hiding);
  if (hideMs !== Infinity) hiding = setTimeout(hide, hideMs);
  transcript.lines.splice(0, transcript.lines.length - KEPT_LINES);
});

// Nothing is said any more.
function hide() {
  box.classList.add("still");
  view.clear();
}

function show(text) {
  problem.textContent = text;
  problem.hidden = text === "";
}

const reader = new Reader({
  channel: wanted.get("channel") ?? "",
  token,
  on: {
    state: (state, refusal) => show(state === "waiting" ? refusal?.message ?? "stenod cannot be reached; trying again" : ""),
    // Of what was said before, only what is being said is shown.
    event: (event) => transcript.take(event.type === "snapshot" ? { ...event, utterances: [] } : event),
    change: () => {},
    over: (refusal) => show(refusal?.message ?? ""),
  },
});
if (wanted.has("channel")) reader.connect();
else show("Which channel? Add ?channel=NAME to the address.");

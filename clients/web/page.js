// The captions page: its controls, and what they do.

import { Captioning } from "./captioning.js";
import { CaptionsView } from "./captions_view.js";
import { written } from "./cues.js";
import { named } from "./languages.js";
import { explain, microphones } from "./microphone.js";
import { DEFAULTS, loadChoices, loadToken, storeChoices, storeToken } from "./stored.js";

const REMARK_MS = 10000;
const CHANNEL_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

const $ = (id) => document.getElementById(id);
const form = $("controls");
const fields = form.elements;
const choices = loadChoices();
const view = new CaptionsView($("captions"));
const captioning = new Captioning(view, {
  state: showState,
  over: showOver,
  level: (level) => { $("level").value = level; },
  remark: showRemark,
  failed: (error) => {
    showHelp(explain(error));
    showRunning();
    if (!captioning.running) setStatus("idle", "Not listening");
  },
  click: askForClick,
});

const addressed = takeAddress();
watch();
begin();
showChoices();
showRunning();
offerModels();
offerDevices();

// The address may name a channel to read (?channel=NAME) and hold a token (#token=TOKEN, which is not sent).
// Returns the channel, or null.
function takeAddress() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    storeToken(token);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return new URLSearchParams(location.search).get("channel");
}

// Shows what the address asks for, or goes on with what ran when the page was left.
function begin() {
  const shown = captioning.shown;
  if (addressed && (shown?.channel !== addressed || shown.over)) {
    Object.assign(choices, { source: "channel", channel: addressed });
    start();
  } else if (shown && !shown.over) {
    Object.assign(choices, { source: shown.source, channel: shown.channel ?? choices.channel });
    captioning.goOn();
  }
}

function watch() {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (captioning.running) captioning.stop();
    else start();
    showRunning();
  });
  form.addEventListener("input", ({ target }) => choose(target));
  for (const panel of [$("share"), $("display")]) panel.addEventListener("input", ({ target }) => choose(target));
  $("captions").addEventListener("scroll", () => { $("newest").hidden = view.atEnd; });
  $("newest").addEventListener("click", () => view.scrollToEnd());
  $("clear").addEventListener("click", () => { captioning.clear(); showEmpty(); });
  $("full-screen").addEventListener("click", () => document.documentElement.requestFullscreen());
  document.addEventListener("fullscreenchange", () => {
    document.documentElement.classList.toggle("filled", document.fullscreenElement !== null);
  });
  for (const button of document.querySelectorAll("[data-form]")) {
    button.addEventListener("click", () => download(button.dataset.form));
  }
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", () => copy($(button.dataset.copy)));
  }
  fields.channel.addEventListener("focus", offerChannels);
  fields.share.addEventListener("invalid", () => $("share").showPopover());
  navigator.mediaDevices?.addEventListener("devicechange", offerDevices);
  new MutationObserver(showEmpty).observe($("captions"), { childList: true });
  showEmpty();
}

async function start() {
  $("help").hidden = true;
  if (choices.source === "channel") {
    captioning.read(choices.channel);
  } else {
    await captioning.listen(choices);
    offerDevices();  // now they have names
  }
  showRunning();
}

function choose(field) {
  if (!(field.name in DEFAULTS)) return;
  const name = field.name;
  if (name === "channel" || name === "share") {
    const wrong = field.value !== "" && !CHANNEL_NAME.test(field.value);
    field.setCustomValidity(wrong ? "A name has letters, digits, '.', '_' and '-'." : "");
    if (wrong) return;
  }
  choices[name] = typeof DEFAULTS[name] === "number" ? Number(field.value) : field.value;
  storeChoices(choices);
  if (name === "language") captioning.setLanguage(choices.language);
  if (name === "device") captioning.setDevice(choices.device);
  showChoices();
}

function showChoices() {
  for (const name of Object.keys(DEFAULTS)) if (fields[name].value !== String(choices[name])) fields[name].value = choices[name];
  const root = document.documentElement;
  root.dataset.theme = choices.theme;
  root.dataset.position = choices.position;
  root.toggleAttribute("data-lines", choices.lines > 0);
  root.style.setProperty("--lines", choices.lines);
  root.style.setProperty("--size", `${choices.size}px`);
  for (const element of form.querySelectorAll(".for-microphone")) element.hidden = choices.source !== "microphone";
  for (const element of form.querySelectorAll(".for-channel")) element.hidden = choices.source !== "channel";
  fields.channel.required = choices.source === "channel";
  showLinks();
  view.scrollToEnd();
}

// Where others read what is said here, or what is read here.
function showLinks() {
  const channel = choices.source === "channel" ? choices.channel : choices.share;
  $("links").hidden = !channel;
  if (!channel) return;
  const page = new URL(`.?channel=${channel}`, document.baseURI);
  const overlay = new URL(`overlay?channel=${channel}`, document.baseURI);
  overlay.searchParams.set("size", choices.size);
  overlay.searchParams.set("lines", choices.lines || 2);
  overlay.searchParams.set("position", choices.position);
  $("page-link").value = page;
  $("overlay-link").value = overlay;
}

function showRunning() {
  const running = captioning.running;
  $("start").textContent = running ? "Stop" : "Start";
  $("start").toggleAttribute("data-running", running);
  for (const name of ["source", "channel", "model", "share"]) {
    for (const field of document.getElementsByName(name)) field.disabled = running;
  }
}

function showState(state, refusal) {
  const open = choices.source === "channel" ? `Reading ${choices.channel}` : "Listening";
  const waiting = refusal?.message ?? "The connection is lost; trying again";
  setStatus(state, { connecting: "Connecting", open, waiting }[state]);
}

function showOver(refusal) {
  showRunning();
  if (refusal === null) {
    setStatus("idle", "Stopped");
  } else if (refusal.code === "unauthorized" || (refusal.code === "forbidden" && !loadToken())) {
    setStatus("idle", "Not connected");
    askForToken(refusal);
  } else {
    setStatus("failed", refusal.message);
  }
}

function setStatus(state, text) {
  $("status").dataset.state = state;
  $("status").textContent = text;
}

let remarkTimer = 0;
function showRemark(text) {
  $("remark").textContent = text;
  clearTimeout(remarkTimer);
  remarkTimer = setTimeout(() => { $("remark").textContent = ""; }, REMARK_MS);
}

function showEmpty() {
  $("empty").hidden = $("captions").childElementCount > 0;
}

function showHelp({ title, text, steps }) {
  const help = $("help");
  help.querySelector("h2").textContent = title;
  help.querySelector("p").textContent = text;
  help.querySelector("ol").replaceChildren(...steps.map((step) => {
    const item = document.createElement("li");
    item.textContent = step;
    return item;
  }));
  help.hidden = false;
}

function askForClick(resume) {
  setStatus("waiting", "Click anywhere to go on");
  const clicked = () => {
    for (const kind of ["pointerdown", "keydown"]) removeEventListener(kind, clicked);
    showState("open");
    resume();
  };
  for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, clicked);
}

function askForToken(refusal) {
  const dialog = $("ask-token");
  const field = dialog.querySelector("input");
  $("ask-token-why").textContent = loadToken() ? `The one given is not known. ${refusal.message}` : "Not everybody may use this stenod.";
  dialog.querySelector("[data-cancel]").onclick = () => dialog.close("cancelled");
  dialog.returnValue = "cancelled";
  dialog.onclose = () => {
    if (dialog.returnValue === "cancelled") return;
    storeToken(field.value.trim());
    field.value = "";
    start();
  };
  dialog.showModal();
}

async function offerModels() {
  const models = await (await fetch("v1/models")).json().then(({ models }) => models);
  fields.model.replaceChildren(...models.map(({ name }) => new Option(name)));
  if (!models.some(({ name }) => name === choices.model)) choices.model = models[0]?.name ?? "";
  const model = models.find(({ name }) => name === choices.model);
  const languages = named(model?.languages ?? []).map(({ code, name }) => new Option(name, code));
  fields.language.replaceChildren(new Option("Detect", ""), ...languages);
  if (!model?.languages.includes(choices.language)) choices.language = "";
  showChoices();
}

async function offerDevices() {
  const devices = await microphones();
  fields.device.replaceChildren(new Option("Default", ""), ...devices.map(({ id, label }) => new Option(label, id)));
  if (devices.some(({ id }) => id === choices.device)) fields.device.value = choices.device;
}

async function offerChannels() {
  const token = loadToken();
  const answer = await fetch("v1/channels", { headers: token ? { Authorization: `Bearer ${token}` } : {} });
  if (!answer.ok) return;  // this token may not see which there are
  const { channels } = await answer.json();
  $("channels").replaceChildren(...channels.map(({ channel }) => new Option(channel)));
}

function download(kind) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([written(captioning.transcript.spoken, kind)], { type: "text/plain" }));
  link.download = `captions.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function copy(field) {
  field.select();
  if (navigator.clipboard) await navigator.clipboard.writeText(field.value);
  else document.execCommand("copy");  // all there is on pages that are not encrypted
}

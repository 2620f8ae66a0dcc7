// What runs: a microphone whose sound is sent, or a channel that is read; kept so that it goes on when the
// page is loaded again.

import { Microphone } from "./microphone.js";
import { Reader } from "./reader.js";
import { Session } from "./session.js";
import { forgetLines, loadLines, loadRun, loadToken, storeLine, storeRun } from "./stored.js";
import { Transcript } from "./transcript.js";

export class Captioning {
  transcript;
  #view;
  #on;
  #opening = null;  // a microphone that the person may still have to allow
  #microphone = null;
  #session = null;
  #reader = null;
  #run = loadRun();  // what runs, or ran last, as it is kept
  #unsaved = new Set();  // lines

  // view: a CaptionsView. on: {state(state, refusal), over(refusal or null), level(0 to 1), remark(text),
  // click(resume) where the browser wants a click before it hears, failed(error) of the microphone}.
  constructor(view, on) {
    this.#view = view;
    this.#on = on;
    const lines = loadLines();
    for (const line of lines) if (line.tentative) line.tentative = "";
    this.transcript = new Transcript((line) => this.#changed(line), lines);
    lines.forEach((line) => view.show(line));
  }

  get running() {
    return this.#session !== null || this.#reader !== null || this.#opening !== null;
  }

  // What runs, or ran last: {source, channel}; null if nothing did.
  get shown() {
    return this.#run;
  }

  // Goes on with what ran when the page was left, if anything did.
  goOn() {
    const run = this.#run;
    if (run === null || run.over) return;
    if (run.source === "channel") this.read(run.channel, run.since);
    else if (run.saved) this.#comeBack(run);
  }

  // Sends what the microphone hears. choices: {device, language, model, share}.
  async listen({ device, language, model, share }) {
    this.#on.state("connecting");
    if (!(await this.#open(device, null))) return;
    this.#send({ source: "microphone", device, saved: null, choices: { language, model, channel: share } });
    this.#session.connect();
    await this.#hear();
  }

  // Shows what is said in a channel, from a cursor on if there is one.
  read(channel, since = null) {
    this.#begin({ source: "channel", channel, since });
    const reader = new Reader({ channel, since, token: loadToken(), on: this.#listener(() => ({ since: reader.since })) });
    this.#reader = reader;
    reader.connect();
  }

  // No more sound; what was said before is told to its end. Once more: at once.
  stop() {
    this.#opening = null;
    if (this.#reader !== null) {
      this.#reader.close();
    } else if (this.#microphone !== null) {
      this.#keep({ stopped: true });
      this.#session.finish();
      this.#closeMicrophone();
    } else if (this.#session !== null) {
      this.#session.abandon();
    } else {
      this.#on.over(null);
    }
  }

  setLanguage(language) {
    if (this.#session === null) return;
    this.#session.configure({ language });
    this.#keep({ choices: { ...this.#run.choices, language } });
  }

  async setDevice(device) {
    try {
      await this.#microphone?.use(device);
    } catch (error) {
      this.#on.failed(error);
    }
  }

  clear() {
    this.#view.clear();
    forgetLines();
    this.#unsaved.clear();
    this.transcript.clear();
  }

  async #comeBack(run) {
    this.#send(run);
    const session = this.#session;
    session.connect();
    await session.resumed;
    if (run.stopped) session.finish();
    if (run.stopped || this.#session !== session) return;
    if (await this.#open(run.device, run.saved.rate)) await this.#hear();
    else session.finish();
  }

  // What was said elsewhere is not shown together with it.
  #begin(run) {
    const last = this.#run;
    if (last !== null && (last.source !== run.source || last.channel !== run.channel)) this.clear();
    this.#run = run;
    storeRun(run);
  }

  #send(run) {
    this.#begin(run);
    this.#session = new Session({
      rate: run.saved?.rate ?? this.#microphone.rate,
      choices: run.choices,
      saved: run.saved,
      token: loadToken(),
      on: this.#listener(() => ({ saved: this.#session.saved })),
    });
  }

  async #hear() {
    if (await this.#microphone.start()) return;
    this.#on.click(() => this.#microphone?.start());
  }

  // Opens the microphone. Resolves to false if it cannot be had, or is not wanted any more.
  async #open(deviceId, rate) {
    const opening = {};
    this.#opening = opening;
    let microphone = null;
    let problem = null;
    try {
      microphone = await Microphone.open({ deviceId, rate, heard: this.#heard, lost: this.#lost });
    } catch (error) {
      problem = error;
    }
    const wanted = this.#opening === opening;
    if (wanted) this.#opening = null;
    if (wanted && microphone !== null) this.#microphone = microphone;
    else if (wanted) this.#on.failed(problem);
    else await microphone?.close();
    return wanted && microphone !== null;
  }

  #heard = (samples) => {
    this.#session?.send(samples);
    this.#on.level(level(samples));
  };

  #lost = () => {
    this.stop();
    this.#on.failed(new DOMException("it was unplugged", "NotFoundError"));
  };

  #closeMicrophone() {
    this.#microphone?.close();
    this.#microphone = null;
    this.#on.level(0);
  }

  // What a Session or a Reader tells. progress(): what of it is to be kept.
  #listener(progress) {
    return {
      state: (state, refusal) => this.#on.state(state, refusal),
      event: (event) => {
        if (event.type === "warning" || event.type === "error") this.#on.remark(event.message);
        this.transcript.take(event);
      },
      change: () => {
        this.#keep(progress());
        for (const line of this.#unsaved) storeLine(line, this.transcript.lines.lastIndexOf(line));
        this.#unsaved.clear();
      },
      over: (refusal) => {
        this.#closeMicrophone();
        this.#session = null;
        this.#reader = null;
        this.#keep({ over: true });
        this.#on.over(refusal);
      },
    };
  }

  #keep(progress) {
    Object.assign(this.#run, progress);
    storeRun(this.#run);
  }

  #changed(line) {
    this.#unsaved.add(line);
    this.#view.show(line);
  }
}

// How loud samples are, from 0 to 1: 60 dB below full scale and less is 0.
function level(samples) {
  const peak = samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), 1) / 32768;
  return Math.max(0, 1 + (20 * Math.log10(peak)) / 60);
}

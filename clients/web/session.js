// A session that sends audio and gets its events, and comes back by itself when its connection is lost.

import { Backoff, Refusal, isNumbered, open, passes } from "./connection.js";
import { Outbox } from "./outbox.js";

const KEPT_S = 60;  // audio that is kept while the daemon cannot be reached
const IN_FLIGHT_BYTES = 1 << 17;  // what the browser may hold unsent
const SILENT_MS = 15000;  // a daemon that acknowledges nothing for so long, while we send, is gone
const PUMP_MS = 50;
const EVICTED_CLOSE = 4409;

export class Session {
  #socket = null;
  #outbox;
  #backoff = new Backoff();
  #speaking = false;  // whether the daemon knows on this connection which session it is
  #finishing = false;
  #finished = false;  // whether it was told so on this connection
  #refusal = null;
  #retry = 0;
  #pump = 0;
  #heard = 0;  // when something came last
  #choices;
  #saved;
  #paused;  // whether audio is missing between what was sent last and what comes next
  #cameBack;
  #on;

  // rate: of the audio, in Hz. choices: {language, model, channel}. token: where one is asked for.
  // on: {event(event), state("connecting" | "open" | "waiting"), over(refusal or null), change()}; `change` is
  // called when `saved` has changed. saved: of a session to come back to.
  constructor({ rate, choices, token, on, saved = null }) {
    this.#choices = choices;
    this.#on = on;
    this.#saved = saved ?? { rate, session: null, secret: secret(), lastSeq: 0, startedAt: null };
    this.#outbox = new Outbox(KEPT_S * this.#saved.rate);
    this.#paused = saved !== null;
    this.token = token;
    this.resumed = new Promise((resolve) => { this.#cameBack = resolve; });
  }

  // What is to be kept to come back to the session from another page.
  get saved() {
    return this.#saved;
  }

  connect() {
    clearTimeout(this.#retry);
    this.#refusal = null;
    this.#on.state("connecting");
    try {
      this.#socket = open("v1/stream", this.token);
    } catch (error) {
      this.#end(error);
      return;
    }
    this.#heard = performance.now();
    clearInterval(this.#pump);
    this.#pump = setInterval(() => this.#tick(), PUMP_MS);
    const socket = this.#socket;
    socket.onopen = () => this.#greet();
    socket.onmessage = (message) => this.#take(JSON.parse(message.data));
    socket.onclose = (close) => { if (socket === this.#socket) this.#closed(close); };
  }

  // Takes audio (Int16Array) that was just heard. After a pause (the page was loaded again) it goes on where
  // the clock says, so that the times of what is said stay right.
  send(samples) {
    if (this.#finishing) return;
    const { rate, startedAt } = this.#saved;
    const began = Date.now() - (1000 * samples.length) / rate;
    if (startedAt === null) this.#saved.startedAt = began;
    else if (this.#paused) this.#outbox.skipTo(Math.round(((began - startedAt) / 1000) * rate));
    this.#paused = false;
    this.#outbox.put(samples);
    this.#flow();
  }

  // Changes the language, from the next utterance on.
  configure(choices) {
    Object.assign(this.#choices, choices);
    if (this.#speaking) this.#configure();
  }

  // No more audio: the last events follow.
  finish() {
    this.#finishing = true;
    this.#flow();
  }

  // Ends it here, whatever was not told yet.
  abandon() {
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
    this.#end(null);
  }

  #greet() {
    this.#finished = false;
    const { session, secret: token, lastSeq, rate } = this.#saved;
    if (session !== null) {
      this.#say({ type: "resume", session, token, last_seq: lastSeq });
      return;
    }
    const { channel, model, language } = this.#choices;
    this.#say({
      type: "start",
      audio: { encoding: "s16le", sample_rate: rate, channels: 1 },
      token,
      words: true,
      ...(channel && { channel }),
      ...(model && { model }),
      ...(language && { language }),
    });
  }

  // The daemon knows the session, and has its audio up to a sample.
  #speak(received) {
    this.#outbox.rewind(received);
    this.#backoff.connected();
    this.#on.state("open");
    this.#on.change();
    this.#cameBack();
    this.#speaking = true;
    this.#flow();
  }

  #flow() {
    if (!this.#speaking || this.#socket.readyState !== WebSocket.OPEN) return;
    while (this.#socket.bufferedAmount < IN_FLIGHT_BYTES) {
      const piece = this.#outbox.next();
      if (piece === undefined) {
        if (this.#finishing && !this.#finished) {
          this.#finished = true;
          this.#say({ type: "finish" });
        }
        break;
      }
      if (piece.gap) this.#say({ type: "gap", samples: piece.gap });
      else this.#socket.send(piece.samples);
    }
  }

  // Acknowledgements come about once a second while there is audio; only the end may be long in coming.
  #tick() {
    if (!this.#finished && performance.now() - this.#heard > SILENT_MS) this.#socket.close();
    else this.#flow();
  }

  #take(event) {
    this.#heard = performance.now();
    const saved = this.#saved;
    switch (event.type) {
      case "started":
        saved.session = event.session;
        this.#speak(event.received_samples ?? 0);
        return;
      case "resumed":
        this.#configure();
        this.#speak(event.received_samples);
        return;
      case "ack":
        this.#outbox.acknowledge(event.received_samples);
        return;
      case "error":
        if (event.fatal) this.#refusal = new Refusal(event.code, event.message);
        this.#on.event(event);
        return;
    }
    if (isNumbered(event)) {
      if (event.session === saved.session && event.seq <= saved.lastSeq) return;
      saved.lastSeq = event.seq;
    }
    this.#on.event(event);
    if (isNumbered(event)) this.#on.change();
    if (event.type === "ended") {
      this.#socket.onclose = null;
      this.#socket.close();
      this.#end(null);
    }
  }

  #closed({ code }) {
    this.#speaking = false;
    clearInterval(this.#pump);
    const refused = this.#refusal?.code;
    if (code === EVICTED_CLOSE) {
      this.#end(new Refusal("evicted", "It goes on in another window."));
    } else if (refused === "not_resumable") {
      this.#beginAnew();
    } else if (refused !== undefined && !passes(refused)) {
      this.#end(this.#refusal);
    } else {
      this.#on.state("waiting", this.#refusal);
      this.#retry = setTimeout(() => this.connect(), this.#backoff.next());
    }
  }

  // The daemon has forgotten the session: what it has not heard becomes the beginning of another one.
  #beginAnew() {
    const saved = this.#saved;
    const before = this.#outbox.restart();
    if (saved.startedAt !== null) saved.startedAt += (1000 * before) / saved.rate;
    Object.assign(saved, { session: null, secret: secret(), lastSeq: 0 });
    this.#cameBack();
    if (this.#finishing && this.#outbox.end === 0) this.#end(null);
    else this.connect();
  }

  #end(refusal) {
    this.#speaking = false;
    clearTimeout(this.#retry);
    clearInterval(this.#pump);
    this.#on.over(refusal);
    this.#cameBack();
  }

  #configure() {
    this.#say({ type: "configure", language: this.#choices.language || null });
  }

  #say(message) {
    this.#socket.send(JSON.stringify(message));
  }
}

// A token that the session is found again by, also where the connection is lost before it was told.
function secret() {
  return Array.from(crypto.getRandomValues(new Uint8Array(24)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

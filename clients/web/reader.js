// Reads a channel, for ever: goes on behind the last numbered event when the connection was lost.

import { Backoff, Refusal, isNumbered, open, passes } from "./connection.js";

export class Reader {
  #socket = null;
  #backoff = new Backoff();
  #retry = 0;
  #refusal = null;
  #on;

  // since: a cursor SESSION:SEQ to go on from, or null. on: as for a Session.
  constructor({ channel, token, on, since = null }) {
    this.channel = channel;
    this.token = token;
    this.since = since;
    this.#on = on;
  }

  connect() {
    clearTimeout(this.#retry);
    this.#refusal = null;
    this.#on.state("connecting");
    const query = this.since ? `?since=${encodeURIComponent(this.since)}` : "";
    try {
      this.#socket = open(`v1/channels/${encodeURIComponent(this.channel)}${query}`, this.token);
    } catch (error) {
      this.#on.over(error);
      return;
    }
    const socket = this.#socket;
    socket.onopen = () => this.#on.state("open");
    socket.onmessage = (message) => this.#take(JSON.parse(message.data));
    socket.onclose = () => { if (socket === this.#socket) this.#closed(); };
  }

  close() {
    clearTimeout(this.#retry);
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
    this.#on.over(null);
  }

  #take(event) {
    if (event.type === "error") {
      if (event.fatal) this.#refusal = new Refusal(event.code, event.message);
    } else {
      this.#backoff.connected();
    }
    if (isNumbered(event)) this.since = `${event.session}:${event.seq}`;
    else if (event.type === "snapshot") this.since = event.cursor;
    this.#on.event(event);
    if (isNumbered(event) || event.type === "snapshot") this.#on.change();
  }

  #closed() {
    const refused = this.#refusal?.code;
    if (refused !== undefined && !passes(refused)) {
      this.#on.over(this.#refusal);
      return;
    }
    this.#on.state("waiting", this.#refusal);
    this.#retry = setTimeout(() => this.connect(), this.#backoff.next());
  }
}

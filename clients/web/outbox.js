// Audio that the daemon may not have yet: kept, in order, to be sent again if need be.
// No input or output. Positions are samples since the session's first.

export class Outbox {
  #items = [];  // {start, samples}
  #sent = 0;  // how many of them were handed out
  #position = 0;  // up to where the daemon was told, on this connection
  #end = 0;
  #kept = 0;
  #most;

  // most: samples that may be kept; beyond, the oldest are given up and become a gap.
  constructor(most) {
    this.#most = most;
  }

  put(samples) {
    this.#items.push({ start: this.#end, samples });
    this.#end += samples.length;
    this.#kept += samples.length;
    while (this.#kept > this.#most) this.#forget();
  }

  // The sample where the next audio begins.
  get end() {
    return this.#end;
  }

  // The audio that comes next begins at that sample at the earliest; what lies between is a gap.
  skipTo(sample) {
    this.#end = Math.max(this.#end, sample);
  }

  // What is to be sent next, {samples} or {gap}; undefined if nothing is.
  next() {
    const item = this.#items[this.#sent];
    if (item === undefined) return undefined;
    if (item.start > this.#position) {
      const gap = item.start - this.#position;
      this.#position = item.start;
      return { gap };
    }
    const samples = item.samples.subarray(this.#position - item.start);
    this.#position = item.start + item.samples.length;
    this.#sent += 1;
    return { samples };
  }

  // The daemon has all before that sample for good.
  acknowledge(sample) {
    while (this.#sent > 0 && endOf(this.#items[0]) <= sample) this.#forget();
  }

  // A new connection: all from that sample on is to be sent again.
  rewind(sample) {
    while (this.#items.length > 0 && endOf(this.#items[0]) <= sample) this.#forget();
    this.#sent = 0;
    this.#position = sample;
    this.#end = Math.max(this.#end, sample);
  }

  // A new session: what is kept becomes its first audio. Returns how many samples came before that.
  restart() {
    const base = this.#items.length > 0 ? this.#items[0].start : this.#end;
    for (const item of this.#items) item.start -= base;
    this.#end -= base;
    this.#sent = 0;
    this.#position = 0;
    return base;
  }

  #forget() {
    this.#kept -= this.#items.shift().samples.length;
    this.#sent = Math.max(0, this.#sent - 1);
  }
}

function endOf(item) {
  return item.start + item.samples.length;
}

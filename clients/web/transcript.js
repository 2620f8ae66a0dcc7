// What was said, as lines: each an utterance, or a gap. Committed text only grows.

const LEAST_GAP_S = 0.5;  // shorter ones are not told

export class Transcript {
  lines;
  #changed;
  #session = null;  // the one that the last numbered event came from
  #bases = new Map();  // seconds at which each session began, counted from the first one's beginning
  #firstStartedAt = null;

  // changed(line): called when a line is new or has changed. lines: those that were there before.
  constructor(changed, lines = []) {
    this.#changed = changed;
    this.lines = lines;
    for (const line of lines) {
      this.#bases.set(line.session, line.base);
      this.#session = line.session;
    }
  }

  // The utterance that is being said; undefined between two.
  get open() {
    const last = this.lines.at(-1);
    return last?.final === false ? last : undefined;
  }

  // Takes an event of a session or channel.
  take(event) {
    if (event.session) this.#session = event.session;
    switch (event.type) {
      case "session_started":
        if (this.open) this.#change(this.open, { tentative: "", final: true });  // its session was lost
        this.#place(event.session, event.started_at);
        break;
      case "speech_started":
        this.#line(event);
        break;
      case "commit": {
        const line = this.#line(event);
        this.#change(line, { committed: line.committed + event.text, tentative: "" });
        break;
      }
      case "partial":
        this.#change(this.#line(event), { committed: event.committed, tentative: event.tentative });
        break;
      case "final":
        this.#conclude(event);
        break;
      case "discarded":
        this.#change(this.#line(event), { tentative: "", final: true });
        break;
      case "gap":
        if (event.end - event.start >= LEAST_GAP_S) this.#add({ gap: event.end - event.start, reason: event.reason });
        break;
      case "snapshot":
        event.utterances.forEach((final) => this.take(final));
        this.#session = event.cursor.replace(/:\d+$/, "") || null;
        if (event.partial) this.take(event.partial);
        break;
    }
  }

  // All utterances that are over, with times in seconds from the first session's beginning.
  get spoken() {
    const later = (base, { text, start, end }) => ({ text, start: base + start, end: base + end });
    return this.lines
      .filter((line) => line.final && line.committed)
      .map(({ base, committed, start, end, language, words }) => ({
        ...later(base, { text: committed, start, end }),
        language,
        words: words?.map((word) => later(base, word)),
      }));
  }

  // Forgets what was said; times go on.
  clear() {
    this.lines.length = 0;
  }

  #conclude({ utterance, text, start, end, language, words }) {
    const line = this.#line({ utterance, start });
    if (line.final) return;  // a snapshot tells again what was there before
    this.#change(line, { committed: text, tentative: "", final: true, start, end, language, words });
  }

  // The line of an utterance of the present session, made if need be.
  #line({ utterance, start = 0 }) {
    const known = this.lines.findLast((line) => line.utterance === utterance && line.session === this.#session);
    return known ?? this.#add({ utterance, start, end: start, committed: "", tentative: "", final: false });
  }

  #add(fields) {
    const line = { session: this.#session, base: this.#base(this.#session), ...fields };
    this.lines.push(line);
    this.#changed(line);
    return line;
  }

  #change(line, fields) {
    Object.assign(line, fields);
    this.#changed(line);
  }

  // A session began at that time, in seconds since the epoch.
  #place(session, startedAt) {
    const end = this.#end();
    this.#firstStartedAt ??= startedAt - end;
    if (!this.#bases.has(session)) this.#bases.set(session, Math.max(startedAt - this.#firstStartedAt, end));
  }

  #base(session) {
    if (!this.#bases.has(session)) this.#bases.set(session, this.#end());
    return this.#bases.get(session);
  }

  // Where what was said so far ends.
  #end() {
    return this.lines.reduce((end, line) => Math.max(end, line.base + (line.end ?? 0)), 0);
  }
}

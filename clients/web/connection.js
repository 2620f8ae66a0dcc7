// What sending and reading have in common: addresses, tokens, and how long to wait before another try.

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 8000;
const NUMBERED = new Set([
  "session_started", "speech_started", "commit", "speech_ended", "final", "discarded", "gap", "ended",
]);

// A refusal that another try would not change; `code` is the protocol's.
export class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

// Codes of refusals that pass by themselves.
const PASSING = new Set(["too_many_sessions", "engine_failed", "shutting_down", "channel_busy"]);

export function passes(code) {
  return PASSING.has(code);
}

export function isNumbered(event) {
  return NUMBERED.has(event.type);
}

// Opens a websocket below the page's address. Throws a Refusal where `token` cannot be one.
export function open(path, token) {
  const url = new URL(path, document.baseURI);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  try {
    return new WebSocket(url, token ? ["stenod.v1", `stenod.token.${token}`] : ["stenod.v1"]);
  } catch (error) {
    throw new Refusal("unauthorized", `This cannot be a token (${error.message}).`);
  }
}

export class Backoff {
  #wait = FIRST_WAIT_MS;

  connected() {
    this.#wait = FIRST_WAIT_MS;
  }

  // Milliseconds before the next try: longer each time, and at random, so that many pages do not come at once.
  next() {
    const wait = this.#wait * (0.5 + Math.random() / 2);
    this.#wait = Math.min(2 * this.#wait, LONGEST_WAIT_MS);
    return wait;
  }
}

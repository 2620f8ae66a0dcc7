// Shows a transcript. Committed text is added and never touched again, so that a screen reader, which is
// told of additions alone, reads every word once; tentative text is hidden from it.

const GAP_REASONS = {
  overflow: "the microphone was too fast",
  device_lost: "the microphone was away",
  client: "the connection was lost for too long",
  restart: "the daemon was restarted",
};
const NEAR_END_PX = 40;

export class CaptionsView {
  #box;
  #following = true;  // whether the newest text stays in sight
  #shown = new Map();  // line: {element, tentative, length of the committed text shown}
  #most;

  // box: the element that scrolls. most: lines that are kept in it.
  constructor(box, most = 500) {
    this.#box = box;
    this.#most = most;
    box.addEventListener("scroll", () => { this.#following = this.atEnd; });
    new ResizeObserver(() => { if (this.#following) this.scrollToEnd(); }).observe(box);
  }

  // Whether the newest text is in sight.
  get atEnd() {
    const { scrollTop, scrollHeight, clientHeight } = this.#box;
    return scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
  }

  show(line) {
    if (line.gap !== undefined) this.#showGap(line);
    else this.#showSpeech(line);
    while (this.#shown.size > this.#most) this.#remove(this.#shown.keys().next().value);
    if (this.#following) this.scrollToEnd();
  }

  scrollToEnd() {
    this.#box.scrollTop = this.#box.scrollHeight;
  }

  clear() {
    for (const line of this.#shown.keys()) this.#remove(line);
  }

  #showSpeech(line) {
    if (line.final && !line.committed) {
      this.#remove(line);
      return;
    }
    const shown = this.#shown.get(line) ?? this.#addSpeech(line);
    if (line.committed.length > shown.length) {
      const added = span("committed", line.committed.slice(shown.length));
      shown.length = line.committed.length;
      shown.tentative.before(added);
    }
    shown.tentative.textContent = line.tentative;
    shown.element.classList.toggle("open", !line.final);
    if (line.language) shown.element.lang = line.language;
  }

  #addSpeech(line) {
    const tentative = span("tentative", "");
    tentative.ariaHidden = "true";
    const shown = { element: paragraph("utterance", tentative), tentative, length: 0 };
    this.#append(line, shown);
    return shown;
  }

  #showGap(line) {
    if (this.#shown.has(line)) return;
    const why = GAP_REASONS[line.reason] ?? line.reason;
    this.#append(line, { element: paragraph("gap", `${line.gap.toFixed(1)} s of sound are missing: ${why}`) });
  }

  #append(line, shown) {
    this.#shown.set(line, shown);
    this.#box.append(shown.element);
  }

  #remove(line) {
    this.#shown.get(line)?.element.remove();
    this.#shown.delete(line);
  }
}

function span(className, text) {
  const element = document.createElement("span");
  element.className = className;
  element.textContent = text;
  return element;
}

function paragraph(className, content) {
  const element = document.createElement("p");
  element.className = className;
  element.append(content);
  return element;
}

// The microphone as blocks of samples; and what to do where the browser does not give it.

export class Microphone {
  #context;
  #node;
  #source = null;
  #stream = null;
  #lost;

  // Opens a microphone. deviceId: "" for the browser's choice. rate: in Hz, null for the device's own.
  // heard(Int16Array) gets what it hears; lost() is called when it was unplugged. Rejects with what
  // `explain` explains.
  static async open({ deviceId, rate = null, heard, lost }) {
    if (!navigator.mediaDevices) throw new DOMException("not a secure context", "SecurityError");
    const microphone = new Microphone();
    microphone.#lost = lost;
    try {
      await microphone.use(deviceId);
      microphone.#context = new AudioContext(rate === null ? {} : { sampleRate: rate });
      await microphone.#context.audioWorklet.addModule(new URL("pcm-worklet.js", import.meta.url));
      microphone.#node = new AudioWorkletNode(microphone.#context, "pcm", { numberOfOutputs: 0 });
      microphone.#node.port.onmessage = ({ data }) => heard(data);
      microphone.#connect();
    } catch (error) {
      await microphone.close();
      throw error;
    }
    return microphone;
  }

  // In Hz.
  get rate() {
    return this.#context.sampleRate;
  }

  // Begins to hear. Resolves to false where the browser wants a click first; then call it again from one.
  async start() {
    await Promise.race([this.#context.resume(), new Promise((resolve) => { setTimeout(resolve, 500); })]);
    return this.#context.state === "running";
  }

  // Hears another device from now on, at the same rate.
  async use(deviceId) {
    const device = deviceId ? { deviceId: { exact: deviceId } } : {};
    const plain = { echoCancellation: false, noiseSuppression: false, autoGainControl: true };
    const stream = await navigator.mediaDevices.getUserMedia({ audio: { ...device, ...plain } });
    this.#stop();
    this.#stream = stream;
    stream.getAudioTracks()[0].onended = () => this.#lost();
    if (this.#node) this.#connect();
  }

  async close() {
    this.#stop();
    if (this.#context && this.#context.state !== "closed") await this.#context.close();
  }

  #connect() {
    this.#source = this.#context.createMediaStreamSource(this.#stream);
    this.#source.connect(this.#node);
  }

  #stop() {
    this.#source?.disconnect();
    for (const track of this.#stream?.getTracks() ?? []) {
      track.onended = null;
      track.stop();
    }
  }
}

// The microphones there are, as {id, label}; without names until one was allowed.
export async function microphones() {
  const devices = await navigator.mediaDevices?.enumerateDevices() ?? [];
  return devices
    .filter(({ kind, deviceId }) => kind === "audioinput" && deviceId && deviceId !== "default")
    .map(({ deviceId, label }, i) => ({ id: deviceId, label: label || `Microphone ${i + 1}` }));
}

// What a person can do about an error of `Microphone`: {title, text, steps}.
export function explain(error) {
  const { host, port } = location;
  switch (error.name) {
    case "SecurityError":
      return {
        title: "The browser forbids the microphone here",
        text: "Browsers give the microphone only to pages that come encrypted (https) or from this computer.",
        steps: [
          "On the computer where stenod runs, open " +
            `http://localhost:${port || 80} instead.`,
          "From another computer: give stenod a certificate (server.tls_certificate and server.tls_key in its " +
            `settings; mkcert makes one) and open https://${host}.`,
          `Or forward the port: ssh -L ${port || 80}:localhost:${port || 80} ${location.hostname}, then open ` +
            `http://localhost:${port || 80}.`,
        ],
      };
    case "NotAllowedError":
      return {
        title: "The microphone is not allowed",
        text: "It was refused for this page, here or in the settings of the computer.",
        steps: [
          "Click the icon left of the address, and allow the microphone.",
          "On macOS and Windows, allow it to the browser in the privacy settings of the system, too.",
          "Then press Start again.",
        ],
      };
    case "NotFoundError":
    case "OverconstrainedError":
      return {
        title: "There is no such microphone",
        text: "The one chosen is not plugged in.",
        steps: ["Plug a microphone in, or choose another one, and press Start again."],
      };
    default:
      return {
        title: "The microphone cannot be opened",
        text: `The browser says: ${error.message}`,
        steps: ["Close other programs that use it, or choose another one, and press Start again."],
      };
  }
}

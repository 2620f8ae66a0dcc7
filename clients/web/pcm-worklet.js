// Runs in the audio thread: mixes what the microphone hears to one channel, and posts it as Int16Array blocks
// at the context's own rate; the daemon resamples.

const BLOCK_S = 0.05;

class Pcm extends AudioWorkletProcessor {
  #block = new Int16Array(Math.round(sampleRate * BLOCK_S));
  #filled = 0;

  process([channels]) {
    if (channels.length > 0) {
      for (let i = 0; i < channels[0].length; i += 1) {
        let sum = 0;
        for (const channel of channels) sum += channel[i];
        this.#add(sum / channels.length);
      }
    }
    return true;
  }

  #add(sample) {
    this.#block[this.#filled] = Math.max(-1, Math.min(1, sample)) * 32767;
    this.#filled += 1;
    if (this.#filled === this.#block.length) {
      const full = this.#block;
      this.#block = new Int16Array(full.length);
      this.#filled = 0;
      this.port.postMessage(full, [full.buffer]);
    }
  }
}

registerProcessor("pcm", Pcm);

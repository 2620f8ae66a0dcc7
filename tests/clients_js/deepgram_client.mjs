// node deepgram_client.mjs ADDRESS FILE: sends 16 kHz s16le by Deepgram's client, prints each utterance.
import { readFileSync } from "node:fs";
import { DeepgramClient } from "@deepgram/sdk";

const [address, file] = process.argv.slice(2);
const socket = address.replace("https", "wss");
const client = new DeepgramClient({
  apiKey: "any",
  environment: { base: address, production: socket, agent: socket, agentRest: address },
});
const connection = await client.listen.v1.connect({
  model: "nova-3",
  language: "en",
  encoding: "linear16",
  sample_rate: 16000,
  punctuate: "true",
  interim_results: "true",
});
let parts = [];
connection.on("error", (error) => {
  console.error(error);
  process.exit(1);
});
connection.on("message", (message) => {
  if (message.type === "Metadata") process.exit(0);
  if (message.type !== "Results" || !message.is_final) return;
  parts.push(message.channel.alternatives[0].transcript);
  if (message.speech_final) {
    console.log(JSON.stringify(parts.join(" ")));
    parts = [];
  }
});
connection.connect();
await connection.waitForOpen();
const audio = readFileSync(file);
for (let start = 0; start < audio.length; start += 9600) {
  connection.sendMedia(audio.subarray(start, start + 9600));
}
connection.sendCloseStream({ type: "CloseStream" });

// node openai_client.mjs ADDRESS FILE: sends 24 kHz s16le by OpenAI's client, prints the first transcript.
import { readFileSync } from "node:fs";
import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";

const [address, file] = process.argv.slice(2);
const client = new OpenAI({ apiKey: "any", baseURL: `${address}/v1` });
const connection = new OpenAIRealtimeWS({ model: "gpt-4o-transcribe" }, client);

connection.on("error", (error) => {
  console.error(error);
  process.exit(1);
});
connection.on("session.created", () => {
  connection.send({
    type: "session.update",
    session: {
      type: "transcription",
      audio: {
        input: {
          format: { type: "audio/pcm", rate: 24000 },
          transcription: { model: "gpt-4o-transcribe", language: "en" },
          turn_detection: { type: "server_vad" },
        },
      },
    },
  });
});
connection.on("session.updated", () => {
  const audio = readFileSync(file);
  for (let start = 0; start < audio.length; start += 9600) {
    const piece = audio.subarray(start, start + 9600);
    connection.send({ type: "input_audio_buffer.append", audio: piece.toString("base64") });
  }
});
connection.on("conversation.item.input_audio_transcription.completed", (event) => {
  console.log(JSON.stringify(event.transcript));
  connection.close();
});

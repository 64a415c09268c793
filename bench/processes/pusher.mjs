/**
 * The limit of push: undici's Pool alone, sending the same body again and again with fresh signatures (the two HMACs that a delivery
 * carries, over the real body), a fixed number in flight. It builds no batch and settles nothing.
 */
import { createHmac, randomUUID } from "node:crypto";
import { Pool } from "undici";
import { serveJobs } from "../parts/child.mjs";

const key = Buffer.alloc(32, 7);

function headersOf(body) {
  const id = randomUUID();
  const t = String(Math.floor(Date.now() / 1000));
  const hex = createHmac("sha256", key).update(`${t}.`).update(body).digest("hex");
  const base64 = createHmac("sha256", key).update(`${id}.${t}.`).update(body).digest("base64");
  return {
    "content-type": "application/json",
    "user-agent": "Millrace/bench",
    "ezgh-signature": `t=${t},v1=${hex}`,
    "ezgh-delivery-id": id,
    "webhook-id": id,
    "webhook-timestamp": t,
    "webhook-signature": `v1,${base64}`,
  };
}

serveJobs({
  async run({ port, text, connections, seconds }) {
    const pool = new Pool(`http://127.0.0.1:${port}`, { connections, pipelining: 1 });
    const body = Buffer.from(text);
    const start = performance.now();
    const from = start + 500;
    const end = from + seconds * 1000;
    let counted = 0;
    let failed = 0;
    const lane = async () => {
      for (;;) {
        const answer = await pool.request({ path: "/", method: "POST", headers: headersOf(body), body });
        await answer.body.dump();
        const now = performance.now();
        if (now >= end) return;
        if (answer.statusCode !== 200) failed += 1;
        else if (now >= from) counted += 1;
      }
    };
    await Promise.all(Array.from({ length: connections }, lane));
    await pool.close();
    return { perSecond: counted / seconds, failed };
  },
});

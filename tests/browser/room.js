// A waiting room for one test: a shop, the real program in front of it, and a browser.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import http from "node:http";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { chromium } from "playwright-core";

const REPOSITORY = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const PROGRAM =
  process.env.ANTEROOM ||
  path.join(process.env.CARGO_TARGET_DIR || path.join(REPOSITORY, "target"), "debug/anteroom");

/** Milliseconds that anything may take before a test gives up. */
export const PATIENCE = 20_000;

const BROWSER = {
  executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
  args: [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ],
};

/** Waits until `holds` does. */
export async function until(what, holds) {
  const end = Date.now() + PATIENCE;
  while (Date.now() < end) {
    if (await holds()) return;
    await pause(20);
  }
  throw new Error(`never: ${what}`);
}

async function freePort() {
  const server = net.createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** The origin: remembers which addresses of the event it was asked for. */
async function openShop() {
  const asked = [];
  const server = http.createServer((request, response) => {
    if (request.url.startsWith("/buy")) asked.push(request.url);
    response.setHeader("Content-Type", "text/html; charset=utf-8");
    response.end(`<!doctype html><title>Shop</title><h1>The shop</h1><a href="${request.url}">again</a>`);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { server, asked, port: server.address().port };
}

/** Opens a room with the event `tour` on `/buy`, ended by `close`. */
export async function openRoom({ event = "capacity: 10, max_admit_per_sec: 10" } = {}) {
  const folder = await mkdtemp(path.join(os.tmpdir(), "anteroom-browser-"));
  const shop = await openShop();
  const [door, admin, metrics] = [await freePort(), await freePort(), await freePort()];
  const file = path.join(folder, "anteroom.yaml");
  await writeFile(
    file,
    [
      `node: { id: 1, data_dir: ./data }`,
      `listeners: [ { address: "127.0.0.1:${door}" } ]`,
      `admin: { address: "127.0.0.1:${admin}" }`,
      `metrics: { address: "127.0.0.1:${metrics}" }`,
      `default_origin: shop`,
      `origins: { shop: { servers: ["127.0.0.1:${shop.port}"] } }`,
      `events: [ { id: tour, match: [ { path: /buy } ], origin: shop, ${event} } ]`,
    ].join("\n"),
  );
  const node = spawn(PROGRAM, ["run", "-c", file], { stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  node.stderr.on("data", (text) => (log += text));
  const ended = once(node, "exit");
  await until("the node is ready", async () => {
    if (node.exitCode !== null) throw new Error(`the node ended: ${log}`);
    const answer = await fetch(`http://127.0.0.1:${metrics}/readyz`).catch(() => undefined);
    return answer?.ok;
  });
  const token = (await readFile(path.join(folder, "data/admin.token"), "utf8")).trim();
  const browser = await chromium.launch(BROWSER);

  return {
    shop,
    browser,
    at: (where) => `http://127.0.0.1:${door}${where}`,
    /** Asks the operator's API about the event. */
    async operator(method, what = "") {
      const answer = await fetch(`http://127.0.0.1:${admin}/admin/events/tour${what}`, {
        method,
        headers: { Authorization: `Bearer ${token}` },
      });
      if (!answer.ok) throw new Error(`${method} ${what}: ${answer.status} ${await answer.text()}`);
      return answer.json();
    },
    async close() {
      await browser.close();
      node.kill("SIGKILL");
      await ended;
      shop.server.close();
      shop.server.closeAllConnections();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

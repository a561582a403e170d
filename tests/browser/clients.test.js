// The JavaScript of docs/clients.md, as it stands there, against the program.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";

import { openRoom, until } from "./room.js";

const GUIDE = new URL("../../docs/clients.md", import.meta.url);

let room;
let enter;

before(async () => {
  const sample = (await readFile(GUIDE, "utf8")).match(/```js\n(.*?)```/s)[1];
  ({ enter } = await import(`data:text/javascript,${encodeURIComponent(`${sample}\nexport { enter };`)}`));
  room = await openRoom();
});
after(() => room?.close());

test("an app gets in at once where there is no line, and by its turn where there is one", async () => {
  const wanted = room.at("/buy/seat");
  const atOnce = await enter(wanted);
  assert.deepEqual([atOnce.response.status, atOnce.pass], [200, undefined]);

  await room.operator("POST", "/pause");
  const seen = [];
  const entering = enter(wanted, { show: (told) => seen.push(told) });
  await until("the app is told that it waits", () => seen.length > 0);
  assert.equal(seen[0].phase, "paused");
  assert.equal(room.shop.asked.length, 1);
  await room.operator("POST", "/resume");
  const { pass, response } = await entering;
  assert.equal(response.status, 200);
  assert.equal(room.shop.asked.length, 2);

  await room.operator("POST", "/pause");
  const left = await fetch(room.at("/waitingroom/tour/ticket"), {
    method: "DELETE",
    headers: { "Anteroom-Pass": pass, Accept: "application/json" },
  });
  assert.equal(left.status, 204);
  const after = await fetch(wanted, { headers: { "Anteroom-Pass": pass, Accept: "application/json" } });
  assert.equal(after.status, 429);
  assert.equal((await after.json()).present, "Anteroom-Pass");
});

test("an app whose place has ended is told why, and does not join anew by itself", async () => {
  const seen = [];
  const entering = enter(room.at("/buy/seat"), { show: (told) => seen.push(told) });
  await until("the app is told that it waits", () => seen.length > 0);
  await room.operator("POST", "/reset");
  await assert.rejects(entering, { message: "reset" });
  await room.operator("POST", "/resume");
});

// What a visitor of the waiting page sees, in a real browser.

import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";

import { openRoom, PATIENCE, until } from "./room.js";

const PRODUCT = "/buy/seat?row=7&note=a%2Fb+c&empty=";

let room;
let visitor;

before(async () => (room = await openRoom()));
after(() => room?.close());
beforeEach(async () => {
  await room.operator("POST", "/pause");
  visitor = undefined;
});
afterEach(() => visitor?.close());

/** A visitor with cookies of its own. */
async function visit(options) {
  visitor = await room.browser.newContext(options);
  visitor.setDefaultTimeout(PATIENCE);
  return visitor.newPage();
}

async function isInLine(page) {
  await page.waitForURL((url) => url.pathname === "/waitingroom/tour");
  await page.waitForSelector("#reference");
}

async function isInside(page) {
  await page.waitForURL(room.at(PRODUCT));
  assert.equal(await page.textContent("h1"), "The shop");
}

test("who waits comes back to the exact address asked for", async () => {
  const page = await visit();
  const asked = room.shop.asked.length;
  await page.goto(room.at(PRODUCT));
  await isInLine(page);
  assert.match(await page.textContent("#sentence"), /paused/);
  assert.equal(room.shop.asked.length, asked, "nothing reached the shop before the turn");

  await room.operator("POST", "/resume");
  await isInside(page);
  assert.equal(room.shop.asked.at(-1), PRODUCT);

  await page.click("a");
  await isInside(page);
});

test("nobody needs JavaScript to wait", async () => {
  const page = await visit({ javaScriptEnabled: false });
  await page.goto(room.at(PRODUCT));
  await isInLine(page);
  const reference = await page.textContent("#reference");
  await page.reload();
  assert.equal(await page.textContent("#reference"), reference, "a reload keeps the place");

  await room.operator("POST", "/resume");
  await isInside(page);
});

test("two tabs have one place, and both get in", async () => {
  const first = await visit();
  await first.goto(room.at(PRODUCT));
  await isInLine(first);
  const second = await visitor.newPage();
  await second.goto(room.at(PRODUCT));
  await isInLine(second);
  assert.equal(await first.textContent("#reference"), await second.textContent("#reference"));

  const inside = async () => (await room.operator("GET")).slots.live_passes;
  const before = await inside();
  await room.operator("POST", "/resume");
  await Promise.all([isInside(first), isInside(second)]);
  await until("the ledger has heard of the pass", async () => (await inside()) > before);
  await Promise.all([first.reload(), second.reload()]);
  assert.equal(await inside(), before + 1, "both tabs share one pass");
});

test("a hidden tab keeps its turn until somebody looks", async () => {
  const page = await visit();
  await page.addInitScript(() => {
    let seen = "visible";
    Object.defineProperty(document, "visibilityState", { get: () => seen });
    globalThis.look = (state) => {
      seen = state;
      document.dispatchEvent(new Event("visibilitychange"));
    };
  });
  await page.goto(room.at(PRODUCT));
  await isInLine(page);
  await page.evaluate(() => globalThis.look("hidden"));

  await room.operator("POST", "/resume");
  await page.waitForSelector("#turn:not([hidden])");
  assert.match(await page.textContent("#sentence"), /your turn/);
  assert.equal(new URL(page.url()).pathname, "/waitingroom/tour", "a hidden tab takes no slot");

  await page.evaluate(() => globalThis.look("visible"));
  await isInside(page);
});

test("the button lets a tab in that the browser takes for hidden", async () => {
  const page = await visit();
  await page.addInitScript(() => Object.defineProperty(document, "visibilityState", { get: () => "hidden" }));
  await page.goto(room.at(PRODUCT));
  await isInLine(page);
  await room.operator("POST", "/resume");
  await page.click("#enter");
  await isInside(page);
});

test("who leaves the line gives up the place", async () => {
  const page = await visit();
  await page.goto(room.at(PRODUCT));
  await isInLine(page);
  const reference = await page.textContent("#reference");
  await page.click("text=Leave the line");
  await page.waitForFunction(() => !document.getElementById("reference"));
  await page.goto(room.at(PRODUCT));
  await isInLine(page);
  assert.notEqual(await page.textContent("#reference"), reference);
});

test("without cookies the page says what is missing, and makes no ghost", async () => {
  const page = await visit({ javaScriptEnabled: false });
  await page.route("**/*", (route) => {
    const headers = { ...route.request().headers() };
    delete headers.cookie;
    return route.continue({ headers });
  });
  await page.goto(room.at("/waitingroom/tour?to=/buy&j=1"));
  await page.context().clearCookies();
  assert.match((await page.textContent("main")).toLowerCase(), /cookies/);
  assert.equal(await page.$("#reference"), null);
});

test("the page fits a phone and has no fault in its console", async () => {
  const page = await visit({ viewport: { width: 320, height: 568 } });
  const faults = [];
  page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
  page.on("pageerror", (error) => faults.push(String(error)));
  await page.goto(room.at(PRODUCT));
  await isInLine(page);
  await until("the page has polled", async () => (await page.$("#connection[hidden]")) !== null);
  const overflow = await page.evaluate(
    () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
  );
  assert.equal(overflow, 0, "nothing has to be scrolled sideways");
  assert.deepEqual(faults.filter((text) => !text.includes("favicon")), []);
});

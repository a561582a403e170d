// In which language a visitor reads the waiting page, in a real browser.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";

import { openRoom, PATIENCE } from "./room.js";

const PRODUCT = "/buy/seat";

let room;
let visitor;

before(async () => {
  room = await openRoom({ event: "capacity: 10, max_admit_per_sec: 10, language: nl" });
  await room.operator("POST", "/pause");
});
after(() => room?.close());
afterEach(() => visitor?.close());

async function visit(options) {
  visitor = await room.browser.newContext(options);
  visitor.setDefaultTimeout(PATIENCE);
  const page = await visitor.newPage();
  await page.goto(room.at(PRODUCT));
  await page.waitForSelector("#reference");
  return page;
}

const told = (page) =>
  page.evaluate(() => ({
    lang: document.documentElement.lang,
    direction: getComputedStyle(document.body).direction,
    sentence: document.getElementById("sentence").textContent,
    position: document.getElementById("position").textContent,
  }));

test("the page is in the browser's language, and in the event's where there is none", async () => {
  const arabic = await told(await visit({ locale: "ar-EG" }));
  assert.deepEqual([arabic.lang, arabic.direction], ["ar", "rtl"]);
  await visitor.close();
  const swedish = await told(await visit({ locale: "sv-SE" }));
  assert.deepEqual([swedish.lang, swedish.direction], ["nl", "ltr"]);
});

test("the script says what the server said", async () => {
  for (const locale of ["he", "uk", "zh-TW"]) {
    const plain = await visit({ locale, javaScriptEnabled: false });
    const { cookies } = await visitor.storageState();
    const lines = await plain.locator("#sentence, #position").allTextContents();
    await visitor.close();
    visitor = await room.browser.newContext({ locale });
    await visitor.addCookies(cookies);
    const page = await visitor.newPage();
    const polled = page.waitForResponse((answer) => answer.url().includes("/status"));
    await page.goto(room.at(PRODUCT));
    await (await polled).finished();
    await page.waitForFunction(() => document.title.includes(" · "));
    assert.deepEqual(await page.locator("#sentence, #position").allTextContents(), lines);
    await visitor.close();
  }
});

test("who chooses a language keeps the place and the language", async () => {
  const page = await visit({ locale: "en" });
  const reference = await page.textContent("#reference");
  await page.selectOption("#lang", "fr");
  await page.click("form:has(#lang) button");
  await page.waitForSelector("html[lang=fr]");
  assert.equal(await page.textContent("#reference"), reference);
  await page.goto(room.at(PRODUCT));
  await page.waitForSelector("html[lang=fr]");
  assert.equal(await page.textContent("#reference"), reference);
});

test("the page fits a phone in every language", async () => {
  const page = await visit({ viewport: { width: 320, height: 568 } });
  const tags = await page.$$eval("#lang option", (options) => options.map((option) => option.value));
  assert.equal(tags.length, 18);
  for (const tag of tags) {
    await page.goto(room.at(`/waitingroom/tour?lang=${tag}`));
    const overflow = await page.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    );
    assert.deepEqual([(await told(page)).lang, overflow], [tag, 0]);
  }
});

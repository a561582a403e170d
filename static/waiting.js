// Before this stands `const words = {…};`: what is said here, in one language.
(() => {
  "use strict";
  const room = document.getElementById("room");
  if (!room) return;
  const at = (id) => document.getElementById(id);
  const { standing, waits } = words;
  const language = document.documentElement.lang;
  const plural = new Intl.PluralRules(language);
  // Latin digits, always in groups, as the server writes them.
  const whole = new Intl.NumberFormat(`${language}-u-nu-latn`, { useGrouping: "always" });
  let timer = 0;
  let failures = 0;
  let takeTurn = false;

  const say = (element, text) => {
    if (element.textContent !== text) element.textContent = text;
  };

  const span = (low, high) =>
    low === high ? whole.format(low) : `${whole.format(low)}–${whole.format(high)}`;

  const clock = (seconds) => `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;

  // As the server tells waits: in seconds below a minute, with them below five minutes, then in minutes.
  const wait = (low, high) => {
    if (high <= 6) return waits.moment;
    if (high === 60) return low < 30 ? waits.up_to_a_minute : waits.a_minute;
    const [forms, unit] = high < 60 ? [waits.seconds, 1] : high < 300 ? [waits.clock, 1] : [waits.minutes, 60];
    const [least, most] = [low, high].map((seconds) => Math.floor(seconds / unit));
    const form = least === most ? forms.exact : least === 0 ? forms.up_to : forms.between;
    const tell = (number) => (forms === waits.clock ? clock(number) : whole.format(number));
    const text = form.other ? form[plural.select(most)] || form.other : form;
    return text.replace("{low}", tell(least)).replace(/\{high\}|\{n\}/, tell(most));
  };

  const show = (status) => {
    at("connection").hidden = true;
    say(at("sentence"), status.called ? standing.called : standing[status.phase] || standing.queueing);
    const [first, last] = status.position_range || [0, 0];
    at("position-row").hidden = last === 0;
    say(at("position"), span(first, last));
    const eta = status.eta_range_min;
    at("eta-row").hidden = !eta;
    if (eta) say(at("eta"), wait(Math.round(eta[0] * 60), Math.round(eta[1] * 60)));
    at("progress").hidden = status.progress === undefined;
    if (status.progress !== undefined) at("progress").value = Math.round(status.progress * 100);
    at("message").hidden = !status.message;
    say(at("message"), status.message || "");
    at("turn").hidden = !(status.called && status.claim_by);
    document.title = last > 0 ? `${span(first, last)} · ${document.title.replace(/^[^·]* · /, "")}` : document.title;
  };

  const again = (after) => {
    clearTimeout(timer);
    timer = setTimeout(poll, after);
  };

  const lost = () => {
    failures += 1;
    at("connection").hidden = failures < 2;
    const ceiling = Math.min(30000, 1000 * 2 ** failures);
    again(ceiling / 2 + Math.random() * (ceiling / 2));
  };

  async function poll() {
    const hold = document.visibilityState === "hidden" && !takeTurn;
    let response;
    let status;
    try {
      response = await fetch(room.dataset.status + (hold ? "?hold=1" : ""), {
        headers: { Accept: "application/json" },
        cache: "no-store",
        credentials: "same-origin",
        redirect: "error",
      });
      status = await response.json();
    } catch {
      lost();
      return;
    }
    if (status.state === "admitted") {
      location.replace(room.dataset.to);
    } else if (status.state === "waiting") {
      failures = 0;
      show(status);
      again(status.poll_after_ms);
    } else if (response.status === 401 || response.status === 410 || response.status === 404) {
      location.replace(room.dataset.page);
    } else if (status.retry_after_ms) {
      again(status.retry_after_ms * (1 + Math.random() / 4));
    } else {
      lost();
    }
  }

  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") again(0);
  });
  at("enter").addEventListener("click", () => {
    takeTurn = true;
    again(0);
  });
  addEventListener("pageshow", (event) => {
    if (event.persisted) again(0);
  });
  again(Number(room.dataset.pollAfterMs) || 2000);
})();

// What the page does beyond plain forms: it follows the store, and it listens to the keyboard.
"use strict";

const REST_MS = 600; // between two refreshes: agents may write a thousand events a second
const SETTLE_MS = 450; // a button that has just moved takes no click meant for another

const live = () => document.getElementById("live");
const items = () => [...document.querySelectorAll("[data-item]")];
const selected = () => document.querySelector("[data-selected]");

// --- the page follows the store

// A browser opens six connections to one address, for all its pages together. So one page listens, and the others hear of it from there.
function follow() {
  const others = new BroadcastChannel("live");
  let heard = "";
  const hear = (what) => {
    if (what === "changed" || !heard) refresh(); // the first time for what changed while the page was on its way
    heard = what;
    const lost = what === "lost";
    const state = document.getElementById("state");
    state.hidden = false;
    state.classList.toggle("off", lost);
    document.getElementById("state-text").textContent = lost ? "not connected" : "live";
    part(lost);
  };
  const listen = () =>
    new Promise(() => { // until this page is left; then another one listens
      const tell = (what) => { hear(what); others.postMessage(what); };
      const source = new EventSource("/live");
      source.addEventListener("changed", () => tell("changed"));
      source.addEventListener("error", () => tell("lost"));
      others.addEventListener("message", ({ data }) => data === "new" && heard && others.postMessage(heard === "lost" ? "lost" : "live"));
    });
  others.addEventListener("message", ({ data }) => data !== "new" && hear(data));
  others.postMessage("new");
  navigator.locks ? navigator.locks.request("live", listen) : listen();
}

// Without the server an answer would be lost: what was typed stays, and no button takes it.
function part(lost) {
  document.getElementById("gone").hidden = !lost;
  for (const button of document.querySelectorAll("form[method=post] button")) button.disabled = lost;
}

let stale = false;
let refreshing = false;

async function refresh() {
  stale = true;
  if (refreshing) return; // htmx would drop a second request
  refreshing = true;
  try {
    while (stale && live()) {
      stale = false;
      const open = [...document.querySelectorAll("[id] > details[open]")].map((one) => one.parentElement.id);
      await htmx.ajax("GET", location.pathname + location.search, { target: "#live", select: "#live", swap: "outerMorph" });
      for (const id of open) document.getElementById(id)?.querySelector(":scope > details")?.setAttribute("open", "");
      await new Promise((done) => setTimeout(done, REST_MS));
    }
  } finally {
    refreshing = false;
  }
}

let order = "";

function settle() {
  const now = items().map((one) => one.id).join();
  const moved = order && !now.startsWith(order);
  order = now;
  const count = Number(live()?.dataset.count ?? 0);
  document.title = document.title.replace(/^(\(\d+\) )?/, count ? `(${count}) ` : "");
  if (!moved || !live()) return;
  const region = live();
  region.classList.add("settling");
  setTimeout(() => region.classList.remove("settling"), SETTLE_MS);
}

// What an answer that can be undone has left is counted down here: no request a second.
setInterval(() => {
  for (const left of document.querySelectorAll("[data-due]")) {
    const seconds = Math.round((Date.parse(left.dataset.due) - Date.now()) / 1000);
    left.textContent = seconds > 0 ? `${seconds} s left` : "over";
  }
}, 1000);

const NOTICE_MS = 8000;

let fading;
let told = "";

function fade() {
  const notice = document.querySelector("#notices .notice:not(.notice-bad)");
  if (!notice || notice.textContent === told) return;
  clearTimeout(fading); // an earlier notice may have been in the same element
  told = notice.textContent;
  fading = setTimeout(() => { notice.remove(); told = ""; }, NOTICE_MS);
}

// --- the keyboard

function select(item) {
  selected()?.removeAttribute("data-selected");
  if (!item) return;
  item.setAttribute("data-selected", "");
  item.focus({ preventScroll: true });
  item.scrollIntoView({ block: "nearest" });
}

function move(step) {
  const all = items();
  const at = all.indexOf(selected());
  select(all[at < 0 ? 0 : Math.min(all.length - 1, Math.max(0, at + step))]);
}

// A key only begins an answer: Enter, on the button, records it.
function begin(number) {
  const buttons = selected()?.querySelectorAll(".answer button[name=action]") ?? [];
  buttons[number]?.focus();
}

function open(item) {
  const details = item?.querySelector(":scope > details");
  details?.toggleAttribute("open");
}

const keys = {
  j: () => move(1),
  k: () => move(-1),
  a: () => begin(0),
  d: () => begin(1),
  z: () => selected()?.querySelector(".later button")?.focus(),
  u: () => [...document.querySelectorAll("[data-undo]")].at(-1)?.focus(),
  o: () => open(selected()),
  r: () => selected()?.querySelector(".answer input[name=text]")?.focus(),
  "?": () => document.getElementById("help").showModal(),
};

function choose(digit) {
  const option = selected()?.querySelectorAll(".answer input[type=radio]")[digit - 1];
  if (option) option.checked = true;
}

// In a picture of sessions one mark is reached by Tab, and the arrow keys go on from it.
function walk(mark, step) {
  const marks = [...mark.closest(".tracks").querySelectorAll("a")];
  const next = marks[marks.indexOf(mark) + step];
  if (!next) return;
  mark.setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
}

document.addEventListener("keydown", (event) => {
  const mark = event.target.closest(".tracks a");
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (mark && step && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    walk(mark, step);
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || document.querySelector("dialog[open]")) return;
  const typing = event.target.matches("input:not([type=radio]), textarea, select");
  if (event.key === "Escape" && typing) select(event.target.closest("[data-item]"));
  if (typing || (live()?.classList.contains("settling") && event.key !== "u")) return;
  if (/^[1-9]$/.test(event.key)) choose(Number(event.key));
  const action = keys[event.key];
  if (action) {
    event.preventDefault();
    action();
  }
});

document.addEventListener("focusin", (event) => {
  const item = event.target.closest("[data-item]");
  if (item && item !== selected()) {
    selected()?.removeAttribute("data-selected");
    item.setAttribute("data-selected", "");
  }
});

document.addEventListener("htmx:after:swap", () => { settle(); fade(); });

const help = document.getElementById("help-button");
help.hidden = false;
help.addEventListener("click", keys["?"]);
settle();
function arrive() {
  const item = location.hash && document.getElementById(location.hash.slice(1))?.closest("[data-item]");
  if (!item) return;
  select(item);
  item.querySelector(":scope > details")?.setAttribute("open", "");
}

addEventListener("hashchange", arrive);
arrive();
fade();
if (live()) follow();

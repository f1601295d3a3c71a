"use strict";
(() => {
const root = document.documentElement;
const all = (what, where = document) => [...where.querySelectorAll(what)];
const make = (tag, given) => Object.assign(document.createElement(tag), given);
root.classList.add("js");

// What a cell is sorted by: the number it begins with, else its text.
const key = cell => {
  const text = cell.textContent.trim();
  const number = text.replace(/[,\s]/g, "").replace(/^\u2212/, "-").match(/^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?/);
  return number && cell.tagName === "TD" && !cell.classList.contains("w") ? Number(number[0]) : text;
};
const order = (a, b) => typeof a === "number" && typeof b === "number" ? a - b
  : typeof a === "number" ? -1 : typeof b === "number" ? 1
  : a.localeCompare(b, undefined, { numeric: true });

function sort(table, place, head) {
  const down = head.getAttribute("aria-sort") === "descending"
    || (head.getAttribute("aria-sort") === "none" && place === 0);
  all("thead th", table).forEach(one => one.setAttribute("aria-sort", "none"));
  head.setAttribute("aria-sort", down ? "ascending" : "descending");
  const rows = [...table.tBodies[0].rows].map((row, at) => ({ row, at, by: key(row.cells[place]) }));
  rows.sort((a, b) => {
    // What is no number stays at the end of a column of numbers, whichever way it is sorted.
    if (typeof a.by !== typeof b.by) return order(a.by, b.by);
    return (down ? 1 : -1) * order(a.by, b.by) || a.at - b.at;
  });
  table.tBodies[0].append(...rows.map(one => one.row));
}

all("svg.b").forEach(one => one.setAttribute("aria-hidden", "true"));

for (const table of all("table")) {
  const heads = all("thead th", table);
  // Cards of a phone are blocks; the roles keep them a table for screen readers.
  table.setAttribute("role", "table");
  all("thead,tbody", table).forEach(one => one.setAttribute("role", "rowgroup"));
  for (const row of table.rows) {
    row.setAttribute("role", "row");
    [...row.cells].forEach((cell, place) => {
      const isHead = cell.parentNode.parentNode.tagName === "THEAD";
      cell.setAttribute("role", cell.tagName === "TD" ? "cell" : isHead ? "columnheader" : "rowheader");
      if (cell.tagName === "TD") cell.dataset.l = heads[place].dataset.n || heads[place].textContent;
    });
  }
  if (!table.classList.contains("s")) continue;
  heads.forEach((head, place) => {
    const button = make("button", { type: "button" });
    button.append(...[...head.childNodes].filter(one => one.nodeName !== "svg"));
    head.prepend(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => sort(table, place, head));
  });
}

const tools = document.getElementById("tools");
tools.hidden = false;

const words = document.getElementById("filter"), count = document.getElementById("count");
words?.addEventListener("input", () => {
  const wanted = words.value.trim().toLowerCase();
  const found = new Set();
  for (const row of all("table.f tbody tr")) {
    const name = row.cells[0].textContent;
    row.hidden = !name.toLowerCase().includes(wanted);
    if (!row.hidden) found.add(name);
  }
  count.value = wanted ? `${found.size} shown` : "";
});

const chosen = document.getElementById("metric");
chosen?.addEventListener("change", () => {
  all("[data-g]").forEach(one => { one.hidden = chosen.value !== "" && one.dataset.g !== chosen.value; });
});

const theme = document.getElementById("theme");
theme.addEventListener("change", () => {
  if (theme.value) root.dataset.theme = theme.value; else delete root.dataset.theme;
});

// Values on hover and on focus, at once; without a script the browser shows the same titles.
const tip = document.body.appendChild(make("div", { className: "tip", hidden: true, ariaHidden: "true" }));
const hints = new WeakMap();
document.addEventListener("pointerover", event => {
  const found = event.target.closest?.(".h,td[title],td[data-t]");
  tip.hidden = !found;
  if (!found) return;
  if (!hints.has(found)) {
    const title = found.querySelector(":scope > title");
    hints.set(found, title ? title.textContent : found.title);
    // The browser's own, later, tip would stand over ours.
    title?.remove();
    if (found.title) { found.dataset.t = ""; found.removeAttribute("title"); }
  }
  tip.textContent = hints.get(found);
});
document.addEventListener("pointermove", event => {
  const right = event.clientX + tip.offsetWidth + 24 > innerWidth;
  const x = right ? event.clientX - tip.offsetWidth - 12 : event.clientX + 14;
  tip.style.left = `${Math.max(4, x)}px`;
  tip.style.top = `${Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 4)}px`;
});
document.addEventListener("keydown", event => { if (event.key === "Escape") tip.hidden = true; });

// A printed page has nothing to unfold.
let closed = [];
addEventListener("beforeprint", () => {
  closed = all("details:not([open])");
  closed.forEach(one => { one.open = true; });
});
addEventListener("afterprint", () => closed.forEach(one => { one.open = false; }));
})();

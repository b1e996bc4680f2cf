"""How the report's page looks, and the script that sorts its tables."""

from __future__ import annotations

STYLE = """
.tilewright { --paper: #fff; --ink: #1b1f24; --dim: #59636e; --rule: #d1d9e0; --soft: #f3f5f7;
  --bad: #b3261e; --good: #1a6e33; --link: #0550ae; --w: #c2410c; --s: #1d6fa5; --aim: #fff3bf;
  color-scheme: light dark; background: var(--paper); color: var(--ink); padding: 1rem;
  font: 15px/1.45 system-ui, sans-serif; }
@media (prefers-color-scheme: dark) {
  .tilewright { --paper: #14171b; --ink: #e3e7eb; --dim: #9aa5b1; --rule: #363d46;
    --soft: #1e2329; --bad: #ff8a80; --good: #6fd08c; --link: #7db7ff; --w: #f0883e;
    --s: #58a6d8; --aim: #4a4010; } }
body:has(> main.tilewright) { margin: 0; }
main.tilewright { box-sizing: border-box; min-height: 100vh; }
.tilewright h1 { font-size: 1.4rem; margin: 0; overflow-wrap: anywhere; }
.tilewright h2 { font-size: 1.1rem; margin: 1.6rem 0 .4rem; overflow-wrap: anywhere; }
.tilewright ul { margin: .4rem 0; padding-left: 1.2rem; }
.tilewright a { color: var(--link); }
.tilewright :focus-visible { outline: 2px solid var(--link); outline-offset: 1px; }
.tilewright .verdict { font-weight: 700; margin: .4rem 0; }
.tilewright .good { color: var(--good); }
.tilewright .bad { color: var(--bad); }
.tilewright .findings li { margin: .4rem 0; overflow-wrap: anywhere; }
.tilewright small { color: var(--dim); }
.tilewright .scroll { overflow-x: auto; }
.tilewright .printed { font: 13px/1.45 ui-monospace, monospace; white-space: pre-wrap;
  overflow-wrap: anywhere; background: var(--soft); color: inherit; padding: .5rem; margin: 0; }
.tilewright table { border-collapse: collapse; font-variant-numeric: tabular-nums;
  font-size: 13px; margin: 0; }
.tilewright caption { position: absolute; width: 1px; height: 1px; overflow: hidden;
  clip-path: inset(50%); }
.tilewright th, .tilewright td { background: none; color: inherit; text-align: right;
  padding: .1rem .5rem; vertical-align: top; border: 0; }
.tilewright thead th { border-bottom: 1px solid var(--rule); color: var(--dim); }
.tilewright thead button { all: unset; cursor: pointer; text-decoration: underline dotted; }
.tilewright thead button:focus-visible { outline: 2px solid var(--link); }
.tilewright .sortable td { border-bottom: 1px solid var(--rule); }
.tilewright .demands { list-style: none; padding: 0; }
.tilewright .sortable :is(td, th):first-child { text-align: left; }
.tilewright .source :is(td, th):last-child { text-align: left; width: 100%; }
.tilewright .source tbody tr { background: none; }
.tilewright .source tbody th { font-weight: 400; white-space: nowrap;
  border-right: 1px solid var(--rule); }
.tilewright .source tbody th a { color: var(--dim); text-decoration: none; }
.tilewright .worst tbody:not([data-rank]) { display: none; }
.tilewright .order { font: inherit; color: inherit; background: var(--soft); padding: .1rem .6rem;
  border: 1px solid var(--rule); border-radius: 4px; cursor: pointer; margin-bottom: .3rem; }
.tilewright .order[aria-pressed="true"] { border-color: var(--link); color: var(--link); }
.tilewright .source code { font: 13px/1.45 ui-monospace, monospace; white-space: pre;
  background: none; color: inherit; padding: 0; }
.tilewright .source .hot th a, .tilewright .source .found th a { color: inherit;
  font-weight: 700; }
.tilewright .source .hot, .tilewright .source .found { background: var(--soft); }
.tilewright .source .hot th a::before { content: "! "; }
.tilewright .source .found th a::before { content: "✗ "; }
.tilewright .source .found th { border-right: 3px solid var(--bad); }
.tilewright .source tr:target { background: var(--aim); }
.tilewright .source .note td { text-align: left; padding-left: 4.5rem; white-space: normal; }
.tilewright .source .note:not(.bad) td { color: var(--dim); }
.tilewright .source .gap td { text-align: left; color: var(--dim); font-style: italic; }
.tilewright .bar { display: block; min-width: 8em; margin-bottom: 1px; padding: 0 .2em;
  border: 1px solid var(--rule); line-height: 1.2; }
.tilewright .bar.w { background: repeating-linear-gradient(45deg,
  color-mix(in srgb, var(--w) 55%, transparent) 0 3px,
  color-mix(in srgb, var(--w) 25%, transparent) 3px 6px) 0 0 / var(--n) 100% no-repeat; }
.tilewright .bar.s { background: linear-gradient(
  color-mix(in srgb, var(--s) 45%, transparent) 0 0) 0 0 / var(--n) 100% no-repeat; }
@media print {
  .tilewright { --paper: #fff; --ink: #000; --dim: #444; --rule: #999; --soft: #eee;
    --bad: #900; --good: #060; --link: #000; --aim: #fff; padding: 0; font-size: 10pt; }
  .tilewright .scroll { overflow: visible; }
  .tilewright nav { display: none; }
  .tilewright .worst tbody:not([data-rank]) { display: none; }
.tilewright .order { font: inherit; color: inherit; background: var(--soft); padding: .1rem .6rem;
  border: 1px solid var(--rule); border-radius: 4px; cursor: pointer; margin-bottom: .3rem; }
.tilewright .order[aria-pressed="true"] { border-color: var(--link); color: var(--link); }
.tilewright .source code { white-space: pre-wrap; }
  .tilewright .bar { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  .tilewright tr { break-inside: avoid; }
  .tilewright thead { display: table-header-group; } }
"""

# Buttons are there only where the script runs. A number sorts by its value, descending; a source
# shows its worst lines first, the others hidden, or all in their order. A link to a line that is
# hidden brings the order of the source back.
SCRIPT = """
for (const table of document.querySelectorAll("table.sortable"))
  table.querySelectorAll("thead th").forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.onclick = () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = row => row.cells[column].textContent.replaceAll(",", "");
      const compare = (a, b) => a - b || a.localeCompare(b, undefined, {numeric: true});
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => (down ? -1 : 1) * compare(value(a), value(b)));
      table.tBodies[0].append(...rows);
    };
  });
for (const table of document.querySelectorAll("table.source")) {
  const bodies = [...table.tBodies];
  const ranked = bodies.filter(body => body.dataset.rank !== undefined);
  if (!ranked.length) continue;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "order";
  button.textContent = "Worst lines first";
  const show = worst => {
    button.setAttribute("aria-pressed", worst);
    table.classList.toggle("worst", worst);
    table.append(...bodies);
    if (worst) table.append(...ranked.sort((a, b) => a.dataset.rank - b.dataset.rank));
  };
  button.onclick = () => show(button.getAttribute("aria-pressed") !== "true");
  show(false);
  table.parentNode.before(button);
  addEventListener("hashchange", () => {
    const row = table.querySelector(":target");
    if (row && !row.offsetParent) { show(false); row.scrollIntoView(); }
  });
}
"""
